#pragma once

#include <strata/thread_heaps.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "heap/arena_set.h"
#include "heap/heap_directory.h"
#include "heap/instance_reclaimer.h"
#include "heap/thread_heap.h"
#include "os/page_source.h"

namespace strata {

/// The implementation of a ThreadHeaps: its heaps, their arenas and the budget. A thread's heap,
/// once made, lives as long as the instance; between two threads it waits in the list of abandoned
/// heaps.
///
/// With a budget for each thread, each has arenas of its own, so that what it holds can be bounded.
/// Without one, all threads carve from a few shared heaps of arenas. What threads hold fluctuates:
/// separate heaps must hold the sum of all peaks, a shared one about the sum of the averages. Each
/// thread has one of the shared heaps as its home, and uses it even if its lock is taken: to use
/// whichever is free would spread the blocks unevenly, and each heap would grow to its own peak.
class HeapInstance {
 public:
  /// \returns  The instance, or nullptr and the reason, one sentence in static memory.
  static HeapInstance* create(const ThreadHeaps::Options& options, const char*& reason) noexcept;
  /// Does nothing in the child of a fork(): there the reclaimer that it would wait for does not
  /// run, and the locks may be held by threads that do not run. The child keeps its copy until it
  /// ends.
  void destroy() noexcept;

  /// The calling thread's heap, nullptr if it has none yet.
  ThreadHeap* heap_if_any() const noexcept { return heap_directory::find(slot_, generation_); }
  /// The same; makes or adopts one if there is none; nullptr if that fails.
  ThreadHeap* heap() noexcept {
    ThreadHeap* found = heap_if_any();
    return found != nullptr ? found : attach();
  }

  /// Takes the heap from an ending thread.
  void abandon(ThreadHeap& heap) noexcept;

  // Not analysed: it takes no lock (ArenaSet).
  bool owns(const void* address) const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    return arenas_.contains(reinterpret_cast<std::uintptr_t>(address));
  }

  /// The arena of a block, or no return: the address must be in a known arena.
  HeapArena& arena_of(const void* block) const noexcept {
    if (!owns(block)) [[unlikely]]
      die_of_no_arena(block);
    return arena_under(block);
  }

  /// Maps an arena of at least `min_bytes` for the heap; nullptr if a budget or the kernel has no
  /// room for it.
  HeapArena* map_arena(ArenaHeap& heap, std::size_t min_bytes) noexcept STRATA_REQUIRES(heap.lock_);
  void unmap_arena(HeapArena& arena) noexcept;

  /// Whether threads share the heaps of arenas.
  bool is_shared() const noexcept {
    return options_.thread_budget_bytes == ThreadHeaps::kUnlimited;
  }
  /// The heaps of arenas, one after the other; nullptr after the last.
  ArenaHeap* first_heap() const noexcept { return arena_heaps_.load(std::memory_order_seq_cst); }
  static ArenaHeap* heap_after(const ArenaHeap& heap) noexcept { return heap.next_; }

  /// The arena of a block that is known to be of some arena of this instance.
  HeapArena& arena_under(const void* block) const noexcept {
    return *reinterpret_cast<HeapArena*>(reinterpret_cast<std::uintptr_t>(block) & ~arena_mask_);
  }

  /// A pass over all heaps; one at a time.
  /// \returns  bytes decommitted and unmapped, counted only when forced
  std::size_t sweep(bool is_forced, bool& is_young) noexcept;
  bool has_dirty_heap() const noexcept;
  /// Called when a heap is dirty, with no lock held.
  void wake_reclaimer() noexcept {
    if (options_.reclaims) reclaimer_.wake();
  }

  /// Frees a block on behalf of a thread that has no heap and can have none.
  void free_without_heap(void* block) noexcept;
  void count_failure() noexcept { homeless_failures_.fetch_add(1, std::memory_order_relaxed); }

  std::size_t cached_bytes() const noexcept { return options_.cached_bytes; }
  ThreadHeaps::Statistics statistics() const noexcept;
  void check_invariants() noexcept;

  std::uint64_t generation() const noexcept { return generation_; }
  const ThreadHeaps::Options& options() const noexcept { return options_; }
  os::PageSource& pages() const noexcept { return *options_.pages; }
  bool has_reclaimer() const noexcept { return reclaimer_.is_running(); }

 private:
  explicit HeapInstance(const ThreadHeaps::Options& options) noexcept;
  ThreadHeap* attach() noexcept;
  void unmap_table() noexcept;
  ThreadHeap* make_heap() noexcept;
  ArenaHeap* home_for(std::uint32_t number) noexcept STRATA_REQUIRES(lock_);
  [[noreturn]] static void die_of_no_arena(const void* block) noexcept;

  ThreadHeaps::Options options_;
  std::uint32_t slot_ = 0;
  std::uint64_t generation_ = 0;
  const std::uint32_t shared_heaps_;  // asked once: the answer is in a file of the kernel's
  std::uintptr_t arena_mask_;         // of the bits that an address within an arena may have

  Lock lock_{LockRank::kHeapArenas};
  ArenaSet arenas_ STRATA_GUARDED_BY(lock_){arena_mask_};
  std::atomic<std::size_t> held_bytes_{0};   // written under the lock, read by statistics
  std::atomic<std::size_t> arena_count_{0};  // the same
  ThreadHeap* abandoned_ STRATA_GUARDED_BY(lock_) = nullptr;
  std::uint32_t heap_count_ STRATA_GUARDED_BY(lock_) = 0;

  /// All heaps, newest first: pushed with release under the lock, walked with acquire without it.
  std::atomic<ThreadHeap*> heaps_{nullptr};
  /// The same, and seq_cst, as ArenaHeap::is_dirty_: a thread that makes a heap, has it dirty and
  /// finds the reclaimer busy, and the reclaimer that ends since it finds no dirty heap, must not
  /// both be right.
  std::atomic<ArenaHeap*> arena_heaps_{nullptr};

  Lock sweep_lock_{LockRank::kHeapSweep};  // held during a pass: a forced one waits for the other
  InstanceReclaimer reclaimer_;

  // Counts for threads without a heap, since none could be made: rare enough for shared atomics.
  std::atomic<std::uint64_t> homeless_failures_{0};
  std::atomic<std::uint64_t> homeless_frees_{0};
  std::atomic<std::int64_t> homeless_freed_granules_{0};
};

}  // namespace strata
