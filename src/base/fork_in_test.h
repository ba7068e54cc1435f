#pragma once

#include "base/lock.h"

namespace strata {

/// Does to the locks of `object` what a fork does in the parent.
template <typename Object>
void fork_as_parent(Object& object) noexcept {
  LocksInFork::begin();
  object.hold_locks_for_fork();
  LocksInFork::end_in_parent();
}

/// The same as in the child.
template <typename Object>
void fork_as_child(Object& object) noexcept {
  LocksInFork::begin();
  object.hold_locks_for_fork();
  LocksInFork::begin_child();
  LocksInFork::end_in_child();
}

}  // namespace strata
