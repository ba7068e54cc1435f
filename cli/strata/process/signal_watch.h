#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace strata::cli {

/// Turns Ctrl-C and similar signals, and the end of children, into events to wait for, so that none
/// of our code runs in a signal handler and no measurement is lost. While an object exists, SIGCHLD
/// is blocked, and so are SIGINT, SIGQUIT, SIGTERM and SIGHUP, except those that were ignored.
/// \threads  One object, one thread.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();  ///< restores the signal mask
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  enum class Event { kChild, kInterrupt, kTimeout };

  /// Waits until a child changes state, an interrupting signal arrives, or the time is over
  /// (nothing: no limit).
  Event wait(std::optional<double> seconds);

  /// The interrupting signal received so far, or 0. Does not wait.
  int interruption();

  /// The signal mask for children to start with.
  const sigset_t& original_mask() const noexcept { return original_mask_; }

 private:
  sigset_t watched_{};
  sigset_t original_mask_{};
  struct sigaction original_child_action_ {};
  int interruption_ = 0;
};

/// Ends this process by that signal, so that its parent sees the real cause.
[[noreturn]] void die_by_signal(int signal);

/// "SIGSEGV" and the like.
std::string signal_name(int signal);

}  // namespace strata::cli
