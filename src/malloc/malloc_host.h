#pragma once

#include <cstdint>

#include "guard/guard_pool.h"

namespace strata {

class MallocInstance;
class ThreadCache;

/// What a malloc asks of the process that it serves. Functions have bodies instead of = 0, which
/// would need the C++ runtime.
class MallocHost {
 public:
  /// Before the heap's first allocation, from any thread, without a lock: calls malloc.start().
  /// \returns  False when out of memory; the next allocation asks again.
  virtual bool start(MallocInstance&) noexcept { return false; }
  /// Counts an allocation before the start. From a slow path.
  /// \returns  False if this one is to begin the heap.
  virtual bool count_first_block() noexcept { return false; }
  /// The calling thread got a cache: end_thread() is to be called when it ends. May allocate.
  /// \returns  False if it will not be called: the cache then stays in use for ever.
  virtual bool follow_thread(ThreadCache&) noexcept { return false; }
  /// A child of fork() has to be told that it is one, by MallocInstance::reset_after_fork(). From a
  /// slow path with no lock held.
  virtual void follow_forks() noexcept {}
  /// From a slow path with no lock held, the C library's neither, once after
  /// MallocInstance::ask_for_attention(). May start threads.
  virtual void attend() noexcept {}
  /// An object or a block is about to be guarded, although the program did not ask for that: the
  /// pool is to be started. From a slow path of any thread, with no lock held. If the
  /// kernel refuses, the next one asks again.
  virtual void begin_guards(MallocInstance&, GuardPool&, const GuardPool::Size&) noexcept {}
  /// The first block of 0 bytes is about to be made, where an access to it is a fault: the same.
  virtual void begin_empty_blocks(MallocInstance&) noexcept {}
  /// CPU time that the process has used: what verified frees may take is a share of it, where the
  /// option says so. From a slow path of any thread, with no lock held.
  virtual std::uint64_t cpu_ns() noexcept { return 0; }

 protected:
  ~MallocHost() = default;
};

}  // namespace strata
