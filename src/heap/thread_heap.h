#pragma once

#include <strata/detail/bits.hpp>

#include <cstddef>
#include <cstdint>

#include "heap/arena_heap.h"
#include "heap/free_block.h"

namespace strata {

class SharedHeap;

/// One thread's heap in one instance. Three kinds of state:
///   the owner's        caches, outboxes, counters: touched by the thread that has the heap now, or
///                      by none while it waits to be adopted
///   under the lock     the arenas and their blocks: the owner's slow path, and reclaiming passes
///   any thread's       the list of blocks that other threads freed
/// The last two are those of an ArenaHeap. Blocks from `shared_bytes` of the options on are not of
/// this heap but of one of the instance's shared ones.
class ThreadHeap final : public ArenaHeap {
 public:
  ThreadHeap(HeapInstance& instance, std::uint32_t number) noexcept;
  ~ThreadHeap() = default;

  // --- the owner's ---------------------------------------------------------------------------
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    if (bytes < small_end_ && is_ordinary(alignment)) [[likely]] {
      Cache& cache = caches_[bin_of_request_[(bytes + 15) / 16]];
      if (cache.head != nullptr) [[likely]]
        return pop(cache);
    }
    return allocate_slowly(bytes, alignment);
  }

  void deallocate(void* block) noexcept {
    const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(block) & ~arena_mask_;
    // The recent arena is always one of this heap.
    if (start == recent_arena_.load(std::memory_order_relaxed)) [[likely]] {
      deallocate_own(*reinterpret_cast<HeapArena*>(start), block);
    } else {
      deallocate_elsewhere(block);
    }
  }

  void* reallocate(void* block, std::size_t bytes) noexcept;

  /// Sends away what the outboxes hold and puts the caches' blocks back into the arenas.
  void flush() noexcept;

  /// For a thread that ends: returns what is free beyond kKept bytes of each free range, so that a
  /// heap that is not adopted holds little, and one that is adopted begins warm.
  void shed() noexcept;

  /// While nothing else touches the heap.
  /// \returns  bytes of its arenas
  std::size_t check_invariants() noexcept;

  // --- any thread's --------------------------------------------------------------------------

  /// Of a live block that the user names; any thread.
  /// \returns  its usable bytes.
  static std::size_t usable_size(const HeapArena& arena, const void* block) noexcept;
  /// Frees it without a heap of the caller's own.
  static std::size_t free_for_nobody(HeapArena& arena, void* block) noexcept;

 private:
  friend class HeapInstance;

  static constexpr std::size_t kBins = 8;
  static constexpr std::size_t kMaxSmallGranules = 96;  // of blocks that the last bin may hold
  static constexpr std::uint8_t kNoBin = 0xff;

  /// Two lists: what was freed last is used first, and when both are full the older one goes.
  struct Cache {
    FreedBlock* head = nullptr;
    std::uint32_t count = 0;       // in the list of `head`, at most kHalf
    std::uint32_t bytes = 0;       // of a request that this bin serves, at most
    FreedBlock* second = nullptr;  // empty, or kHalf blocks
  };
  struct Outbox {
    ArenaHeap* to = nullptr;
    FreedBlock* first = nullptr;
    FreedBlock* last = nullptr;
    std::uint32_t count = 0;
    std::size_t bytes = 0;
  };

  /// Twice that per bin; more would hold memory back from merging, fewer would go to the arenas too
  /// often.
  static constexpr std::uint32_t kHalf = 32;
  static constexpr std::uint32_t kRefill = 16;
  /// A batch to another heap: 32 blocks make the atomic cheap, 16 KiB bound what waits in it.
  static constexpr std::uint32_t kMaxSent = 32;
  static constexpr std::size_t kMaxSentBytes = 16 * 1024;
  static constexpr std::size_t kOutboxes = 8;
  /// As much as a short thread touches; below it, the system call costs more than the memory.
  static constexpr std::size_t kKept = 64 * 1024;

  static bool is_ordinary(std::size_t alignment) noexcept {
    return alignment <= BlockTag::kGranuleBytes && detail::is_power_of_two(alignment);
  }
  void* pop(Cache& cache) noexcept {
    FreedBlock* block = cache.head;
    const std::uint32_t granules = granules_in_state(block, BlockState::kCached);
    cache.head = block->checked_next();
    --cache.count;
    BlockTag::of(block)->set_state(granules, BlockState::kLive);
    count_allocation(user_bytes(granules));
    if (is_above_peak_line()) [[unlikely]]
      return note_own_peak(block);
    return block;
  }
  /// Into a list that is not full.
  static void push(Cache& cache, void* block, std::uint32_t granules) noexcept {
    BlockTag::of(block)->set_state(granules, BlockState::kCached);
    FreedBlock::in(block)->set_next(cache.head);
    cache.head = FreedBlock::in(block);
    ++cache.count;
  }
  void deallocate_own(HeapArena& arena, void* block) noexcept {
    const std::uint32_t granules = granules_of_live(arena, block);
    // release pairs with the acquire in statistics(): what sees this free sees the allocation too.
    frees_.add(1, std::memory_order_release);
    freed_bytes_.add(user_bytes(granules), std::memory_order_release);
    const std::uint8_t bin = granules < kMaxSmallGranules ? bin_of_granules_[granules] : kNoBin;
    if (bin == kNoBin) return deallocate_uncached(arena, block);
    Cache& cache = caches_[bin];
    if (cache.count == kHalf) [[unlikely]]
      return push_into_full(cache, block, granules);
    push(cache, block, granules);
  }
  void count_allocation(std::size_t bytes) noexcept {
    allocations_.add(1);
    placed_bytes_.add(bytes);
  }
  bool is_above_peak_line() const noexcept {
    return placed_bytes_.get() - freed_bytes_.get() > peak_line_;
  }

  void* allocate_slowly(std::size_t bytes, std::size_t alignment) noexcept;
  void* place(std::size_t bytes, std::size_t alignment) noexcept;
  void deallocate_elsewhere(void* block) noexcept;
  void deallocate_uncached(HeapArena& arena, void* block) noexcept;
  void* note_own_peak(void* block) noexcept;
  bool refill(Cache& cache) noexcept;
  void push_into_full(Cache& cache, void* block, std::uint32_t granules) noexcept;
  void spill(FreedBlock* list) noexcept;
  void empty(Cache& cache) noexcept;
  void* allocate_from_arenas(std::size_t bytes, std::size_t alignment) noexcept;
  void* allocate_shared(std::size_t bytes, std::size_t alignment) noexcept;
  bool is_for_shared(std::size_t bytes) const noexcept { return bytes >= shared_bytes_; }
  bool resize(HeapArena& arena, void* block, std::size_t held, std::size_t bytes) noexcept;
  void send(std::uint32_t granules, ArenaHeap& to, void* block) noexcept;
  void send_off(Outbox& outbox) noexcept;

  // The owner's.
  std::size_t small_end_ = 0;  // requests below it have a bin; 0 if there is none
  /// A peak is not below it: the last peak and all that had been taken in by then, which only grows
  /// and is not the owner's to read at every call.
  std::uint64_t peak_line_ = 0;
  std::size_t shared_bytes_;                    // from here on, requests go to the shared heaps
  std::uint8_t bin_of_request_[1024 / 16 + 1];  // by size in units of 16 bytes
  std::uint8_t bin_of_granules_[kMaxSmallGranules];  // by size of the block
  Cache caches_[kBins];
  Outbox outboxes_[kOutboxes];

  // Written by the owner, read by statistics().
  Counter allocations_;
  Counter frees_;
  Counter freed_elsewhere_bytes_;  // by this thread, of other heaps
  Counter remote_frees_;
  Counter failures_;

  ThreadHeap* next_ = nullptr;            // of all heaps of the instance; never changes
  ThreadHeap* next_abandoned_ = nullptr;  // guarded by the instance's lock
};

}  // namespace strata
