#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "process/blocked_signals.h"

namespace strata::cli {

/// Turns Ctrl-C and similar signals, and the end of children, into events to wait for, so that none
/// of our code runs in a signal handler and no measurement is lost. While an object exists, SIGCHLD
/// is blocked, and so are SIGINT, SIGQUIT, SIGTERM and SIGHUP, except those that were ignored.
/// \threads  One object, one thread.
class SignalWatch {
 public:
  SignalWatch();

  enum class Event { kChild, kInterrupt, kTimeout };

  /// Waits until a child changes state, an interrupting signal arrives, or the time is over
  /// (nothing: no limit).
  Event wait(std::optional<double> seconds);

  /// The interrupting signal received so far, or 0. Does not wait.
  int interruption();

  /// The signal mask for children to start with.
  const sigset_t& original_mask() const noexcept { return watched_.original_mask(); }

 private:
  BlockedSignals watched_;
  int interruption_ = 0;
};

/// Whether this process ignores the signal, as under nohup.
bool is_ignored_signal(int signal);

/// Ends this process by that signal, so that its parent sees the real cause.
[[noreturn]] void die_by_signal(int signal);

/// "SIGSEGV" and the like.
std::string signal_name(int signal);

}  // namespace strata::cli
