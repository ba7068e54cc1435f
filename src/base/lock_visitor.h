#pragma once

#include <cstdint>

#include "base/lock.h"

namespace strata {

/// What fork() does to a lock. Each class that has locks, or members that have, passes all of them
/// to a visitor, in the order of their ranks: `void for_each_lock(LockVisitor visit) noexcept`.
/// \threads  The forking thread: what one visitor locks, the next one unlocks or resets.
class LockVisitor {
 public:
  static constexpr LockVisitor lock() noexcept { return LockVisitor(Action::kLock); }
  static constexpr LockVisitor unlock() noexcept { return LockVisitor(Action::kUnlock); }
  /// In the child: the threads that wait in the parent do not exist there.
  static constexpr LockVisitor reset() noexcept { return LockVisitor(Action::kReset); }
  /// The same for locks of one object after those of another like it, which are held: ranks order
  /// the locks of each, and no thread takes those of two but the one that forks.
  constexpr LockVisitor beside_others() const noexcept { return LockVisitor(action_, true); }

  /// Whether it locks. A lock that guards the way to others is visited before those then, and
  /// after them otherwise.
  bool locks() const noexcept { return action_ == Action::kLock; }

  // Not analysed: what one visitor locks, another unlocks.
  void operator()(Lock& lock) const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    switch (action_) {
      case Action::kLock:
        is_beside_others_ ? lock.lock_beside_others() : static_cast<void>(lock.lock());
        break;
      case Action::kUnlock:
        is_beside_others_ ? lock.unlock_beside_others() : lock.unlock();
        break;
      case Action::kReset:
        is_beside_others_ ? lock.reset_beside_others() : lock.reset_after_fork();
        break;
    }
  }

 private:
  enum class Action : std::uint8_t { kLock, kUnlock, kReset };
  explicit constexpr LockVisitor(Action action, bool is_beside_others = false) noexcept
      : action_(action), is_beside_others_(is_beside_others) {}

  Action action_;
  bool is_beside_others_;
};

}  // namespace strata
