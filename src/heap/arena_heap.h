#pragma once

#include <strata/coalescing_heap.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "heap/block_tag.h"
#include "heap/free_block.h"

namespace strata {

class ArenaHeap;
class HeapInstance;

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// The head of an arena, at its start; arenas are aligned so that a block's address, rounded down,
/// is its arena's. The rest of the arena is the region of `blocks`.
struct HeapArena {
  HeapArena(ArenaHeap& owner, std::size_t size) noexcept : heap(owner), bytes(size) {
    blocks.adopt_region(this + 1, size - sizeof(HeapArena));
  }
  /// An unmapped region goes to no other heap: its tags stay as they are.
  ~HeapArena() { blocks.end_ = 1; }

  ArenaHeap& heap;
  std::size_t bytes;
  HeapArena* next = nullptr;  // of the same heap, the next younger one; guarded by its lock
  /// The size of a request that was refused, with nothing freed since; guarded by the lock.
  std::size_t refused_bytes = SIZE_MAX;
  std::size_t reached_bytes = kHugePage;  // no block has reached beyond it; guarded by the lock
  bool has_huge_pages = false;            // guarded by the lock
  CoalescingHeap blocks;                  // guarded by the heap's lock
};

/// A number that one thread writes and others read: no atomic read-modify-write.
template <typename Number>
class Published {
 public:
  /// \returns  What it is now.
  Number add(Number n, std::memory_order order = std::memory_order_relaxed) noexcept {
    const auto sum = static_cast<Number>(value_.load(std::memory_order_relaxed) + n);
    value_.store(sum, order);
    return sum;
  }
  Number get(std::memory_order order = std::memory_order_relaxed) const noexcept {
    return value_.load(order);
  }
  void set(Number n) noexcept { value_.store(n, std::memory_order_relaxed); }

 private:
  std::atomic<Number> value_{0};
};
using Counter = Published<std::uint64_t>;

/// The link through a freed block's bytes, doubled and inverted so that a write after free shows.
struct FreedBlock {
  FreedBlock* next;
  std::uintptr_t inverse;

  /// The link of a freed block, which takes its first bytes.
  static FreedBlock* in(void* block) noexcept { return static_cast<FreedBlock*>(block); }

  void set_next(FreedBlock* block) noexcept {
    next = block;
    inverse = ~reinterpret_cast<std::uintptr_t>(block);
  }
  FreedBlock* next_by_inverse() const noexcept { return reinterpret_cast<FreedBlock*>(~inverse); }
  FreedBlock* checked_next() const noexcept {
    if (next != next_by_inverse()) [[unlikely]]
      die();
    return next;
  }

 private:
  [[noreturn]] void die() const noexcept;
};

/// Arenas behind one lock, and the list for blocks that are freed without it. If each thread has a
/// budget, each has an ArenaHeap of its own; otherwise all threads share a few. HeapInstance owns
/// them.
///
/// A block belongs to its heap from when it is carved until it is returned, whichever thread holds
/// it in between. Only its holder changes what its tag says (live, cached, travelling).
class alignas(64) ArenaHeap {
 public:
  ArenaHeap(HeapInstance& instance, std::uint32_t number) noexcept;

  std::uint32_t number() const noexcept { return number_; }
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

  // --- under the lock --------------------------------------------------------------------------

  /// Carves a live block out of the oldest arena that has room, so that the youngest ones become
  /// empty, or out of a new one; nullptr if there is none.
  void* carve(std::size_t bytes, std::size_t alignment) noexcept STRATA_REQUIRES(lock_);
  /// Carves up to `count` blocks out of one arena; bytes as for CoalescingHeap::allocate_several().
  std::uint32_t carve_several(std::size_t bytes, void** blocks, std::uint32_t count) noexcept
      STRATA_REQUIRES(lock_);

  /// Cached or travelling blocks on their way back into the arenas: neighbours, which were often
  /// freed together, go as one.
  struct Joined {
    char* first = nullptr;  // the user's bytes of the lowest
    std::size_t bytes = 0;  // of all, tags included
    std::uint32_t count = 0;
  };
  /// Joins the block to the ones before it if it is a neighbour; otherwise sends those off and
  /// starts anew.
  void put_back(FreedBlock* block, std::uint32_t granules, Joined& joined) noexcept
      STRATA_REQUIRES(lock_);
  void put_back(Joined& joined) noexcept STRATA_REQUIRES(lock_);

  /// Puts back the blocks that were freed without the lock; keep(block, granules) may take one for
  /// itself.
  template <typename Keep>
  void take_in(Keep keep) noexcept STRATA_REQUIRES(lock_);
  void take_in() noexcept STRATA_REQUIRES(lock_) {
    take_in([](FreedBlock*, std::uint32_t) { return false; });
  }

  // --- any thread ------------------------------------------------------------------------------

  /// Takes a live block back. Never waits: if the lock is taken, leaves the block in the list.
  void deallocate(HeapArena& arena, void* block, std::uint32_t granules) noexcept;

  /// Resizes a live block in place; false if it cannot.
  bool resize(HeapArena& arena, void* block, std::size_t bytes) noexcept;

  /// Takes a chain of this heap's blocks, in the travelling state, that were freed without its
  /// lock. Called with no lock held.
  void receive(FreedBlock* first, FreedBlock* last) noexcept;

  /// Called when the thread that owns the heap ends: returns what is free beyond the first bytes of
  /// each free range. So a heap that is not adopted holds little, and one that is starts warm.
  void shed() noexcept;
  /// Called when one of the threads that share it ends: the same, if half of what was used is free.
  void shed_half() noexcept;

  /// One reclaiming pass: takes in what other threads freed, and returns free memory. Unless
  /// forced, only memory that has been untouched since the last pass found it free.
  /// \returns  Bytes decommitted and unmapped, counted only when forced; `is_young` says that
  ///           another pass will find more.
  std::size_t sweep(bool is_forced, bool& is_young) noexcept;

  /// Counts one more thread whose home this heap is.
  void add_thread() noexcept {
    LockGuard guard(lock_);
    ++threads_;
  }
  std::size_t bytes_out_per_thread() noexcept {
    LockGuard guard(lock_);
    return out_bytes_ / threads_;
  }

  /// Called after blocks were put back, with no lock held: ensures that a pass follows. What
  /// take_in() puts back needs none, since receive() has ensured it.
  void wake_reclaimer() noexcept;

  bool is_dirty() const noexcept { return is_dirty_.load(std::memory_order_seq_cst); }
  std::size_t peak_bytes() const noexcept { return peak_bytes_.get(); }

  /// Called while nothing else touches the heap.
  /// \returns  bytes of its arenas
  std::size_t check_invariants() noexcept;
  void unmap_arenas() noexcept;

  // --- blocks ----------------------------------------------------------------------------------

  /// The size in granules of a live block of this arena that the user names, or no return.
  static std::uint32_t granules_of_live(const HeapArena& arena, const void* block) noexcept {
    if (!may_start_in(arena, block)) [[unlikely]]
      die_of_no_block(block);
    return granules_of_live(block);
  }
  [[noreturn]] static void die_of_not_live(const void* block) noexcept;
  /// The same, where it may start in an arena, or be the end of one.
  static std::uint32_t granules_of_live(const void* block) noexcept {
    const BlockTag* tag = BlockTag::of(block);
    const std::uint32_t granules = tag->load_size() >> 1;
    if (tag->load_seal() != tag->seal_for(granules, BlockState::kLive)) [[unlikely]]
      die_of_not_live(block);
    return granules;
  }

  /// Size of a block in the state that its holder left it in, or no return.
  static std::uint32_t granules_in_state(const void* block, BlockState state) noexcept {
    const BlockTag* tag = BlockTag::of(block);
    const std::uint32_t granules = tag->load_size() >> 1;
    if (tag->load_seal() != tag->seal_for(granules, state)) [[unlikely]]
      die_of_overflow(tag);
    return granules;
  }

 private:
  friend class HeapInstance;

  /// What an ending thread leaves of each free range: as much as a short thread touches. Below it,
  /// the system call costs more than the memory.
  static constexpr std::size_t kKept = 64 * 1024;
  static constexpr std::size_t kKeptOfShared = 16 * 1024;
  static constexpr std::size_t kWorthShedding = std::size_t{1} << 20;
  /// A heap with so much in use grows by huge pages: at most a part in 16 is not used yet.
  static constexpr std::size_t kHugeFrom = 16 * kHugePage;
  static constexpr std::size_t kHugeAhead = kHugePage / 8;

  static bool may_start_in(const HeapArena& arena, const void* block) noexcept {
    const std::uintptr_t offset =
        reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(&arena);
    return offset % BlockTag::kGranuleBytes == 0 &&
           offset - sizeof(HeapArena) < arena.bytes - sizeof(HeapArena);
  }
  [[noreturn]] static void die_of_no_block(const void* block) noexcept;

  void* count_out(HeapArena& arena, void* block) noexcept STRATA_REQUIRES(lock_);
  void reach(HeapArena& arena, std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  void note_freed(HeapArena& arena, std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  /// Decommits the pages of free blocks of 2 * `kept` bytes and more, except the first `kept`
  /// bytes.
  void shed(std::size_t kept) noexcept STRATA_REQUIRES(lock_);
  void sweep(HeapArena& arena, std::uint32_t first_bin, CoalescingHeap::Sweep& pass) noexcept
      STRATA_REQUIRES(lock_);
  void release(HeapArena* arena) noexcept STRATA_REQUIRES(lock_);
  void become_dirty() noexcept {
    if (!is_dirty()) is_dirty_.store(true, std::memory_order_seq_cst);
  }

  HeapInstance& instance_;
  const std::uint32_t number_;  // counts the instance's heaps; neighbours have an outbox each
  ArenaHeap* next_ = nullptr;   // of all heaps of the instance; never changes

  alignas(64) Lock lock_{LockRank::kThreadHeap};
  HeapArena* arenas_ STRATA_GUARDED_BY(lock_) = nullptr;
  std::size_t threads_ STRATA_GUARDED_BY(lock_) = 0;  // that have it for their home, ended ones too
  std::size_t held_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  // Bytes of blocks outside the arenas, tags included: now, the peak, and the peak since the last
  // shedding. The peak is written under the lock and read without it.
  std::size_t out_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t touched_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  Counter peak_bytes_;

  /// Something was freed since the last pass. seq_cst pairs with the end of the reclaimer's thread,
  /// and with received_: a thread that leaves blocks there and then finds the heap dirty already,
  /// and a pass that makes it clean and then finds nothing there, must not both be right.
  std::atomic<bool> is_dirty_{false};

  /// Blocks that were freed without the lock, last in first out: pushed with release, taken whole
  /// with acquire, so it has no ABA.
  alignas(64) std::atomic<FreedBlock*> received_{nullptr};
};

template <typename Keep>
void ArenaHeap::take_in(Keep keep) noexcept {
  if (received_.load(std::memory_order_seq_cst) == nullptr) return;
  FreedBlock* block = received_.exchange(nullptr, std::memory_order_acquire);
  Joined joined;
  while (block != nullptr) {
    FreedBlock* next = block->checked_next();
    const std::uint32_t granules = granules_in_state(block, BlockState::kTravelling);
    if (!keep(block, granules)) put_back(block, granules, joined);
    block = next;
  }
  put_back(joined);
}

}  // namespace strata
