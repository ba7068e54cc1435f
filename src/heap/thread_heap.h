#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "heap/arena_heap.h"
#include "heap/free_block.h"
#include "heap/size_bins.h"

namespace strata {

/// One thread's part of one HeapInstance: a cache of free blocks in front of the arenas, blocks on
/// their way to other heaps, and counters. Only the thread that has it touches it, and nobody while
/// it waits to be adopted.
///
/// The cache has a list for each bin of the arenas, so its blocks fit equally well; nothing in it
/// merges. It holds blocks of the thread's home, and of every heap that threads share: a thread can
/// use what it frees, whoever allocated it.
class ThreadHeap {
 public:
  ThreadHeap(HeapInstance& instance, ArenaHeap& home) noexcept;
  ThreadHeap(const ThreadHeap&) = delete;
  ThreadHeap& operator=(const ThreadHeap&) = delete;

  void* allocate(std::size_t bytes) noexcept {
    if (bytes <= size_bins::kMaxTabledBytes) [[likely]] {
      const std::size_t bin = size_bins::kRequests[tagged_granules(bytes)].bin;
      if (lists_[bin] != nullptr) [[likely]]
        return pop(bin);
    }
    return allocate_slowly(bytes, BlockTag::kGranuleBytes);
  }
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment == BlockTag::kGranuleBytes ? allocate(bytes)
                                                : allocate_slowly(bytes, alignment);
  }

  void deallocate(void* block) noexcept {
    // One comparison for "in the arena of the last free" and "on a granule", and one that nullptr
    // fails: rotated, the bits below a granule are the highest.
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(block) - last_first_;
    if (std::rotr(offset, kGranuleBits) >= last_granules_.get()) [[unlikely]]
      return deallocate_elsewhere(block);
    take_back(block);
  }

  void* reallocate(void* block, std::size_t bytes) noexcept;

  /// Called before an arena is unmapped, which may be the remembered one. Any thread may call it.
  /// No thread has a block of that arena, so if this heap's thread remembers an arena meanwhile, it
  /// is another one.
  void forget_last_arena() noexcept { last_granules_.set(0); }

  /// Sends away the blocks in the outboxes, and puts the cached ones back into the arenas.
  void flush() noexcept;

  /// Called while nothing else touches the heap.
  void check_invariants() const noexcept;

  // --- any thread's --------------------------------------------------------------------------

  /// The size of a live block that the user names; any thread.
  /// \returns  its usable bytes.
  static std::size_t usable_size(const HeapArena& arena, const void* block) noexcept;
  /// Frees a block for a thread without a heap.
  /// \returns  its size.
  static std::uint32_t free_for_nobody(HeapArena& arena, void* block) noexcept;

 private:
  friend class HeapInstance;

  /// Blocks up to this size are cached, if they are a small part of the cache. Larger ones go back
  /// at once: the user's work with them is worth many splits.
  static constexpr std::uint32_t kMostGranules = size_bins::kLargestTabled;
  // Chosen: a cached block is at most this part of the cache; the smallest cache still takes blocks
  // of 4 KiB. With a fourth, and blocks up to 32 KiB, mixed sizes took 1.4 times as long: large
  // blocks drove the small ones out.
  static constexpr std::uint32_t kCachedPart = 7;
  static constexpr std::size_t kLists = size_bins::bin_for(kMostGranules) + 1;

  /// What the cache may hold: this part of what a thread has in use, but at least so much.
  static constexpr std::size_t kCachedShare = 8;
  static constexpr std::size_t kLeastCachedBytes = 32 * 1024;

  /// The most blocks of one refill: enough to make the lock cheap, and no more bytes than a page.
  static constexpr std::uint32_t kMaxRefill = 16;
  static constexpr std::size_t kMaxRefillBytes = 4096;
  /// Blocks from this size on grow and shrink in place.
  static constexpr std::size_t kResizedBytes = 1024;

  /// Blocks on their way to another heap.
  struct Outbox {
    ArenaHeap* to = nullptr;
    FreedBlock* first = nullptr;
    FreedBlock* last = nullptr;
    std::uint32_t count = 0;
    std::size_t bytes = 0;
  };
  /// A batch to another heap: 32 blocks make the atomic cheap, 16 KiB bound what waits in it.
  static constexpr std::uint32_t kMaxSent = 32;
  static constexpr std::size_t kMaxSentBytes = 16 * 1024;
  static constexpr std::size_t kOutboxes = 8;
  static constexpr int kGranuleBits = std::countr_zero(BlockTag::kGranuleBytes);

  bool is_for_cache(const ArenaHeap& heap) const noexcept { return is_shared_ || &heap == &home_; }
  // Functions that end the program are called last, so that the common path needs no stack.
  void* pop(std::size_t bin) noexcept {
    FreedBlock* block = lists_[bin];
    BlockTag* tag = BlockTag::of(block);
    const std::uint32_t granules = tag->load_size() >> 1;
    FreedBlock* next = block->next_by_inverse();
    if (next != block->next) [[unlikely]]
      return die_of_broken(block);
    if (!tag->change_state(granules, BlockState::kCached, BlockState::kLive)) [[unlikely]]
      return die_of_broken(block);
    lists_[bin] = next;
    room_.add(granules);
    allocations_.add(1);
    return block;
  }
  static void* die_of_broken(FreedBlock* block) noexcept;
  void push(void* block, std::uint32_t granules) noexcept {
    BlockTag::of(block)->set_state(granules, BlockState::kCached);
    link(block, granules, size_bins::bin_of(granules));
  }
  /// Adds a block, whose tag says that it is cached, to its list.
  /// \returns  The room that is left; below 0 the cache must shrink.
  std::int64_t link(void* block, std::uint32_t granules, std::size_t bin) noexcept {
    FreedBlock::in(block)->set_next(lists_[bin]);
    lists_[bin] = FreedBlock::in(block);
    return room_.add(-std::int64_t{granules});
  }
  /// Frees a live block of an arena whose blocks this cache may hold.
  void take_back(void* block) noexcept {
    BlockTag* tag = BlockTag::of(block);
    const std::uint32_t granules = tag->load_size() >> 1;
    if (granules > most_granules_) [[unlikely]]
      return take_back_large(block);
    if (!tag->change_state(granules, BlockState::kLive, BlockState::kCached)) [[unlikely]]
      ArenaHeap::die_of_not_live(block);
    // release pairs with the acquire in statistics(): what sees this free sees the allocation too.
    frees_.add(1, std::memory_order_release);
    if (link(block, granules, size_bins::tabled_bin_of(granules)) < 0) [[unlikely]]
      shrink();
  }
  std::int64_t granules_in_use() const noexcept { return elsewhere_.get() + room_.get(); }

  /// Caches a block from an arena.
  void fill(void* block, std::uint32_t granules) noexcept {
    elsewhere_.add(granules);
    push(block, granules);
  }
  void* allocate_slowly(std::size_t bytes, std::size_t alignment) noexcept;
  void* place(std::size_t bytes, std::size_t alignment) noexcept;
  void* take_from_lists(std::size_t bytes) noexcept;
  std::uint32_t refill_of(std::size_t bytes) const noexcept;
  void* carve_from(ArenaHeap& heap, std::size_t bytes, std::size_t alignment) noexcept;
  void* carve_anywhere(std::size_t bytes, std::size_t alignment) noexcept;
  void deallocate_elsewhere(void* block) noexcept;
  void take_back_large(void* block) noexcept;
  void set_full_room(std::int64_t full) noexcept;
  void shrink() noexcept;
  void spill(FreedBlock* list) noexcept;
  bool resize(HeapArena& arena, void* block, std::size_t held, std::size_t bytes) noexcept;
  void send(std::uint32_t granules, ArenaHeap& to, void* block) noexcept;
  void send_off(Outbox& outbox) noexcept;
  void send_off_all() noexcept {
    for (Outbox& outbox : outboxes_) send_off(outbox);
  }

  FreedBlock* lists_[kLists] = {};  // first: an index less to add
  // The fields of the hot paths.
  // The arena of the last free, if its blocks are for the cache: the first address that may be a
  // block's, which is not the arena's own, and the granules from there on; 0 for no arena.
  std::uintptr_t last_first_ = 0;
  Published<std::uintptr_t> last_granules_;
  Published<std::int64_t> room_;  // for more cached blocks, in granules; below 0 until shrink()
  Counter allocations_;
  Counter frees_;
  std::uint32_t most_granules_ = 0;  // of a block that is cached
  const bool is_shared_;

  ArenaHeap& home_;
  HeapInstance& instance_;
  std::int64_t full_room_ = 0;
  const std::int64_t least_room_;
  const std::int64_t most_room_;
  std::size_t next_to_empty_ = 0;  // of the lists
  /// In granules. Together with the room: what this thread has allocated, less what it has freed.
  /// So calls that the cache serves have no bytes to count, and all others count here what they
  /// change of both.
  Published<std::int64_t> elsewhere_;
  Counter remote_frees_;
  Counter failures_;

  Outbox outboxes_[kOutboxes];
  ThreadHeap* next_ = nullptr;            // of all heaps of the instance; never changes
  ThreadHeap* next_abandoned_ = nullptr;  // guarded by the instance's lock
};

}  // namespace strata
