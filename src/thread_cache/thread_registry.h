#pragma once

#include <atomic>
#include <cstddef>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "span/page_heap.h"
#include "thread_cache/cache_budget.h"
#include "thread_cache/thread_cache.h"

namespace strata {

/// Owns all thread caches: those in use, those parked by threads that ended, and empty ones.
///
/// The cache of a thread that ends is parked with its objects, and the next thread adopts it warm:
/// short threads pay neither for filling nor for flushing. A cache that stays parked for longer
/// than a round of flush_unneeded() is flushed; so is the oldest when more than kMaxParked are
/// parked.
/// \threads  Any number at once; one lock, and another for threads that flush or count all caches,
///           so that threads that begin or end do not wait for those.
class ThreadRegistry {
 public:
  constexpr ThreadRegistry(Central& central, const PageHeap& heap, MetadataArena& metadata,
                           std::size_t budget_bytes) noexcept
      : central_(central), metadata_(metadata), budget_(heap, budget_bytes) {}
  ThreadRegistry(const ThreadRegistry&) = delete;
  ThreadRegistry& operator=(const ThreadRegistry&) = delete;

  /// A cache for the calling thread; nullptr when out of memory.
  /// \param thread  if given, gets the bins in the same step, unless it has another cache: a signal
  ///                handler that forks finds the cache to be that of the child's thread
  /// \cost  constant
  ThreadCache* adopt(ThreadState* thread = nullptr) noexcept;

  /// Makes the cache the bins of `thread`, also for malloc unless that is redirected.
  /// Call when the host has said that it will call park(); redirect_malloc() notices a thread that
  /// ends without.
  /// \returns  False if it has another cache already, which a signal handler adopted.
  bool enroll(ThreadCache& cache, ThreadState& thread) noexcept;
  /// From now on threads get `gate` as their bins, which sends every call to the slow path, with
  /// their cache beside it. Call before the first thread.
  void put_before_caches(ObjectBins& gate) noexcept {
    LockGuard guard(lock_);
    gate_ = &gate;
  }
  /// From now on threads get their cache as their bins. Threads that have the gate keep it until
  /// they call open_gate().
  void put_nothing_before_caches() noexcept {
    LockGuard guard(lock_);
    gate_ = nullptr;
  }
  /// Makes the cache the thread's bins, with none beside it.
  /// \threads  that of the cache
  void open_gate(ThreadCache& cache, ThreadState& thread) noexcept;
  /// Makes malloc of all threads, present and future, pop from `bins`, or from their own caches
  /// again if nullptr. Restarts the threads' counts.
  /// \cost  a system call a thread, under the lock
  void redirect_malloc(ObjectBins* bins) noexcept;
  /// Makes malloc of the thread pop from its free_bins again, unless it is redirected by now.
  /// \threads  the thread itself
  void undirect_malloc(ThreadState& thread) noexcept;
  /// Parks the cache of a thread that ends.
  void park(ThreadCache& cache) noexcept;

  /// Flushes caches that have been parked since before the last call, and takes over the objects of
  /// threads that did not use their cache since.
  /// \returns  bytes moved to spans
  std::size_t flush_unneeded() noexcept { return flush(ThreadCache::Owners::kIdle); }
  /// Flushes all parked caches, and takes over the objects of all threads.
  std::size_t flush_all() noexcept { return flush(ThreadCache::Owners::kAll); }
  /// Flushes all parked caches.
  void flush_parked() noexcept {
    LockGuard sweep(sweeping_);
    retire_parked(ThreadCache::Owners::kAll);
  }

  /// Drops the objects of all caches.
  /// \threads  no other thread uses one at the same time
  void forget_objects() noexcept;

  /// Objects of each class in all caches.
  /// \cost  a visit to every thread's cache
  using Counts = ThreadCache::Counts;
  void count_objects(Counts& counts) noexcept;
  std::size_t count_objects(unsigned size_class) noexcept;
  std::size_t live_threads() noexcept;
  /// Since the start.
  std::size_t lock_waits() const noexcept { return lock_.waits() + sweeping_.waits(); }
  bool has_parked() noexcept;
  /// An upper bound of the bytes in parked caches: a hint, without the lock.
  std::size_t parked_bytes() const noexcept {
    return parked_bytes_.load(std::memory_order_relaxed);
  }

  CacheBudget& budget() noexcept { return budget_; }

  /// Takes its own locks and every cache's bins_lock(). Not analysed: the lists are read under the
  /// lock that the fork holds.
  void hold_locks_for_fork() noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS;
  /// In the child of a fork, where no lock is held any more: keeps only the calling thread, with
  /// the cache `own` or none. The other threads' caches keep their objects for ever, since their
  /// owners may have been in the middle of using them: accepted loss, at most the budget.
  void keep_only(ThreadCache* own) noexcept;

 private:
  // Chosen: as many as a pool of workers restarts at once; more would hoard memory.
  static constexpr std::size_t kMaxParked = 16;
  // Chosen: all objects of a usual cache. One that holds more is taken over in turns.
  static constexpr std::size_t kRoomSlots = 2048;
  static constexpr unsigned kMostTurns = 8;

  bool give_bins(ThreadCache& cache, ThreadState& thread) noexcept STRATA_REQUIRES(lock_);
  ThreadCache* pop_parked() noexcept STRATA_REQUIRES(lock_);
  void retire(ThreadCache& cache, ThreadCache::Way way) noexcept STRATA_REQUIRES(sweeping_);
  void retire_parked(ThreadCache::Owners which) noexcept STRATA_REQUIRES(sweeping_);
  void** make_room() noexcept STRATA_REQUIRES(lock_);
  std::size_t flush(ThreadCache::Owners which) noexcept;
  std::size_t take_over(ThreadCache::Owners which) noexcept STRATA_REQUIRES(sweeping_);
  void count_parked(const ThreadCache& cache, bool is_parked) noexcept STRATA_REQUIRES(lock_);

  // Taken before lock_. While it is held no cache ends, whatever list it moves to.
  Lock sweeping_{LockRank::kThreadSweep};
  Lock lock_{LockRank::kThreadRegistry};
  Central& central_;
  MetadataArena& metadata_;
  CacheBudget budget_;

  ObjectBins* redirected_to_ STRATA_GUARDED_BY(lock_) = nullptr;
  ObjectBins* gate_ STRATA_GUARDED_BY(lock_) = nullptr;
  IntrusiveList<ThreadCache> in_use_ STRATA_GUARDED_BY(lock_);
  IntrusiveList<ThreadCache> parked_ STRATA_GUARDED_BY(lock_);   // the latest first
  IntrusiveList<ThreadCache> leaving_ STRATA_GUARDED_BY(lock_);  // flushed, soon in empty_
  IntrusiveList<ThreadCache> empty_ STRATA_GUARDED_BY(lock_);
  std::size_t in_use_count_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t parked_count_ STRATA_GUARDED_BY(lock_) = 0;
  // How many of the parked caches, the oldest ones, have waited through a round.
  std::size_t parked_long_ STRATA_GUARDED_BY(lock_) = 0;
  // For take_over(): made with the second thread, used under sweeping_.
  void** room_ STRATA_GUARDED_BY(lock_) = nullptr;
  std::atomic<std::size_t> parked_bytes_{0};  // written under lock_, read anywhere
};

}  // namespace strata
