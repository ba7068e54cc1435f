#include "faults/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "faults/marks.h"

namespace {

bool takes_free_addresses(const std::uint64_t* arguments) {
  return (arguments[3] & MAP_FIXED_NOREPLACE) != 0;
}
bool gives_memory_back(const std::uint64_t* arguments) { return arguments[2] == MADV_DONTNEED; }
bool asks_for_filters(const seccomp_data& data) {
  return data.nr == SYS_prctl && data.args[0] == PR_GET_SECCOMP;
}
bool waits(const std::uint64_t* arguments) {
  const auto operation = arguments[1] & FUTEX_CMD_MASK;
  return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
}

/// A thread that makes itself subject to a filter: the kernel asks `listener` about its calls. Then
/// it becomes the parent of the command.
class Launcher {
 public:
  Launcher(const std::vector<std::string>& command, int output) {
    for (const std::string& word : command) words_.push_back(const_cast<char*>(word.c_str()));
    words_.push_back(nullptr);
    thread_ = std::thread([this, output] { launch(output); });
    while (listener_.load(std::memory_order_acquire) == kNotYet) std::this_thread::yield();
  }
  ~Launcher() { thread_.join(); }
  int listener() const { return listener_.load(std::memory_order_acquire); }  // negative: -errno
  pid_t child() const { return child_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kNotYet = 1 << 30;

  void launch(int output) {
    // The kernel asks about every call.
    sock_filter ask[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)};
    sock_fprog program{1, ask};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const long fd =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    listener_.store(fd >= 0 ? static_cast<int>(fd) : -errno, std::memory_order_release);
    if (fd < 0) return;
    const pid_t pid = vfork();
    if (pid == 0) {
      dup2(output, 1);
      dup2(output, 2);
      execve(words_[0], words_.data(), environ);
      _exit(127);
    }
    child_.store(pid, std::memory_order_relaxed);
  }

  std::vector<char*> words_;
  // release and acquire pair: whoever reads the number of the file sees an open file.
  std::atomic<int> listener_{kNotYet};
  std::atomic<pid_t> child_{0};
  std::thread thread_;
};

/// Decides what becomes of each call.
class Judge {
 public:
  Judge(Window window, const Fault* fault, Run& run) : window_(window), fault_(fault), run_(run) {
    run.counts.resize(call_kinds().size());
  }

  /// \returns  0 to let the kernel do it, else the error.
  int judge(const seccomp_notif& call) {
    const auto* const arguments = reinterpret_cast<const std::uint64_t*>(call.data.args);
    if (call.data.nr == SYS_execve) {
      is_program_ = true;
      is_open_ = window_ == Window::kStartUp;
      return 0;
    }
    if (!is_program_) return 0;
    if (call.data.nr == SYS_getpriority && arguments[0] == kMarkWhich) {
      note(static_cast<Mark>(arguments[1]), call.pid);
      return 0;
    }
    const auto paused = is_paused_.find(call.pid);
    if (!is_open_ || (paused != is_paused_.end() && paused->second)) return 0;
    const std::size_t kind = kind_of(call.data.nr, arguments);
    if (kind == call_kinds().size()) {
      run_.unknown.push_back(call.data.nr);
      return 0;
    }
    const std::size_t nth = ++run_.counts[kind];
    if (fault_ == nullptr || kind != fault_->kind) return 0;
    if (nth != fault_->nth && !(fault_->and_all_later && nth > fault_->nth)) return 0;
    ++run_.failed;
    return fault_->error;
  }

 private:
  void note(Mark mark, std::uint32_t thread) {
    if (window_ == Window::kStartUp) {
      is_open_ = false;
      return;
    }
    if (mark == Mark::kBegin || mark == Mark::kEnd) is_open_ = mark == Mark::kBegin;
    is_paused_[thread] = mark == Mark::kPause;
  }

  Window window_;
  const Fault* fault_;
  Run& run_;
  bool is_program_ = false;  // it was execve'd
  bool is_open_ = false;
  std::map<std::uint32_t, bool> is_paused_;
};

void answer(int listener, Judge& judge) {
  seccomp_notif call{};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return;  // the thread has ended
  seccomp_notif_resp response{};
  response.id = call.id;
  const int error = judge.judge(call);
  response.error = -error;
  // A program that asks for its filters is told 0, none: it is to behave as if nobody watched.
  if (error == 0 && !asks_for_filters(call.data)) response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

}  // namespace

const std::vector<CallKind>& call_kinds() {
  // The first row that fits counts.
  static const std::vector<CallKind> kinds = {
      {"mmap of free addresses", SYS_mmap, takes_free_addresses, {ENOMEM, EEXIST, EAGAIN}},
      {"mmap", SYS_mmap, nullptr, {ENOMEM}},
      {"munmap", SYS_munmap, nullptr, {ENOMEM}},
      {"mremap", SYS_mremap, nullptr, {ENOMEM}},
      {"mprotect", SYS_mprotect, nullptr, {ENOMEM}},
      {"madvise(DONTNEED)", SYS_madvise, gives_memory_back, {ENOMEM, EINVAL, EAGAIN}},
      {"madvise", SYS_madvise, nullptr, {EINVAL, ENOMEM, EAGAIN}},
      {"mincore", SYS_mincore, nullptr, {ENOSYS, ENOMEM, EAGAIN}},
      {"process_madvise", SYS_process_madvise, nullptr, {EPERM, ENOSYS, EBADF, EINVAL}},
      {"prctl", SYS_prctl, nullptr, {EINVAL}},
      {"clone3", SYS_clone3, nullptr, {EAGAIN, ENOSYS}},
      {"clone", SYS_clone, nullptr, {EAGAIN}},
      {"membarrier", SYS_membarrier, nullptr, {ENOSYS, EPERM}},
      {"openat", SYS_openat, nullptr, {EMFILE, ENOENT, EACCES}},
      {"read", SYS_read, nullptr, {EIO, EINTR}},
      {"pread", SYS_pread64, nullptr, {EIO}},
      {"write", SYS_write, nullptr, {ENOSPC, EINTR, EPIPE}},
      {"close", SYS_close, nullptr, {EIO}},
      {"futex(wait)", SYS_futex, waits, {EINTR, EAGAIN}},
      {"futex(wake)", SYS_futex, nullptr, {}},
      {"rt_sigaction", SYS_rt_sigaction, nullptr, {EINVAL}},
      {"getrusage", SYS_getrusage, nullptr, {EINVAL}},
      {"sched_getaffinity", SYS_sched_getaffinity, nullptr, {EINVAL}},
      {"sched_setaffinity", SYS_sched_setaffinity, nullptr, {EINVAL, EPERM}},
      {"sched_getscheduler", SYS_sched_getscheduler, nullptr, {ENOSYS}},
      {"sched_setscheduler", SYS_sched_setscheduler, nullptr, {EPERM}},
      {"newfstatat", SYS_newfstatat, nullptr, {EACCES}},
      {"readlinkat", SYS_readlinkat, nullptr, {ENOENT, EACCES}},
      {"rt_sigprocmask", SYS_rt_sigprocmask, nullptr, {}},
      {"rt_sigpending", SYS_rt_sigpending, nullptr, {}},
      {"rt_sigtimedwait", SYS_rt_sigtimedwait, nullptr, {}},
      {"rt_sigreturn", SYS_rt_sigreturn, nullptr, {}},
      {"exit", SYS_exit, nullptr, {}},
      {"exit_group", SYS_exit_group, nullptr, {}},
      {"getpid", SYS_getpid, nullptr, {}},
      {"gettid", SYS_gettid, nullptr, {}},
      {"sysinfo", SYS_sysinfo, nullptr, {}},
      {"set_robust_list", SYS_set_robust_list, nullptr, {}},
      {"rseq", SYS_rseq, nullptr, {}},
      {"sched_yield", SYS_sched_yield, nullptr, {}},
      {"clock_gettime", SYS_clock_gettime, nullptr, {}},
#ifdef SYS_rename
      {"rename", SYS_rename, nullptr, {EACCES}},
      {"unlink", SYS_unlink, nullptr, {EACCES}},
#endif
      {"renameat", SYS_renameat, nullptr, {EACCES}},
      {"unlinkat", SYS_unlinkat, nullptr, {EACCES}},
  };
  return kinds;
}

std::size_t kind_of(long number, const std::uint64_t* arguments) {
  const std::vector<CallKind>& kinds = call_kinds();
  std::size_t i = 0;
  while (i < kinds.size() &&
         (kinds[i].number != number || (kinds[i].is_it != nullptr && !kinds[i].is_it(arguments))))
    ++i;
  return i;
}

std::string why_not_supervised() {
  Run run = run_supervised({"/bin/true"}, Window::kMarked, nullptr);
  return run.status == 0 ? "" : run.output;
}

Run run_supervised(const std::vector<std::string>& command, Window window, const Fault* fault) {
  Run run;
  Judge judge(window, fault, run);
  int output[2];
  if (pipe2(output, O_CLOEXEC) != 0) return run.status = -1, run;
  {
    Launcher launcher(command, output[1]);
    const int listener = launcher.listener();
    if (listener < 0) {
      run.output = std::string("the kernel refuses to be asked: ") + std::strerror(-listener);
      run.status = -1;
    }
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::minutes(5);
    pollfd files[] = {{listener, POLLIN, 0}, {output[0], POLLIN, 0}};
    const auto read_output = [&] {
      char text[4096];
      const ssize_t n = read(output[0], text, sizeof text);
      if (n > 0) run.output.append(text, static_cast<std::size_t>(n));
    };
    while (listener >= 0) {
      poll(files, 2, 1000);
      if ((files[0].revents & POLLIN) != 0) answer(listener, judge);
      if ((files[1].revents & POLLIN) != 0) read_output();
      if ((files[0].revents & POLLHUP) != 0) break;  // nobody is left who could be asked about
      if (!run.is_late && Clock::now() > deadline) {
        run.is_late = true;
        kill(launcher.child(), SIGKILL);
      }
    }
    if (listener >= 0) {
      close(listener);
      waitpid(launcher.child(), &run.status, 0);
    }
    close(output[1]);
    while (poll(&files[1], 1, 0) > 0 && (files[1].revents & POLLIN) != 0) read_output();
  }
  close(output[0]);
  return run;
}
