#include "process/run_beside.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace strata::cli {
namespace {

constexpr int kPassedOn[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH};

/// Blocks the signals to forward, and SIGCHLD.
class HeldSignals {
 public:
  explicit HeldSignals(int another) {
    ::sigemptyset(&held_);
    for (int signal : kPassedOn) ::sigaddset(&held_, signal);
    if (another != 0) ::sigaddset(&held_, another);
    ::sigaddset(&held_, SIGCHLD);
    // An inherited "ignore" would let the kernel reap the child before us.
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &plain, &original_child_action_);
    ::sigprocmask(SIG_BLOCK, &held_, &original_mask_);
  }
  ~HeldSignals() { restore(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// Async-signal-safe: the child calls it, too.
  void restore() const {
    ::sigaction(SIGCHLD, &original_child_action_, nullptr);
    ::sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
  }

  void wait(siginfo_t& info) const {
    while (::sigwaitinfo(&held_, &info) < 0) {
    }
  }

 private:
  sigset_t held_{};
  sigset_t original_mask_{};
  struct sigaction original_child_action_ {};
};

}  // namespace

BesideResult run_beside(const ProcessPlan& plan,
                        const std::function<void(const BesideResult&)>& at_end,
                        const std::function<void()>& at_start, int signal) {
  int error_pipe[2];
  if (::pipe2(error_pipe, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  const HeldSignals signals(signal);
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    signals.restore();
    const int error = become_process(plan);
    [[maybe_unused]] auto written = ::write(error_pipe[1], &error, sizeof error);
    ::_exit(127);
  }
  ::close(error_pipe[1]);
  int exec_error = 0;
  const bool is_refused = ::read(error_pipe[0], &exec_error, sizeof exec_error) > 0;
  ::close(error_pipe[0]);
  if (!is_refused && at_start) at_start();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) != child) {
    siginfo_t info{};
    signals.wait(info);
    // The terminal sends its signals to the whole foreground group; SIGCHLD usually comes from the
    // kernel.
    if (info.si_code <= 0) ::kill(child, info.si_signo);
  }
  BesideResult result{end_of(status), child};
  if (is_refused) {
    result.end = ProcessResult::End::kNotStarted;
    result.code = exec_error;
  }
  if (at_end) at_end(result);
  if (is_refused) refuse_start(plan, exec_error);
  return result;
}

}  // namespace strata::cli
