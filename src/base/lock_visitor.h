#pragma once

#include <cstdint>

#include "base/lock.h"

namespace strata {

/// What fork() does to a lock. Each class that has locks, or members that have, passes all of them
/// to a visitor, in the order of their ranks: `void for_each_lock(LockVisitor visit) noexcept`.
/// \threads  A visitor of one thread only: what one takes, the next has to give back or to reset.
class LockVisitor {
 public:
  static constexpr LockVisitor take() noexcept { return LockVisitor(Action::kTake); }
  static constexpr LockVisitor give_back() noexcept { return LockVisitor(Action::kGiveBack); }
  /// In the child: the threads that wait in the parent do not exist there.
  static constexpr LockVisitor reset() noexcept { return LockVisitor(Action::kReset); }
  /// The same for locks of one object after those of another like it, which are held: ranks order
  /// the locks of each, and no thread takes those of two but the one that forks.
  constexpr LockVisitor beside_others() const noexcept { return LockVisitor(action_, true); }

  /// Whether it takes them. A lock that guards the way to others is visited before those then, and
  /// after them otherwise.
  bool takes() const noexcept { return action_ == Action::kTake; }

  // Not analysed: what one visitor takes, another gives back.
  void operator()(Lock& lock) const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    switch (action_) {
      case Action::kTake:
        is_beside_others_ ? lock.lock_beside_others() : static_cast<void>(lock.lock());
        break;
      case Action::kGiveBack:
        is_beside_others_ ? lock.unlock_beside_others() : lock.unlock();
        break;
      case Action::kReset:
        is_beside_others_ ? lock.reset_beside_others() : lock.reset_after_fork();
        break;
    }
  }

 private:
  enum class Action : std::uint8_t { kTake, kGiveBack, kReset };
  explicit constexpr LockVisitor(Action action, bool is_beside_others = false) noexcept
      : action_(action), is_beside_others_(is_beside_others) {}

  Action action_;
  bool is_beside_others_;
};

}  // namespace strata
