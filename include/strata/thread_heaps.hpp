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

/// Coalescing heaps for many threads, inside memory that the user bounds.
///
/// Each thread has a cache of free blocks, which it uses without lock or atomic, before arenas.
/// With a budget for each thread, a thread has arenas of its own, and a block that another thread
/// frees travels back to them in a batch; when the thread ends, its heap waits, blocks and all, to
/// be adopted by the next thread that needs one. Without such a budget all threads share the
/// arenas, and a block is for the thread that frees it. A request that does not fit the budget is
/// refused, never served from elsewhere.
///
/// Any number of instances up to kMaxInstances may live at once; they share nothing. One instance
/// must not be used in the child of a fork(), but it may end there: that does nothing, and the
/// child keeps its copy of the memory. Instances of the child's own are as any others. Move-only,
/// while no thread is inside a call.
/// \threads  All functions, any number at once, unless said otherwise.
class ThreadHeaps {
 public:
  static constexpr std::size_t kMaxInstances = 64;
  static constexpr std::size_t kUnlimited = SIZE_MAX;
  static constexpr std::size_t kMinArenaBytes = 64 * 1024;
  static constexpr std::size_t kMaxCachedBytes = std::size_t{1} << 30;

  struct Options {
    /// Address space that a heap takes at a time, rounded up to OS pages; only what is touched
    /// costs memory. No request may be larger (less about 4 KiB).
    std::size_t arena_bytes = 64 * 1024 * 1024;
    /// Arenas that one thread may hold, in bytes; a smaller budget than arena_bytes gives smaller
    /// arenas. And the same for all threads together.
    std::size_t thread_budget_bytes = kUnlimited;
    std::size_t total_budget_bytes = kUnlimited;
    /// Free blocks that a thread may keep for itself, in bytes; of blocks up to 8 KiB. 0 is no
    /// cache. It keeps no more than 1/8 of what a thread has in use on average, or 32 KiB, and
    /// never more than 1/32 of a thread's budget or 1/64 of the total one.
    std::size_t cached_bytes = 256 * 1024;
    /// A background thread returns idle memory to the kernel; else only reclaim_now() does, and
    /// each ending thread what is free in its arenas, or in shared ones that are less than half
    /// used.
    bool reclaims = false;
    /// How long memory is left alone before it goes back; it may take twice as long.
    std::uint32_t reclaim_delay_ms = 1000;
    /// Where arenas come from; nullptr is the kernel. For Strata's own tests: no public header has
    /// the type.
    os::PageSource* pages = nullptr;
  };

  /// The numbers of one moment. Frees are read before allocations and none is ever counted before
  /// its allocation; while threads work, each may have one call in flight, and bytes_in_use is off
  /// by what that moves. No difference wraps below zero. When they rest, the numbers are exact.
  struct Statistics {
    std::uint64_t allocations = 0;  ///< calls that returned a block
    std::uint64_t frees = 0;
    std::uint64_t remote_frees = 0;        ///< of them, by another thread than the heap's owner
    std::uint64_t failed_allocations = 0;  ///< calls that returned nullptr
    std::size_t bytes_in_use = 0;          ///< usable bytes of live blocks
    /// The most that was out of the arenas: blocks with their tags, in use, cached or on their way.
    /// The sum of each heap's own peak, so never below the peak of bytes_in_use.
    std::size_t peak_bytes = 0;
    std::size_t held_bytes = 0;  ///< address space of all arenas, what the budgets count
    std::size_t arenas = 0;
    std::size_t heaps = 0;  ///< created so far, adopted or waiting ones included
  };

  /// \errors  std::invalid_argument with a sentence if the options contradict themselves;
  ///          std::bad_alloc if there is no memory, or kMaxInstances live. Without exceptions the
  ///          sentence ends the program: use try_create().
  STRATA_MAY_REFUSE explicit ThreadHeaps(const Options& options)
      : ThreadHeaps(detail::made_or_refused(
            [&](const char** reason) { return try_create(options, reason); }, kNoMemory,
            kTooMany)) {}
  STRATA_MAY_REFUSE ThreadHeaps() : ThreadHeaps(Options()) {}

  /// The same without exceptions.
  /// \returns  The heaps, or nothing; then *reason is one sentence in static memory.
  static std::optional<ThreadHeaps> try_create(const Options& options,
                                               const char** reason = nullptr) noexcept;

  /// Gives everything back, blocks in use included. No thread may be inside a call or call again.
  /// Threads that used the instance may live on, and may have ended without freeing their blocks.
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
  /// \cost     Cached: no lock, no atomic read-modify-write. Else the lock of a heap, for which
  ///           only a reclaiming pass contends if it is the thread's own; and the constant cost of
  ///           CoalescingHeap for each arena of that heap, from the oldest on, until one serves;
  ///           system calls for a new arena. Small blocks are carved several at a time.
  void* allocate(std::size_t bytes) noexcept;
  /// The same, aligned to `alignment`, a power of two.
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= kAlignment && detail::is_power_of_two(alignment)
               ? allocate(bytes)
               : allocate_aligned(bytes, alignment);
  }

  /// Takes a block back, from any thread; nullptr is ignored. A double free, a pointer that
  /// is not of this instance or an overwritten tag ends the program with its sentence.
  void deallocate(void* block) noexcept;

  /// Resizes a block; nullptr as `block` allocates. It stays where it is if it has room for the new
  /// size, but not much more than twice that; or if both sizes are 1 KiB or more, it is in arenas
  /// of the caller's or in shared ones, and shrinks or has room behind it. Else it moves, and is
  /// then aligned to 16.
  /// \returns  The block, its contents kept up to the smaller size; nullptr, with the old block
  ///           untouched, if it does not fit and the budget or the kernel has no memory left.
  /// \cost     That of allocate() and deallocate(), and the copy, where it moves; else the lock of
  ///           a heap at most.
  void* reallocate(void* block, std::size_t bytes) noexcept;

  /// \returns  How many bytes of a live block its user may use.
  std::size_t usable_size(const void* block) const noexcept;

  /// True if the address is anywhere in an arena of this instance.
  bool owns(const void* address) const noexcept;

  /// allocate() by the name that the adapters call a source by.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return allocate(bytes, alignment);
  }

  /// Returns what is free now, without delay: wholly free arenas and whole OS pages inside free
  /// blocks, of all heaps; of the small-block caches only the caller's is emptied.
  /// \returns  How many bytes of memory went back to the kernel: of pages that were touched, not of
  ///           addresses, which held_bytes counts.
  std::size_t reclaim_now() noexcept;

  /// True while the background thread exists: as long as there is something to return, and a delay
  /// more.
  bool has_reclaimer() const noexcept;

  Statistics statistics() const noexcept;

  /// Dies unless everything is sound. For tests, while no other thread is inside a call.
  void check_invariants() noexcept;

 private:
  friend class HeapInstance;
  static constexpr std::size_t kAlignment = 16;  // of every block
  static const char kNoMemory[];
  static const char kTooMany[];

  explicit ThreadHeaps(HeapInstance& instance) noexcept;
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) noexcept;

  HeapInstance* instance_ = nullptr;
  std::uint64_t generation_ = 0;  // its number; never repeats, and is 0 for none
};

}  // namespace strata
