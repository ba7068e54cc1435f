#pragma once

#include <strata/detail/bits.hpp>
#include <strata/detail/refuse.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace strata {

namespace os {
class PageSource;
}
class HeapInstance;

/// Coalescing heaps for many threads, within memory budgets that the user sets.
///
/// Each thread has a cache of free blocks, which it uses before the arenas, without locks or atomic
/// operations. With a budget for each thread, a thread has arenas of its own, to which blocks that
/// other threads free return in batches. When the thread ends, its heap keeps its blocks and waits
/// until the next thread that needs a heap adopts it. Without such a budget all threads share the
/// arenas, and the thread that frees a block may reuse it. A request beyond a budget is refused,
/// never served from elsewhere.
///
/// Up to kMaxInstances instances may exist at once; they share nothing. The child of a fork() must
/// not use the parent's instances, but may destroy them: that does nothing, and the child keeps its
/// copy of the memory. The child may make instances of its own. Move-only, while no thread is
/// inside a call.
/// \threads  Any number at once, unless said otherwise.
class ThreadHeaps {
 public:
  static constexpr std::size_t kMaxInstances = 64;
  static constexpr std::size_t kUnlimited = SIZE_MAX;
  static constexpr std::size_t kMinArenaBytes = 64 * 1024;
  static constexpr std::size_t kMaxCachedBytes = std::size_t{1} << 30;

  struct Options {
    /// Address space that a heap takes at a time, rounded up to OS pages; only touched pages cost
    /// memory. No request may be larger (less about 4 KiB).
    std::size_t arena_bytes = 64 * 1024 * 1024;
    /// Bytes of arenas that one thread may hold, and all threads together. A budget below
    /// arena_bytes makes arenas smaller.
    std::size_t thread_budget_bytes = kUnlimited;
    std::size_t total_budget_bytes = kUnlimited;
    /// Bytes of free blocks, up to 8 KiB each, that a thread's cache may keep; 0: no cache. It
    /// keeps no more than 1/8 of what a thread has in use on average, 32 KiB if that is more, and
    /// never more than 1/32 of a thread's budget or 1/64 of the total one.
    std::size_t cached_bytes = 256 * 1024;
    /// A background thread returns idle memory to the kernel. If false, only reclaim_now() does,
    /// and each thread as it ends: what is free in its arenas, or in shared ones less than half
    /// used.
    bool reclaims = false;
    /// How long memory must be idle before it is returned; it may take twice as long.
    std::uint32_t reclaim_delay_ms = 1000;
    /// The source of arenas; nullptr: the kernel. For Strata's own tests: no public header has the
    /// type.
    os::PageSource* pages = nullptr;
  };

  /// A snapshot. Frees are read before allocations, and none is counted before its allocation, so
  /// no difference wraps below zero. While threads work, each may have one call in flight, and
  /// bytes_in_use is off by what that moves. At rest the numbers are exact.
  struct Statistics {
    std::uint64_t allocations = 0;  ///< calls that returned a block
    std::uint64_t frees = 0;
    std::uint64_t remote_frees = 0;        ///< of them, by a thread other than the heap's owner
    std::uint64_t failed_allocations = 0;  ///< calls that returned nullptr
    std::size_t bytes_in_use = 0;          ///< usable bytes of live blocks
    /// The most bytes that were out of the arenas: blocks with their tags, in use, cached or on
    /// their way. The sum of the heaps' own peaks, so never below the peak of bytes_in_use.
    std::size_t peak_bytes = 0;
    std::size_t held_bytes = 0;  ///< address space of all arenas, what the budgets count
    std::size_t arenas = 0;
    std::size_t heaps = 0;  ///< created so far, adopted or waiting ones included
  };

  /// \errors  std::invalid_argument with a sentence if the options contradict each other;
  ///          std::bad_alloc if there is no memory, kMaxInstances exist, or the process has no key
  ///          of the C library (pthread_key_create) left. Without exceptions the sentence ends the
  ///          program: use try_create().
  STRATA_MAY_REFUSE explicit ThreadHeaps(const Options& options)
      : ThreadHeaps(detail::made_or_refused(
            [&](const char** reason) { return try_create(options, reason); }, kNoMemory, kTooMany,
            kNoKey)) {}
  STRATA_MAY_REFUSE ThreadHeaps() : ThreadHeaps(Options()) {}

  /// The same without exceptions.
  /// \returns  The heaps, or nothing; then *reason is one sentence in static memory.
  static std::optional<ThreadHeaps> try_create(const Options& options,
                                               const char** reason = nullptr) noexcept;

  /// Frees all memory, live blocks included. No thread may be inside a call or call again. Threads
  /// that used the instance may live on, and may have ended without freeing their blocks.
  ~ThreadHeaps();
  /// `other` has no heaps afterwards: it refuses every request.
  ThreadHeaps(ThreadHeaps&& other) noexcept
      : instance_(std::exchange(other.instance_, nullptr)),
        generation_(std::exchange(other.generation_, 0)) {}
  ThreadHeaps& operator=(ThreadHeaps&& other) noexcept {
    ThreadHeaps taken(std::move(other));
    std::swap(instance_, taken.instance_);
    std::swap(generation_, taken.generation_);
    return *this;
  }
  ThreadHeaps(const ThreadHeaps&) = delete;
  ThreadHeaps& operator=(const ThreadHeaps&) = delete;

  /// \returns  At least `bytes` bytes, contents unspecified, aligned to 16; nullptr if the budget
  ///           or the kernel has no memory left.
  /// \cost     From the cache: no lock, no atomic read-modify-write. Else a heap's lock, for which
  ///           only a reclaiming pass contends if the heap is the thread's own, and
  ///           CoalescingHeap's constant cost for each arena of that heap, oldest first, until one
  ///           serves; system calls for a new arena. Small blocks are carved several at a time.
  void* allocate(std::size_t bytes) noexcept;
  /// The same, aligned to `alignment`, a power of two.
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= kAlignment && detail::is_power_of_two(alignment)
               ? allocate(bytes)
               : allocate_aligned(bytes, alignment);
  }

  /// Frees a block, from any thread; ignores nullptr. A double free, a pointer foreign to this
  /// instance or an overwritten tag ends the program with its own sentence.
  void deallocate(void* block) noexcept;

  /// Resizes a block; nullptr as `block` allocates, and 0 bytes shrink it and do not free it. It
  /// stays in place if it has room for the new size, but not much more than twice that; or if both
  /// sizes are 1 KiB or more, it lies in the caller's or in shared arenas, and shrinks or has free
  /// space behind it. Else it moves, and is then aligned to 16.
  /// \returns  The block, with its contents up to the smaller size; nullptr, with the old block
  ///           untouched, if it does not fit and the budget or the kernel has no memory left.
  /// \cost     If it moves, that of allocate(), deallocate() and the copy; else at most a heap's
  ///           lock.
  void* reallocate(void* block, std::size_t bytes) noexcept;

  /// \returns  The usable bytes of a live block.
  std::size_t usable_size(const void* block) const noexcept;

  /// True if the address lies anywhere in an arena of this instance.
  bool owns(const void* address) const noexcept;

  /// allocate() under the name that the adapters call.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return allocate(bytes, alignment);
  }

  /// Returns free memory to the kernel at once: wholly free arenas, and whole OS pages inside free
  /// blocks, of all heaps. Of the small-block caches, empties only the caller's.
  /// \returns  The bytes of memory returned: of touched pages, not of addresses, which held_bytes
  ///           counts.
  std::size_t reclaim_now() noexcept;

  /// True while the background thread exists: while there is memory to return, and a delay longer.
  bool has_reclaimer() const noexcept;

  Statistics statistics() const noexcept;

  /// Aborts unless everything is sound. For tests, while no other thread is inside a call, or ends
  /// after it has used the instance.
  void check_invariants() noexcept;

 private:
  friend class HeapInstance;
  static constexpr std::size_t kAlignment = 16;  // of every block
  static const char kNoMemory[];
  static const char kTooMany[];
  static const char kNoKey[];

  explicit ThreadHeaps(HeapInstance& instance) noexcept;
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) noexcept;

  HeapInstance* instance_ = nullptr;
  std::uint64_t generation_ = 0;  // its number; never repeats, and is 0 for none
};

}  // namespace strata
