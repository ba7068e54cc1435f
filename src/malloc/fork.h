#pragma once

namespace strata {

/// An owner of locks that a fork() must find free: the process's malloc, and the user's heaps.
/// Functions have bodies instead of = 0, which would need the C++ runtime.
class ForkParty {
 public:
  /// Has the fork hold all its locks (LocksInFork).
  virtual void before_fork() noexcept {}
  /// Called once the fork no longer holds them; only the calling thread exists. Signal handlers are
  /// served as if it held some.
  virtual void after_fork_in_child() noexcept {}

  ForkParty* next_party = nullptr;  ///< of take_part_in_forks()

 protected:
  ~ForkParty() = default;
};

/// From now on each fork() calls the party; the latest party first. A party whose handlers were
/// registered before the program's is called after these, which may allocate.
/// \returns  False if the C library has no room.
/// \threads  one at a time
bool take_part_in_forks(ForkParty& party) noexcept;

}  // namespace strata
