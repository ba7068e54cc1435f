#pragma once

#include <strata/heap.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "malloc/malloc_instance.h"
#include "malloc/statistics.h"
#include "user_heap/heap_thread.h"
#include "user_heap/user_pages.h"

namespace strata {

/// One heap of the user's: a malloc of its own, made when first needed, and the threads that use
/// it. HeapTable owns it; strata::Heap calls it.
/// \threads  Any number at once, unless said otherwise.
class UserHeap final : public MallocHost, public ListLink<> {
 public:
  /// \param pages  the source of its blocks; nullptr: the one of all heaps
  UserHeap(HeapNumber number, const Heap::Options& options, UserPages* pages) noexcept;
  UserHeap(const UserHeap&) = delete;
  UserHeap& operator=(const UserHeap&) = delete;

  HeapNumber number() const noexcept { return number_; }
  const char* name() const noexcept { return name_; }

  // The slow paths.
  void* allocate(std::size_t bytes) noexcept;
  void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
  void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept;
  void* reallocate(void* p, std::size_t bytes) noexcept;
  void deallocate(void* p, const FreeCall& call) noexcept;
  std::size_t usable_bytes(const void* p) noexcept;
  bool resize_in_place(void* p, std::size_t bytes) noexcept;
  bool owns(const void* p) noexcept;
  bool release_memory() noexcept;
  Statistics collect_statistics() noexcept;

  /// \threads  no other thread is in a call about this heap meanwhile
  void reset() noexcept;
  /// Under full checks.
  void verify_objects() noexcept;
  void discard() noexcept;
  /// Called in the child of a fork that happened while another thread was in discard().
  void stop_sharing_limit() noexcept;
  /// After discard().
  void give_back_malloc() noexcept;
  void check_invariants() noexcept;

  UserPages* pages() const noexcept { return pages_; }

  /// Room for the C interface's handle of this heap.
  void* handle_in_c() noexcept { return handle_in_c_; }

  /// nullptr before the first allocation.
  MallocInstance* malloc_if_made() const noexcept {
    return malloc_.load(std::memory_order_acquire);
  }

  bool reclaims() const noexcept { return reclaim_delay_ms_ != 0; }
  std::uint32_t reclaim_delay_ms() const noexcept { return reclaim_delay_ms_; }

  void hold_locks_for_fork() noexcept;
  /// In the child of a fork, whose only thread has the use `own`, if it has used the heap.
  void reset_after_fork(HeapUse* own) noexcept;

  // Guarded by the heap table's lock.
  IntrusiveList<HeapUse, OfHeapTag> uses;
  std::uint64_t reclaim_at_ns = 0;

  // MallocHost. Every thread's cache is parked when it ends.
  bool follow_thread(ThreadCache&) noexcept override { return true; }
  /// Under full checks, for blocks that may lie outside the program's source.
  void begin_guards(MallocInstance&, GuardPool& pool,
                    const GuardPool::Size& size) noexcept override {
    if (checks_ == Heap::Checks::kFull && pages_ == nullptr) pool.start(size);
  }

 private:
  MallocInstance* make_malloc() noexcept;
  MallocInstance* make_malloc_alone(bool needs_guards) noexcept;
  void* allocate_cached(std::size_t bytes) noexcept;
  bool deallocate_cached(void* p, const FreeCall& call) noexcept;
  void show_bins(HeapUse& use) noexcept;
  template <typename Function>
  auto with_thread(MallocInstance& malloc, Function&& function) noexcept;
  template <typename Function>
  void* allocate_with(Function&& function) noexcept;
  MallocInstance& malloc_of(const void* p, const char* action) const noexcept;
  [[noreturn]] void die_unmade(const char* action, const void* p) const noexcept;

  // release after it has started, acquire before its use
  std::atomic<MallocInstance*> malloc_{nullptr};
  Lock making_{LockRank::kStart};
  const HeapNumber number_;
  const std::uint32_t reclaim_delay_ms_;  // 0: never
  const std::size_t soft_limit_;
  const std::size_t hard_limit_;
  const Heap::Checks checks_;
  const std::uint32_t guard_rate_;
  const Heap::HugePages huge_pages_;
  UserPages* const pages_;
  char name_[Heap::kMostNameBytes + 1];
  alignas(Heap) char handle_in_c_[sizeof(Heap)];
};

}  // namespace strata
