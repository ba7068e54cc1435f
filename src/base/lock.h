#pragma once

#include <atomic>
#include <cstdint>

#include "base/fatal.h"
#include "base/thread_annotations.h"

namespace strata {

/// The number of locks that the calling thread holds or waits for. Relaxed: only the thread itself
/// and its signal handlers read it, hence the signal fences around.
extern constinit thread_local std::atomic<std::uint32_t> t_locks_taken;

/// Whether the calling thread may hold a Lock. If true in a signal handler, it interrupted such a
/// thread, and must not wait for any lock.
inline bool is_any_lock_held_here() noexcept {
  return t_locks_taken.load(std::memory_order_relaxed) != 0;
}

/// The order in which locks are taken: only upwards, so that no two threads wait for each other.
/// fork() takes all of them in this order. Tests, and objects of the toolkit that never nest, use
/// kLeaf.
enum class LockRank : std::uint8_t {
  kHeapTable,       ///< heaps of the user's: which exist, and which threads have caches of them
  kStart,           ///< making a malloc ready
  kScavenger,       ///< one round of returning memory
  kWatcher,         ///< what a watcher of allocations knows
  kGuardPool,       ///< guard pages: which slot holds what
  kEmptyBlocks,     ///< checks: where blocks of 0 bytes are
  kCheckedObjects,  ///< full checks: one per size class, around its CentralList
  kBlockRecords,    ///< full checks: the table of large and huge blocks
  kThreadSweep,     ///< one sweep over all thread caches at a time
  kThreadRegistry,  ///< the list of thread caches, parked ones included
  kThreadBins,      ///< one per thread cache: its bins do not move while they are counted
  kCentral,         ///< shards, their lists and transfer caches; a second of
                    ///< these is only tried, except by fork, by who empties transfer caches, and
                    ///< a list's after the one of its holes
  kHuge,            ///< the table of huge blocks and the cache of huge mappings
  kPageHeap,        ///< regions and page runs, one lock per shard: a second as above, or to check
  kRegionSource,    ///< making regions of a page heap
  kRegionPool,      ///< regions that wait for the next user heap
  kHeapRegistry,    ///< thread heaps: which instances exist
  kHeapSweep,       ///< thread heaps: one reclaiming pass of an instance at a time
  kThreadHeap,      ///< thread heaps: one thread's arenas
  kHeapArenas,      ///< thread heaps: an instance's arenas, budget and abandoned heaps
  kMetadata,        ///< memory for our own bookkeeping
  kPageMap,         ///< which entries of a page map may be written
  kLeaf,            ///< nothing else is taken while it is held
};

/// A mutual-exclusion lock of one word that spins briefly and then sleeps in the kernel, so that a
/// preempted holder is not starved by its waiters. Constant-initialised, trivially destructible,
/// never allocates, may be held across fork(). Not recursive. Debug builds die when a thread takes
/// ranks out of order.
/// \cost    One atomic exchange each way when uncontended.
/// \source  Ulrich Drepper, "Futexes Are Tricky" (2011), mutex 2: 0 free, 1 held, 2 held with
///          waiters. Greater ones are numbers of forks (LocksInFork).
class STRATA_CAPABILITY("lock") Lock {
 public:
  explicit constexpr Lock(LockRank rank) noexcept : rank_(rank) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() noexcept STRATA_ACQUIRE() {
    count_taken();  // before the rank is noted, which a signal handler would find otherwise
    note_rank();
    take();
  }

  bool try_lock() noexcept STRATA_TRY_ACQUIRE(true) {
    count_taken();
    std::uint32_t seen = kFree;
    if (!state_.compare_exchange_strong(seen, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed) &&
        !(seen >= kFirstFork && take_if_free(kHeld))) {
      count_released();
      return false;
    }
    note_rank();
    return true;
  }

  void unlock() noexcept STRATA_RELEASE() {
    forget_rank();
    release();
  }

  /// If threads sleep for it, releases it, and takes it again when one of them has had it, or after
  /// a while. They seldom find it free where its holder takes it again at once.
  void give_way() noexcept STRATA_REQUIRES(this);
  /// Whether threads may sleep for it.
  /// \threads  any; a figure
  bool has_sleepers() const noexcept {
    return state_.load(std::memory_order_relaxed) == kContended;
  }

  /// How often threads waited for it.
  /// \threads  any; a figure
  std::uint32_t waits() const noexcept { return waits_.load(std::memory_order_relaxed); }

  bool is_held() const noexcept { return is_held_as(state_.load(std::memory_order_acquire)); }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kContended = 2;
  static constexpr std::uint32_t kFirstFork = 3;

  friend class LocksInFork;

  void take() noexcept {
    std::uint32_t expected = kFree;
    // acquire pairs with the release in unlock(): the next holder sees all that this one wrote.
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      take_slowly();
    }
  }
  void release() noexcept {
    STRATA_DCHECK(is_held());
    if (state_.exchange(kFree, std::memory_order_release) == kContended) wake_waiter();
    count_released();
  }
  static bool is_held_as(std::uint32_t state) noexcept;
  bool take_if_free(std::uint32_t state) noexcept;
  bool wait_and_take(std::uint32_t state, std::uint32_t state_after_sleep) noexcept;
  void take_slowly() noexcept;
  void sleep() noexcept;
  void wake_waiter() noexcept;
  // The count includes a lock from before it is taken until after it is released.
  static void count_taken() noexcept {
    t_locks_taken.store(t_locks_taken.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void count_released() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t_locks_taken.store(t_locks_taken.load(std::memory_order_relaxed) - 1,
                        std::memory_order_relaxed);
  }
#ifdef NDEBUG
  void note_rank() noexcept {}
  void forget_rank() noexcept {}
#else
  void note_rank() noexcept;
  void forget_rank() noexcept;
#endif

  std::atomic<std::uint32_t> state_{kFree};
  std::atomic<std::uint32_t> waits_{0};  // relaxed: a figure
  [[maybe_unused]] LockRank rank_;
};

/// The locks that fork() holds while the process is copied. Each has the fork's number as its
/// state, and is free as soon as that fork has ended. No lock has to be written for that, so parent
/// and child go on sharing the pages of those they do not use.
/// \threads  one fork at a time
class LocksInFork {
 public:
  static void begin() noexcept;
  /// Called before the locks of another malloc: ranks order the locks of each malloc, and only a
  /// thread that forks takes locks of two.
  static void begin_next() noexcept;
  static void hold(Lock& lock) noexcept;
  static void end_in_parent() noexcept;
  /// In the child, where only the calling thread exists: no lock is held any more. But until
  /// end_in_child(), while the data that they guard is put in order, signal handlers must not wait
  /// for them.
  static void begin_child() noexcept;
  static void end_in_child() noexcept;
};

class STRATA_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) noexcept STRATA_ACQUIRE(lock) : lock_(lock) { lock.lock(); }
  ~LockGuard() STRATA_RELEASE() { lock_.unlock(); }
  /// Releases the lock for a while. It has to be held again before the guard ends.
  void unlock() noexcept STRATA_RELEASE() { lock_.unlock(); }
  void lock() noexcept STRATA_ACQUIRE() { lock_.lock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace strata
