#pragma once

#include <cstdint>

#include "guard/guard_pool.h"

namespace strata {

class MallocInstance;
class ThreadCache;

/// What a malloc asks of the process (or heap) that it serves. Functions have bodies instead of =
/// 0, which would need the C++ runtime.
class MallocHost {
 public:
  /// Called before the heap's first allocation, from any thread, without a lock: calls
  /// malloc.start().
  /// \returns  False when out of memory; the next allocation asks again.
  virtual bool start(MallocInstance&) noexcept { return false; }
  /// Counts an allocation before the start. Called from a slow path.
  /// \returns  False if this one should start the heap.
  virtual bool count_first_block() noexcept { return false; }
  /// The calling thread got a cache: has end_thread() called when it ends. May allocate.
  /// \returns  False if it will not be called: then the cache stays in use for ever.
  virtual bool follow_thread(ThreadCache&) noexcept { return false; }
  /// Has MallocInstance::reset_after_fork() called in each child of fork(). Called from a slow path
  /// with no lock held.
  virtual void follow_forks() noexcept {}
  /// Called once after MallocInstance::ask_for_attention(), from a slow path with no lock held, not
  /// even the C library's. May start threads.
  virtual void attend() noexcept {}
  /// Starts the guard pool, when something is about to be guarded although the program did not ask
  /// for that. Called from a slow path of any thread, with no lock held. If the kernel refuses, the
  /// next call asks again.
  virtual void begin_guards(MallocInstance&, GuardPool&, const GuardPool::Size&) noexcept {}
  /// The same, before the first block of 0 bytes to which an access is a fault.
  virtual void begin_empty_blocks(MallocInstance&) noexcept {}
  /// The process's CPU time: verified frees may take a share of it, if the option says so. Called
  /// from a slow path of any thread, with no lock held.
  virtual std::uint64_t cpu_ns() noexcept { return 0; }

 protected:
  ~MallocHost() = default;
};

}  // namespace strata
