#pragma once

#include "base/lock.h"

namespace strata {

/// What a fork does to the locks of `object` in the process that forks.
template <typename Object>
void fork_as_parent(Object& object) noexcept {
  LocksInFork::begin();
  object.hold_locks_for_fork();
  LocksInFork::end_in_parent();
}

/// The same in the child.
template <typename Object>
void fork_as_child(Object& object) noexcept {
  LocksInFork::begin();
  object.hold_locks_for_fork();
  LocksInFork::begin_child();
  LocksInFork::end_in_child();
}

}  // namespace strata
