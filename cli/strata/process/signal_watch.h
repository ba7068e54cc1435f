#pragma once

#include <csignal>
#include <optional>
#include <string>

namespace strata::cli {

/// Takes Ctrl-C and similar signals as events to be waited for, together with the end of children,
/// so that no code of ours runs inside a signal handler and nothing measured is lost. While one
/// exists, SIGINT, SIGQUIT, SIGTERM, SIGHUP (those not ignored already) and SIGCHLD are blocked.
/// \threads  One object, one thread.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();  ///< as it was before
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  enum class Event { kChild, kInterrupt, kTimeout };

  /// Sleeps until a child changes state, an interrupting signal arrives, or the seconds pass
  /// (nothing: without limit).
  Event wait(std::optional<double> seconds);

  /// The interrupting signal that arrived so far, 0 if none. Looks without waiting.
  int interruption();

  /// The mask that a child must start with.
  const sigset_t& original_mask() const noexcept { return original_mask_; }

 private:
  sigset_t watched_{};
  sigset_t original_mask_{};
  struct sigaction original_child_action_ {};
  int interruption_ = 0;
};

/// Ends this process by that signal, so that the parent sees how it really ended.
[[noreturn]] void die_by_signal(int signal);

/// "SIGSEGV" and the like.
std::string signal_name(int signal);

}  // namespace strata::cli
