#include "process/signal_watch.h"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

namespace strata::cli {
namespace {

sigset_t interrupting() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
    if (!is_ignored_signal(signal)) ::sigaddset(&set, signal);  // respects nohup
  }
  return set;
}

timespec to_timespec(double seconds) {
  double whole = std::floor(seconds);
  return {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
}

}  // namespace

SignalWatch::SignalWatch() : watched_(interrupting()) {}

SignalWatch::Event SignalWatch::wait(std::optional<double> seconds) {
  timespec limit = to_timespec(seconds.value_or(0));
  int signal = ::sigtimedwait(&watched_.set(), nullptr, seconds ? &limit : nullptr);
  // Interrupted by an unwatched signal (stop and continue): the caller checks again.
  if (signal < 0) return errno == EAGAIN ? Event::kTimeout : Event::kChild;
  if (signal == SIGCHLD) return Event::kChild;
  interruption_ = signal;
  return Event::kInterrupt;
}

int SignalWatch::interruption() {
  sigset_t signals = watched_.set();
  ::sigdelset(&signals, SIGCHLD);
  timespec now{};
  int signal = ::sigtimedwait(&signals, nullptr, &now);
  if (signal > 0) interruption_ = signal;
  return interruption_;
}

bool is_ignored_signal(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void die_by_signal(int signal) {
  ::prctl(PR_SET_DUMPABLE, 0);  // a core file would be ours, not the command's
  ::signal(signal, SIG_DFL);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);  // if the signal did not kill us
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);  // nullptr for real-time signals
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace strata::cli
