#include "heap/arena_heap.h"
#include <strata/detail/bits.hpp>

#include <algorithm>

#include "base/fatal.h"
#include "heap/free_block.h"
#include "heap/heap_instance.h"
#include "heap/size_bins.h"

namespace strata {
namespace {

/// The smallest arena that serves the request while it is empty.
std::size_t arena_bytes_for(std::size_t bytes, std::size_t alignment) noexcept {
  if (bytes >= CoalescingHeap::kMaxRegionBytes || alignment >= CoalescingHeap::kMaxRegionBytes) {
    return SIZE_MAX;
  }
  std::uint32_t granules = granules_for(bytes);
  if (alignment > BlockTag::kGranuleBytes) {
    granules += static_cast<std::uint32_t>(alignment / BlockTag::kGranuleBytes) + kMinGranules;
    granules = size_bins::smallest_of(size_bins::bin_for(granules));
  }
  return sizeof(HeapArena) + (std::size_t{granules} + 3) * BlockTag::kGranuleBytes;
}

}  // namespace

void FreedBlock::die() const noexcept {
  fatal_pointer("write after free: the link in the freed block ", this, " was overwritten");
}

ArenaHeap::ArenaHeap(HeapInstance& instance, std::uint32_t number) noexcept
    : instance_(instance), number_(number) {}

void ArenaHeap::die_of_no_block(const void* block) noexcept {
  fatal_pointer("foreign pointer ", block, ": no block of these thread heaps starts there");
}

void ArenaHeap::die_of_not_live(const void* block) noexcept {
  const BlockTag* tag = BlockTag::of(block);
  const std::uint32_t granules = tag->load_size() >> 1;
  if (is_state(tag->state_in(tag->load_seal(), granules))) {
    if (granules == 0) die_of_no_block(block);  // the end of an arena
    fatal_pointer("double free of ", block, ": the block is already free");
  }
  fatal_pointer("overwritten tag in front of ", block,
                ": the block before it was written beyond its end, or no block starts there");
}

// --- arenas and their blocks --------------------------------------------------------------------

/// Counts a block that was just carved, and returns it.
void* ArenaHeap::count_out(HeapArena& arena, void* block) noexcept {
  if (block == nullptr) return nullptr;
  const std::size_t bytes = block_bytes(BlockTag::of(block)->load_size() >> 1);
  out_bytes_ += bytes;
  const std::size_t end =
      static_cast<std::size_t>(static_cast<char*>(block) + bytes - reinterpret_cast<char*>(&arena));
  if (end + kHugeAhead > arena.reached_bytes) [[unlikely]]
    reach(arena, end);
  touched_bytes_ = std::max(touched_bytes_, out_bytes_);
  if (out_bytes_ > peak_bytes_.get()) peak_bytes_.set(out_bytes_);
  return block;
}

void* ArenaHeap::carve(std::size_t bytes, std::size_t alignment) noexcept {
  HeapArena** link = &arenas_;
  for (; *link != nullptr; link = &(*link)->next) {
    HeapArena* arena = *link;
    if (bytes >= arena->refused_bytes) continue;
    if (void* block = arena->blocks.allocate(bytes, alignment)) return count_out(*arena, block);
    if (alignment <= BlockTag::kGranuleBytes) arena->refused_bytes = bytes;
  }
  HeapArena* arena = instance_.map_arena(*this, arena_bytes_for(bytes, alignment));
  if (arena == nullptr) return nullptr;
  *link = arena;
  held_bytes_ += arena->bytes;
  return count_out(*arena, arena->blocks.allocate(bytes, alignment));
}

std::uint32_t ArenaHeap::carve_several(std::size_t bytes, void** blocks,
                                       std::uint32_t count) noexcept {
  blocks[0] = carve(bytes, BlockTag::kGranuleBytes);
  if (blocks[0] == nullptr) return 0;
  HeapArena& arena = instance_.arena_under(blocks[0]);
  count = 1 + arena.blocks.allocate_several(bytes, blocks + 1, count - 1);
  for (std::uint32_t i = 1; i < count; ++i) count_out(arena, blocks[i]);
  return count;
}

void ArenaHeap::deallocate(HeapArena& arena, void* block, std::uint32_t granules) noexcept {
  if (!lock_.try_lock()) {
    BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
    receive(FreedBlock::in(block), FreedBlock::in(block));
    return;
  }
  arena.blocks.deallocate(block);
  note_freed(arena, block_bytes(granules));
  lock_.unlock();
  wake_reclaimer();
}

bool ArenaHeap::resize(HeapArena& arena, void* block, std::size_t bytes) noexcept {
  {
    LockGuard guard(lock_);
    const std::size_t held = block_bytes(granules_of_live(arena, block));
    if (!arena.blocks.resize_in_place(block, bytes)) return false;
    note_freed(arena, held);
    count_out(arena, block);
  }
  wake_reclaimer();
  return true;
}

void ArenaHeap::note_freed(HeapArena& arena, std::size_t bytes) noexcept {
  out_bytes_ -= bytes;
  arena.refused_bytes = SIZE_MAX;
  become_dirty();
}

void ArenaHeap::put_back(FreedBlock* block, std::uint32_t granules, Joined& joined) noexcept {
  auto* first = reinterpret_cast<char*>(block);
  const std::size_t bytes = block_bytes(granules);
  if (joined.first == first + bytes) {
    joined.first = first;
  } else if (joined.first + joined.bytes != first) {
    put_back(joined);
    joined.first = first;
  }
  joined.bytes += bytes;
  ++joined.count;
}

void ArenaHeap::put_back(Joined& joined) noexcept {
  if (joined.count == 0) return;
  HeapArena& arena = instance_.arena_under(joined.first);
  arena.blocks.deallocate_joined(joined.first,
                                 static_cast<std::uint32_t>(joined.bytes / BlockTag::kGranuleBytes),
                                 joined.count);
  note_freed(arena, joined.bytes);
  joined = {};
}

void ArenaHeap::receive(FreedBlock* first, FreedBlock* last) noexcept {
  FreedBlock* head = received_.load(std::memory_order_relaxed);
  do {
    last->set_next(head);
    // release pairs with the acquire in take_in(), which sees the links and the tags; seq_cst as
    // is_dirty_ says.
  } while (!received_.compare_exchange_weak(head, first, std::memory_order_seq_cst,
                                            std::memory_order_relaxed));
  become_dirty();
  wake_reclaimer();
}

// --- reclaiming ---------------------------------------------------------------------------------

void ArenaHeap::wake_reclaimer() noexcept {
  if (is_dirty()) instance_.wake_reclaimer();
}

std::size_t ArenaHeap::sweep(bool is_forced, bool& is_young) noexcept {
  std::size_t returned = 0;
  is_dirty_.store(false, std::memory_order_seq_cst);
  LockGuard guard(lock_);
  take_in();
  for (HeapArena** link = &arenas_; *link != nullptr;) {
    HeapArena* arena = *link;
    CoalescingHeap& blocks = arena->blocks;
    if (blocks.live_blocks() == 0 && (is_forced || blocks.at(1)->state() != BlockState::kFree)) {
      *link = arena->next;
      if (is_forced) returned += os::resident_bytes_in(arena, arena->bytes);
      release(arena);
      continue;
    }
    CoalescingHeap::Sweep pass{.ages_first = !is_forced, .counts_memory = is_forced};
    sweep(*arena, CoalescingHeap::first_paged_bin(), pass);
    returned += pass.returned_bytes;
    is_young |= pass.is_young;
    link = &arena->next;
  }
  return returned;
}

void ArenaHeap::shed() noexcept {
  LockGuard guard(lock_);
  shed(kKept);
}

void ArenaHeap::shed_half() noexcept {
  LockGuard guard(lock_);
  take_in();
  if (out_bytes_ == 0) {
    shed(kKept);
  } else if (touched_bytes_ >= kWorthShedding && out_bytes_ <= touched_bytes_ / 2) {
    shed(kKeptOfShared);
  } else {
    return;
  }
  touched_bytes_ = out_bytes_;
}

void ArenaHeap::shed(std::size_t kept) noexcept {
  const auto first =
      size_bins::bin_for(static_cast<std::uint32_t>(2 * kept / BlockTag::kGranuleBytes));
  for (HeapArena* arena = arenas_; arena != nullptr; arena = arena->next) {
    CoalescingHeap::Sweep pass{.kept_bytes = kept};
    sweep(*arena, first, pass);
  }
}

void ArenaHeap::sweep(HeapArena& arena, std::uint32_t first_bin,
                      CoalescingHeap::Sweep& pass) noexcept {
  arena.blocks.sweep_from(first_bin, instance_.pages(), pass);
  if (!pass.has_returned) return;
  if (arena.has_huge_pages) {
    // Else the kernel would fill the holes again to make the pages huge.
    instance_.pages().advise_small(&arena, std::min(arena.reached_bytes, arena.bytes));
    arena.has_huge_pages = false;
  }
  // What is free at the end is reached anew.
  const auto used =
      static_cast<std::size_t>(arena.blocks.last_used() - reinterpret_cast<const char*>(&arena));
  arena.reached_bytes = std::max(detail::round_up(used, kHugePage), kHugePage);
}

/// Called when a block ends so many bytes from the arena's start, near what was reached, or beyond
/// it. Where shared arenas hold so much that one more huge page is little, they grow by huge pages:
/// a page fault for each 4 KiB costs more than everything an allocator does. Grows ahead of the
/// blocks, since one touch decides about the whole page. What one large block takes at once is left
/// as it is; it may be a reserve.
void ArenaHeap::reach(HeapArena& arena, std::size_t bytes) noexcept {
  const std::size_t start = arena.reached_bytes;
  const std::size_t reached = detail::round_up(bytes + kHugeAhead, kHugePage);
  arena.reached_bytes = reached < arena.bytes ? reached : SIZE_MAX;
  if (!instance_.is_shared() || out_bytes_ < kHugeFrom || bytes > start || start >= arena.bytes) {
    return;
  }
  instance_.pages().advise_huge(reinterpret_cast<char*>(&arena) + start,
                                std::min(reached, arena.bytes) - start);
  arena.has_huge_pages = true;
}

/// Releases an arena of which no block is in use, cached or travelling.
void ArenaHeap::release(HeapArena* arena) noexcept {
  held_bytes_ -= arena->bytes;
  instance_.unmap_arena(*arena);
}

void ArenaHeap::unmap_arenas() noexcept {
  LockGuard guard(lock_);
  while (HeapArena* arena = arenas_) {
    arenas_ = arena->next;
    release(arena);
  }
}

std::size_t ArenaHeap::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t held = 0;
  std::size_t out = 0;
  for (HeapArena* arena = arenas_; arena != nullptr; arena = arena->next) {
    STRATA_INVARIANT(&arena->heap == this, "an arena is listed by another heap");
    arena->blocks.check_invariants();
    held += arena->bytes;
    out += arena->blocks.used_bytes();
  }
  STRATA_INVARIANT(out == out_bytes_, "a heap miscounts what is out of its arenas");
  STRATA_INVARIANT(held == held_bytes_, "a heap miscounts its arenas");
  return held;
}

}  // namespace strata
