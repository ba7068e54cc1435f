#pragma once

#include <atomic>
#include <cstddef>

#include "base/lock.h"
#include "guard/guard_pool.h"

namespace strata {

/// The guarded objects of a malloc, in two pools that start independently: one for small objects,
/// one for all that does not fit its slots. MallocInstance owns it.
/// \threads  Any number at once.
class Guards {
 public:
  constexpr Guards(os::PageSource& pages, MetadataArena& metadata, MemoryLimit& limit) noexcept
      : objects_(pages, metadata, limit), blocks_(pages, metadata, limit) {}

  GuardPool& objects() noexcept { return objects_; }
  GuardPool& blocks() noexcept { return blocks_; }

  /// Starts the pools of a program that asks for guards; the second one, if allowed, with the first
  /// object for it that finds the memory.
  /// \returns  False when out of memory.
  bool start(bool with_blocks) noexcept {
    may_have_blocks_.store(with_blocks, std::memory_order_relaxed);
    return objects_.start();
  }

  /// \returns  An object that reads as zero; nullptr if neither pool has room for it.
  void* allocate(const Allocation& allocation) noexcept {
    if (allocation.bytes <= objects_.slot_bytes()) return objects_.allocate(allocation);
    if (may_have_blocks_.load(std::memory_order_relaxed) && !blocks_.is_started())
      blocks_.start(GuardPool::kForBlocks);
    return blocks_.allocate(allocation);
  }

  bool owns(const void* p) const noexcept { return objects_.owns(p) || blocks_.owns(p); }
  /// \pre  owns(p)
  void deallocate(void* p, const FreeCall& call) noexcept { pool_of(p).deallocate(p, call); }
  /// \pre  owns(p)
  std::size_t requested_bytes(const void* p, const char* action) noexcept {
    return pool_of(p).requested_bytes(p, action);
  }

  void verify_all() noexcept {
    objects_.verify_all();
    blocks_.verify_all();
  }
  void forget_all() noexcept {
    objects_.forget_all();
    blocks_.forget_all();
  }
  /// \threads  no other thread uses the pools at the same time, or ever again
  void discard() noexcept {
    objects_.discard();
    blocks_.discard();
  }

  /// \threads  A fault's handler.
  bool explain(const os::Fault& fault) const noexcept {
    return objects_.explain(fault) || blocks_.explain(fault);
  }

  /// Of both pools together.
  GuardPool::Statistics statistics() noexcept {
    GuardPool::Statistics sum = objects_.statistics();
    const GuardPool::Statistics more = blocks_.statistics();
    sum.reserved_bytes += more.reserved_bytes;
    sum.live_objects += more.live_objects;
    sum.live_bytes += more.live_bytes;
    sum.waiting_objects += more.waiting_objects;
    sum.waiting_bytes += more.waiting_bytes;
    sum.allocations += more.allocations;
    return sum;
  }

  void hold_locks_for_fork() noexcept {
    LocksInFork::hold(objects_.lock());
    LocksInFork::hold(blocks_.lock());
  }

 private:
  GuardPool& pool_of(const void* p) noexcept { return objects_.owns(p) ? objects_ : blocks_; }

  GuardPool objects_;
  GuardPool blocks_;
  std::atomic<bool> may_have_blocks_{false};  // relaxed: a late thread has fewer guards
};

}  // namespace strata
