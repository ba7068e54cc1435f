#pragma once

namespace strata {

/// What has locks that a fork() must find free: the process's malloc, and the heaps of the user's.
/// Functions have bodies instead of = 0, which would need the C++ runtime.
class ForkParty {
 public:
  /// Has the fork hold all its locks (LocksInFork).
  virtual void before_fork() noexcept {}
  /// The fork holds them no longer, and only the calling thread exists. Signal handlers are served
  /// as if it held some.
  virtual void after_fork_in_child() noexcept {}

  ForkParty* next = nullptr;  ///< of take_part_in_forks()

 protected:
  ~ForkParty() = default;
};

/// From now on each fork() calls the party, those that came last first. A party whose handlers
/// were registered before those of the program is called after the program's, which may allocate.
/// \returns  False if the C library has no room.
/// \threads  one at a time
bool take_part_in_forks(ForkParty& party) noexcept;

}  // namespace strata
