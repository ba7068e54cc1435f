#include "process/run_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "input/usage_error.h"
#include "launch/launch_outcome.h"
#include "process/output_capture.h"

namespace strata::cli {
namespace {

/// The time between asking a program to end and killing it.
constexpr double kGraceSeconds = 1.0;

constexpr const char* kPerhapsByTheKernel =
    " (perhaps by the kernel, out of memory: see its log, and give the program less to do)";

[[noreturn]] void throw_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

double to_seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

unsigned long long mask_bits(const sigset_t& mask) {
  unsigned long long bits = 0;
  for (int signal = 1; signal <= 64; ++signal) {
    if (::sigismember(&mask, signal) == 1) bits |= 1ULL << (signal - 1);
  }
  return bits;
}

class OwnFd {
 public:
  explicit OwnFd(int fd = -1) noexcept : fd_(fd) {}
  ~OwnFd() { close(); }
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;

  int get() const noexcept { return fd_; }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

/// Writes the environment for strata-launch to a file that only this user can open, because
/// everyone on the machine can read arguments.
void write_environment(const Environment& environment, int fd) {
  std::string text;
  for (const std::string& entry : environment.entries()) text.append(entry).push_back('\0');
  for (std::string_view rest(text); !rest.empty();) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0) throw_errno("the environment of the command");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// The arguments of strata-launch; see launch.c.
std::vector<std::string> launch_words(const ProcessPlan& plan, const sigset_t& mask, int outcome_fd,
                                      int environment_fd) {
  std::vector<std::string> words = {"strata-launch",
                                    std::to_string(::getpid()),
                                    std::to_string(outcome_fd),
                                    fmt::format("{:x}", mask_bits(mask)),
                                    std::to_string(environment_fd),
                                    plan.program};
  words.insert(words.end(), plan.arguments.begin(), plan.arguments.end());
  return words;
}

void replace_standard_input() {
  struct stat status {};
  bool is_file = ::fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  // Opening it again gives a separate offset, so every run reads from the start.
  int fd = is_file ? ::open("/proc/self/fd/0", O_RDONLY) : -1;
  if (fd < 0) fd = ::open("/dev/null", O_RDONLY);
  if (fd > STDIN_FILENO) {
    ::dup2(fd, STDIN_FILENO);
    ::close(fd);
  }
}

/// Runs between fork and execve: system calls only.
[[noreturn]] void become_launcher(const ProcessPlan& plan, const char* launcher, char* const* words,
                                  int outcome_fd, int environment_fd) {
  char* const no_environment[] = {nullptr};
  ::setpgid(0, 0);
  replace_standard_input();
  if (plan.output_fd >= 0) {
    ::dup2(plan.output_fd, STDOUT_FILENO);
    ::dup2(plan.output_fd, STDERR_FILENO);
  }
  ::fcntl(outcome_fd, F_SETFD, 0);
  ::fcntl(environment_fd, F_SETFD, 0);
  for (int fd : plan.inherited_fds) ::fcntl(fd, F_SETFD, 0);
  ::execve(launcher, words, no_environment);
  strata_launch_outcome outcome{};
  outcome.exec_error = errno;  // usually E2BIG, which the command would have met, too
  [[maybe_unused]] auto written = ::write(outcome_fd, &outcome, sizeof outcome);
  ::_exit(127);
}

/// Waits for the launcher, which ends when the command has ended. The launcher blocks all signals
/// it can, so signals to the group reach only the command.
/// \param status  the launcher's wait status
/// \returns  How we ended it, if we did. The rest of the group is killed in any case.
std::optional<ProcessResult::End> wait_for_launcher(pid_t launcher, const ProcessPlan& plan,
                                                    SignalWatch& signals, int& status) {
  std::optional<ProcessResult::End> ended_by_us;
  std::optional<double> deadline_s;
  std::optional<double> next_look_s;
  if (plan.timeout_s > 0) deadline_s = now_s() + plan.timeout_s;
  if (plan.watch) next_look_s = now_s();
  for (;;) {
    siginfo_t ended{};
    // As a zombie it keeps its process ID, which is also the group's.
    const int waited =
        ::waitid(P_PID, static_cast<id_t>(launcher), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (waited < 0 && errno != EINTR) throw_errno("waitid");
    if (ended.si_pid == launcher) break;
    const double now = now_s();
    if (next_look_s && *next_look_s <= now) next_look_s = now + plan.watch();
    std::optional<double> wake_s = deadline_s;
    if (next_look_s && (!wake_s || *next_look_s < *wake_s)) wake_s = next_look_s;
    std::optional<double> patience_s;
    if (wake_s) patience_s = std::max(0.0, *wake_s - now_s());
    SignalWatch::Event event = signals.wait(patience_s);
    if (event == SignalWatch::Event::kChild) continue;
    bool is_late = deadline_s && now_s() >= *deadline_s;
    if (event == SignalWatch::Event::kTimeout && !is_late) continue;
    bool is_interrupt = event == SignalWatch::Event::kInterrupt;
    int gentle = is_interrupt ? signals.interruption() : SIGTERM;
    ::kill(-launcher, ended_by_us ? SIGKILL : gentle);
    if (is_interrupt) ended_by_us = ProcessResult::End::kInterrupted;
    if (!ended_by_us) ended_by_us = ProcessResult::End::kTimedOut;
    deadline_s = now_s() + kGraceSeconds;
  }
  ::kill(-launcher, SIGKILL);  // surviving descendants would disturb the next run
  while (::waitpid(launcher, &status, 0) < 0 && errno == EINTR) {
  }
  return ended_by_us;
}

ProcessResult result_of(const strata_launch_outcome& outcome) {
  ProcessResult result = end_of(outcome.status);
  if (outcome.exec_error != 0) {
    result.end = ProcessResult::End::kNotStarted;
    result.code = outcome.exec_error;
  }
  result.started_s = outcome.started_s;
  result.elapsed_s = outcome.ended_s - outcome.started_s;
  result.cpu_s = to_seconds(outcome.usage.ru_utime) + to_seconds(outcome.usage.ru_stime);
  result.peak_rss_bytes = static_cast<std::uint64_t>(outcome.usage.ru_maxrss) * 1024;
  result.minor_faults = static_cast<std::uint64_t>(outcome.usage.ru_minflt);
  result.major_faults = static_cast<std::uint64_t>(outcome.usage.ru_majflt);
  return result;
}

}  // namespace

ProcessResult end_of(int status) {
  ProcessResult result;
  if (WIFSIGNALED(status)) {
    result.end = ProcessResult::End::kKilled;
    result.code = WTERMSIG(status);
  } else if (WIFSTOPPED(status)) {
    result.end = ProcessResult::End::kStopped;
    result.code = WSTOPSIG(status);
  } else {
    result.end = ProcessResult::End::kExited;
    result.code = WEXITSTATUS(status);
  }
  return result;
}

std::string own_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) return self.string();
  throw std::runtime_error(
      fmt::format("/proc/self/exe cannot be read: {}; strata needs /proc, as mounted by: mount -t "
                  "proc proc /proc",
                  error.message()));
}

std::string helper_path(const std::string& name) {
  const std::filesystem::path self = own_path();
  std::string path = (self.parent_path().parent_path() / "libexec" / name).string();
  // Not X_OK: packages may install libraries without execute permission.
  if (::access(path.c_str(), F_OK) != 0) {
    throw std::runtime_error(fmt::format("this installation is incomplete: {} is missing", path));
  }
  return path;
}

ProcessResult run_process(const ProcessPlan& plan, SignalWatch& signals) {
  std::string launcher = helper_path("strata-launch");
  const OwnFd environment(::memfd_create("strata-environment", MFD_CLOEXEC));
  if (environment.get() < 0) throw_errno("memfd_create");
  write_environment(plan.environment, environment.get());
  int outcome_pipe[2];
  if (::pipe2(outcome_pipe, O_CLOEXEC) != 0) throw_errno("pipe");
  const OwnFd told(outcome_pipe[0]);
  OwnFd tells(outcome_pipe[1]);
  std::vector<std::string> words =
      launch_words(plan, signals.original_mask(), tells.get(), environment.get());
  std::vector<char*> word_pointers = pointers(words);
  pid_t child = ::fork();
  if (child < 0) throw_errno("fork");
  if (child == 0) {
    become_launcher(plan, launcher.c_str(), word_pointers.data(), tells.get(), environment.get());
  }
  tells.close();
  // parent and child both call it, so it has happened before either goes on
  ::setpgid(child, child);
  int status = 0;
  std::optional<ProcessResult::End> ended_by_us = wait_for_launcher(child, plan, signals, status);
  strata_launch_outcome outcome{};
  const bool is_told = ::read(told.get(), &outcome, sizeof outcome) == sizeof outcome;
  const bool is_unknown = !is_told && !ended_by_us;
  const bool is_killed = is_unknown && WIFSIGNALED(status);
  if (is_unknown && !is_killed) {
    throw std::runtime_error(fmt::format("{} ended without saying how the command went", launcher));
  }
  if (is_killed) outcome.status = status;  // usually its whole group was killed
  ProcessResult result = result_of(outcome);
  result.lost_its_group = is_killed;
  if (ended_by_us) result.end = *ended_by_us;
  return result;
}

std::string ask_program(const std::string& program, std::vector<std::string> arguments,
                        Environment environment) {
  OutputCapture output;
  ProcessPlan plan;
  plan.program = program;
  plan.arguments = std::move(arguments);
  plan.environment = std::move(environment);
  plan.output_fd = output.fd();
  plan.timeout_s = 30;  // takes milliseconds, unless a file system hangs
  int interruption = 0;
  {
    SignalWatch signals;
    run_process(plan, signals);
    interruption = signals.interruption();
  }
  if (interruption != 0) die_by_signal(interruption);
  return output.head();
}

std::string describe_end(const ProcessResult& result, double timeout_s) {
  switch (result.end) {
    case ProcessResult::End::kExited:
      return fmt::format("exit status {}", result.code);
    case ProcessResult::End::kKilled:
      return fmt::format("killed by {}{}{}", signal_name(result.code),
                         result.lost_its_group ? ", with its process group" : "",
                         result.code == SIGKILL ? kPerhapsByTheKernel : "");
    case ProcessResult::End::kStopped:
      return fmt::format("stopped by {} (it uses the terminal, which no measured command has)",
                         signal_name(result.code));
    case ProcessResult::End::kTimedOut:
      return fmt::format("still running after {:g} s", timeout_s);
    case ProcessResult::End::kInterrupted:
      return "interrupted";
    case ProcessResult::End::kNotStarted:
      return fmt::format("could not be started ({})", ::strerror(result.code));
  }
  return {};
}

int become_process(const ProcessPlan& plan) {
  std::vector<std::string> words = plan.arguments;
  std::vector<std::string> entries = plan.environment.entries();
  ::execvpe(plan.program.c_str(), pointers(words).data(), pointers(entries).data());
  return errno;
}

void refuse_start(const ProcessPlan& plan, int error) {
  throw UsageError(fmt::format("could not start '{}': {}", plan.program, ::strerror(error)), 126);
}

double now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace strata::cli
