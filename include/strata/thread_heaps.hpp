#pragma once

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

/// A coalescing heap for each thread that asks, inside memory that the user bounds.
///
/// A thread's heap is created on its first use, out of arenas of its own; small sizes come from a
/// cache in front of it without lock or atomic. Larger ones come from a few heaps that all threads
/// share, unless the options say otherwise. A block may be freed by any thread: it travels back
/// to its heap in a batch. When a thread ends, its heap waits, blocks and all, to be adopted by the
/// next thread that needs one. A request that does not fit the budget is refused, never served from
/// elsewhere.
///
/// Any number of instances up to kMaxInstances may live at once; they share nothing. One instance
/// must not be used in the child of a fork(). Move-only, while no thread is inside a call.
/// \threads  All functions, any number at once, unless said otherwise.
class ThreadHeaps {
 public:
  static constexpr std::size_t kMaxInstances = 64;
  static constexpr std::size_t kMaxSmallBins = 8;
  static constexpr std::size_t kMaxSmallBytes = 1024;
  static constexpr std::size_t kUnlimited = SIZE_MAX;
  static constexpr std::size_t kMinArenaBytes = 64 * 1024;

  struct Options {
    /// Address space that a heap takes at a time, rounded up to OS pages; only what is touched
    /// costs memory. No request may be larger (less about 4 KiB).
    std::size_t arena_bytes = 64 * 1024 * 1024;
    /// Arenas that one thread may hold, in bytes; a smaller budget than arena_bytes gives smaller
    /// arenas. And the same for all threads together.
    std::size_t thread_budget_bytes = kUnlimited;
    std::size_t total_budget_bytes = kUnlimited;
    /// Ascending upper ends of the small-block cache's bins, multiples of 16, 0 after the last;
    /// all 0 is no cache.
    std::size_t small_bins[kMaxSmallBins] = {32, 64, 128, 256};
    /// Requests of this size and more are served from a few heaps that all threads share, under
    /// their locks: such blocks are few, but most of the bytes, and what one thread frees another
    /// can use. kUnlimited shares nothing; nor does an instance with a budget for each thread.
    std::size_t shared_bytes = 1024;
    /// A background thread returns idle memory to the kernel; else only reclaim_now() does, and
    /// each ending thread what its heap, or shared ones of which less than half is used, have free.
    bool reclaims = false;
    /// How long memory is left alone before it goes back; it may take twice as long.
    std::uint32_t reclaim_delay_ms = 1000;
    /// Where arenas come from; nullptr is the kernel.
    os::PageSource* pages = nullptr;
  };

  /// The numbers of one moment. Frees are read before allocations and none is ever counted before
  /// its allocation, so no difference wraps below zero; while threads work, each may have one call
  /// in flight that is counted but not its bytes. When they rest, the numbers are exact.
  struct Statistics {
    std::uint64_t allocations = 0;  ///< calls that returned a block
    std::uint64_t frees = 0;
    std::uint64_t remote_frees = 0;        ///< of them, by another thread than the heap's owner
    std::uint64_t failed_allocations = 0;  ///< calls that returned nullptr
    std::size_t bytes_in_use = 0;          ///< usable bytes of live blocks
    /// Sum of each heap's own peak, shared heaps included: never below the peak of the sum, and
    /// equal to it for one thread that shares nothing.
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
  ThreadHeaps(ThreadHeaps&& other) noexcept : instance_(std::exchange(other.instance_, nullptr)) {}
  ThreadHeaps& operator=(ThreadHeaps&& other) noexcept {
    ThreadHeaps taken(std::move(other));
    std::swap(instance_, taken.instance_);
    return *this;
  }
  ThreadHeaps(const ThreadHeaps&) = delete;
  ThreadHeaps& operator=(const ThreadHeaps&) = delete;

  /// \returns  At least `bytes` bytes, contents unspecified, aligned to `alignment`, a power of
  ///           two; nullptr if the budget or the kernel has no memory left.
  /// \cost     Small and cached: no lock, no atomic read-modify-write. Else the lock of the
  ///           thread's heap, which only a reclaiming pass contends for, or from shared_bytes on
  ///           that of a shared heap; and the constant cost of CoalescingHeap for each arena of
  ///           that heap, from the oldest on, until one serves; system calls for a new arena.
  void* allocate(std::size_t bytes, std::size_t alignment = 16) noexcept;

  /// Takes a block back, from any thread; nullptr is ignored. A double free, a pointer that
  /// is not of this instance or an overwritten tag ends the program with its sentence.
  void deallocate(void* block) noexcept;

  /// As CoalescingHeap::reallocate; a block of another thread's heap moves to the caller's.
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

  /// True while the background thread exists: from the first time there was something to return.
  bool has_reclaimer() const noexcept;

  Statistics statistics() const noexcept;

  /// Dies unless everything is sound. For tests, while no other thread is inside a call.
  void check_invariants() noexcept;

 private:
  friend class HeapInstance;
  static const char kNoMemory[];
  static const char kTooMany[];

  explicit ThreadHeaps(HeapInstance* instance) noexcept : instance_(instance) {}

  HeapInstance* instance_ = nullptr;
};

}  // namespace strata
