#pragma once

#include <csignal>

namespace strata::cli {

/// As long as it lives, signals are blocked, SIGCHLD is one of them, and SIGCHLD has its default
/// action: an inherited "ignore" would let the kernel reap children before we do, with their usage.
class BlockedSignals {
 public:
  /// \param signals  those to block besides SIGCHLD
  explicit BlockedSignals(const sigset_t& signals);
  ~BlockedSignals() { restore(); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  /// Restores the signal mask and the action of SIGCHLD. Async-signal-safe: a child calls it, too.
  void restore() const;

  /// All that are blocked.
  const sigset_t& set() const noexcept { return set_; }
  /// The signal mask from before.
  const sigset_t& original_mask() const noexcept { return original_mask_; }

 private:
  sigset_t set_;
  sigset_t original_mask_{};
  struct sigaction original_child_action_ {};
};

}  // namespace strata::cli
