#pragma once

#include <strata/coalescing_heap.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "heap/block_tag.h"

namespace strata {

class HeapInstance;
class ThreadHeap;

/// The head of an arena, at its start; arenas are aligned so that a block's address, rounded down,
/// is its arena's. The rest of the arena is the region of `blocks`.
struct HeapArena {
  HeapArena(ThreadHeap& owner, std::size_t size) noexcept
      : heap(owner), bytes(size), blocks(this + 1, size - sizeof(HeapArena)) {}

  ThreadHeap& heap;
  std::size_t bytes;
  HeapArena* next = nullptr;  // of the same heap; guarded by its lock
  CoalescingHeap blocks;      // guarded by the heap's lock
};

/// A counter that one thread writes and others read: no atomic read-modify-write.
class Counter {
 public:
  void add(std::uint64_t n, std::memory_order order = std::memory_order_relaxed) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, order);
  }
  std::uint64_t get(std::memory_order order = std::memory_order_relaxed) const noexcept {
    return value_.load(order);
  }
  void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// The link through a freed block's bytes, doubled and inverted so that a write after free shows.
struct FreedBlock {
  FreedBlock* next;
  std::uintptr_t inverse;

  void set_next(FreedBlock* block) noexcept {
    next = block;
    inverse = ~reinterpret_cast<std::uintptr_t>(block);
  }
  FreedBlock* checked_next() const noexcept {
    if (reinterpret_cast<std::uintptr_t>(next) != ~inverse) [[unlikely]]
      die();
    return next;
  }

 private:
  [[noreturn]] void die() const noexcept;
};

/// One thread's heap in one instance. Three kinds of state:
///   the owner's        caches, outboxes, counters: touched by the thread that has the heap now, or
///                      by nobody while it waits to be adopted
///   under the lock     the arenas and their blocks: the owner's slow path, and reclaiming passes
///   anybody's          the list of blocks that other threads freed
/// A block is of its heap from allocation to the return into it, whoever holds it in between; what
/// its tag says (live, cached, travelling) is changed only by whoever holds it.
class alignas(64) ThreadHeap {
 public:
  ThreadHeap(HeapInstance& instance, std::uint32_t number) noexcept;

  // --- the owner's ---------------------------------------------------------------------------
  void* allocate(std::size_t bytes) noexcept;
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept;
  void deallocate(void* block) noexcept;
  void* reallocate(void* block, std::size_t bytes) noexcept;

  /// Sends away what the outboxes hold and puts the caches' blocks back into the arenas.
  void flush() noexcept;

  /// For a thread that ends: returns what is free beyond kKept bytes of each free range, so that a
  /// heap that nobody adopts holds little, and one that is adopted begins warm.
  void shed() noexcept;

  // --- anybody's -----------------------------------------------------------------------------

  /// Takes a chain of blocks of this heap that other threads freed.
  void receive(FreedBlock* first, FreedBlock* last) noexcept;

  /// One reclaiming pass: takes in what other threads freed and returns what is free. Unless it is
  /// forced, only what a pass has found untouched since the one before.
  /// \returns  Bytes given back; `is_young` says that another pass will find more.
  std::size_t sweep(bool is_forced, bool& is_young) noexcept;

  bool is_dirty() const noexcept { return is_dirty_.load(std::memory_order_seq_cst); }

  /// While nothing else touches the heap.
  void check_invariants() noexcept;
  void unmap_arenas() noexcept;

  /// Of a live block that the user names; any thread. \returns its usable bytes.
  static std::size_t usable_size(const HeapArena& arena, const void* block) noexcept;
  /// Frees it without a heap of the caller's own.
  static std::size_t free_for_nobody(HeapArena& arena, void* block) noexcept;

 private:
  friend class HeapInstance;

  static constexpr std::size_t kBins = 8;
  static constexpr std::size_t kMaxSmallGranules = 96;  // of blocks that the last bin may hold
  static constexpr std::uint8_t kNoBin = 0xff;

  struct Cache {
    FreedBlock* head = nullptr;
    std::uint32_t count = 0;
    std::uint32_t bytes = 0;  // of a request that this bin serves, at most
  };
  struct Outbox {
    ThreadHeap* to = nullptr;
    FreedBlock* first = nullptr;
    FreedBlock* last = nullptr;
    std::uint32_t count = 0;
    std::size_t bytes = 0;
  };

  /// Per bin; more would hold memory back from merging, fewer would go to the arenas too often.
  static constexpr std::uint32_t kMaxCached = 64;
  static constexpr std::uint32_t kRefill = 16;
  /// A batch to another heap: 32 blocks make the atomic cheap, 16 KiB bound what waits in it.
  static constexpr std::uint32_t kMaxSent = 32;
  static constexpr std::size_t kMaxSentBytes = 16 * 1024;
  static constexpr std::size_t kOutboxes = 8;
  /// As much as a short thread touches; below it, the system call costs more than the memory.
  static constexpr std::size_t kKept = 64 * 1024;

  void* pop(Cache& cache) noexcept;
  void push(Cache& cache, void* block, std::uint32_t granules) noexcept;
  bool refill(Cache& cache) noexcept;
  void spill(Cache& cache, std::uint32_t keep) noexcept;
  void* allocate_from_arenas(std::size_t bytes, std::size_t alignment) noexcept;
  void* carve(std::size_t bytes, std::size_t alignment) noexcept;
  HeapArena* add_arena(std::size_t min_bytes) noexcept;
  void send(std::uint32_t granules, ThreadHeap& to, void* block) noexcept;
  void send_off(Outbox& outbox) noexcept;
  bool take_in(bool may_cache) noexcept;
  void put_back(FreedBlock* block, std::uint32_t granules) noexcept;
  void count_allocation(std::size_t bytes) noexcept;
  void note_peak() noexcept;
  void note_dirty() noexcept;
  void release(HeapArena* arena) noexcept;

  // The owner's.
  HeapInstance& instance_;
  const std::uint32_t number_;  // counts the instance's heaps; neighbours have an outbox each
  std::uintptr_t arena_mask_;
  std::size_t max_small_ = 0;
  std::uint8_t bin_of_request_[1024 / 16 + 1];       // by size in units of 16 bytes
  std::uint8_t bin_of_granules_[kMaxSmallGranules];  // by size of the block
  Cache caches_[kBins];
  Outbox outboxes_[kOutboxes];

  // Written by the owner, read by statistics().
  Counter allocations_;
  Counter allocated_bytes_;
  Counter frees_;
  Counter freed_bytes_;
  Counter remote_frees_;
  Counter failures_;
  Counter peak_bytes_;
  Counter returned_bytes_;  // freed into this heap by its owner

  // Guarded by the lock.
  alignas(64) Lock lock_{LockRank::kThreadHeap};
  HeapArena* arenas_ = nullptr;
  std::size_t held_bytes_ = 0;
  Counter taken_in_bytes_;  // freed by other threads and received; read by the owner without lock

  /// The arena that the owner used last: a block in it needs no search. Cleared by the pass that
  /// unmaps it; relaxed, because it only answers "is this address an arena of the instance", which
  /// holds for every address that was stored and not cleared.
  std::atomic<std::uintptr_t> recent_arena_{0};

  /// Something was freed into the arenas since the last pass. Set by whoever holds the lock;
  /// seq_cst pairs with the reclaimer's going to rest.
  std::atomic<bool> is_dirty_{false};

  /// Blocks that other threads freed, last in first out: push with release, taken whole with
  /// acquire, so it has no ABA.
  alignas(64) std::atomic<FreedBlock*> received_{nullptr};

  ThreadHeap* next_ = nullptr;            // of all heaps of the instance; never changes
  ThreadHeap* next_abandoned_ = nullptr;  // guarded by the instance's lock
};

}  // namespace strata
