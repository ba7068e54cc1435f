#include "heap/thread_heap.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fatal.h"
#include "heap/heap_instance.h"

namespace strata {
namespace {

constexpr std::int64_t granules_in(std::size_t bytes) noexcept {
  return static_cast<std::int64_t>(bytes / BlockTag::kGranuleBytes);
}

}  // namespace

ThreadHeap::ThreadHeap(HeapInstance& instance, ArenaHeap& home) noexcept
    : is_shared_(instance.is_shared()),
      home_(home),
      instance_(instance),
      least_room_(granules_in(std::min(instance.cached_bytes(), kLeastCachedBytes))),
      most_room_(granules_in(instance.cached_bytes())) {
  set_full_room(least_room_);
}

// --- allocation ---------------------------------------------------------------------------------

void* ThreadHeap::allocate_slowly(std::size_t bytes, std::size_t alignment) noexcept {
  if (!detail::is_power_of_two(alignment)) {
    fatal("the alignment asked of thread heaps is not a power of two");
  }
  void* block = place(bytes, alignment);
  if (block == nullptr) [[unlikely]]
    failures_.add(1);
  return block;
}

void* ThreadHeap::place(std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment <= BlockTag::kGranuleBytes && bytes <= user_bytes(most_granules_)) {
    if (void* block = take_from_lists(bytes)) return block;
  }
  void* block = carve_anywhere(bytes, alignment);
  if (block == nullptr) [[unlikely]] {
    // The budget is used up: what the cache holds back may make room.
    flush();
    block = carve_anywhere(bytes, alignment);
    if (block == nullptr) return nullptr;
  }
  elsewhere_.add(BlockTag::of(block)->load_size() >> 1);
  allocations_.add(1);
  return block;
}

/// Takes a cached block that is not worth splitting for this request, as the arenas would give it.
void* ThreadHeap::take_from_lists(std::size_t bytes) noexcept {
  const auto request = size_bins::request_for(granules_for(bytes));
  const std::size_t end = std::min(std::size_t{request.last} + 1, kLists);
  for (std::size_t bin = request.bin; bin < end; ++bin) {
    if (lists_[bin] != nullptr) return pop(bin);
  }
  return nullptr;
}

[[gnu::noinline]] void* ThreadHeap::die_of_broken(FreedBlock* block) noexcept {
  ArenaHeap::granules_in_state(block, BlockState::kCached);
  return block->checked_next();
}

/// How many blocks of this size are carved at once; the cache stays half empty.
std::uint32_t ThreadHeap::refill_of(std::size_t bytes) const noexcept {
  if (bytes > kMaxRefillBytes / 2) return 1;
  const std::uint32_t granules = granules_for(bytes);
  if (granules > most_granules_) return 1;
  const auto room = static_cast<std::uint32_t>(room_.get()) / 2;
  const std::uint32_t most = kMaxRefillBytes / BlockTag::kGranuleBytes;
  return std::clamp(std::min(room, most) / granules, 1u, kMaxRefill);
}

/// Carves a live block, uncounted; small ones come several at a time, and the rest go to the cache.
void* ThreadHeap::carve_from(ArenaHeap& heap, std::size_t bytes, std::size_t alignment) noexcept {
  LockGuard guard(heap.lock());
  heap.take_in([this](FreedBlock* block, std::uint32_t granules) {
    if (granules > most_granules_) return false;
    if (room_.get() - granules < full_room_ / 2) return false;
    fill(block, granules);
    return true;
  });
  const std::uint32_t several = alignment <= BlockTag::kGranuleBytes ? refill_of(bytes) : 1;
  if (several == 1) return heap.carve(bytes, alignment);
  void* blocks[kMaxRefill];
  std::uint32_t count = heap.carve_several(bytes, blocks, several);
  if (count == 0) return nullptr;
  // The lowest is used first.
  while (--count > 0) fill(blocks[count], BlockTag::of(blocks[count])->load_size() >> 1);
  return blocks[0];
}

/// Carves from the home and, if that has no more, from the other heaps that threads share.
void* ThreadHeap::carve_anywhere(std::size_t bytes, std::size_t alignment) noexcept {
  void* block = carve_from(home_, bytes, alignment);
  if (!is_shared_) return block;
  for (ArenaHeap* heap = instance_.first_heap(); block == nullptr && heap != nullptr;
       heap = instance_.heap_after(*heap)) {
    if (heap != &home_) block = carve_from(*heap, bytes, alignment);
  }
  return block;
}

// --- the cache ----------------------------------------------------------------------------------

void ThreadHeap::set_full_room(std::int64_t full) noexcept {
  room_.add(full - full_room_);
  elsewhere_.add(full_room_ - full);
  full_room_ = full;
  most_granules_ = std::min(static_cast<std::uint32_t>(full) / kCachedPart, kMostGranules);
}

/// Makes room in a full cache. It grows to its share of what a thread has in use, on average:
/// blocks change hands. If it has that, empties the next lists, a few at a time, until an eighth of
/// it is free.
void ThreadHeap::shrink() noexcept {
  const std::int64_t share = granules_in(home_.bytes_out_per_thread() / kCachedShare);
  set_full_room(std::clamp(share, least_room_, most_room_));
  while (room_.get() < full_room_ / 8) {
    spill(std::exchange(lists_[next_to_empty_], nullptr));
    next_to_empty_ = (next_to_empty_ + 1) % kLists;
  }
  // What threads share is not held back from the others.
  if (is_shared_) send_off_all();
}

/// Sends blocks back into the arenas, or on the way there.
void ThreadHeap::spill(FreedBlock* list) noexcept {
  if (list == nullptr) return;
  FreedBlock* of_others = nullptr;
  {
    LockGuard guard(home_.lock());
    ArenaHeap::Joined joined;
    while (list != nullptr) {
      FreedBlock* block = std::exchange(list, list->checked_next());
      const std::uint32_t granules = ArenaHeap::granules_in_state(block, BlockState::kCached);
      room_.add(granules);
      elsewhere_.add(-std::int64_t{granules});
      if (&instance_.arena_under(block).heap == &home_) {
        home_.put_back(block, granules, joined);
      } else {
        block->set_next(std::exchange(of_others, block));
      }
    }
    home_.put_back(joined);
  }
  home_.wake_reclaimer();
  while (of_others != nullptr) {
    FreedBlock* block = std::exchange(of_others, of_others->checked_next());
    send(BlockTag::of(block)->load_size() >> 1, instance_.arena_under(block).heap, block);
  }
}

void ThreadHeap::flush() noexcept {
  for (FreedBlock*& list : lists_) spill(std::exchange(list, nullptr));
  send_off_all();
}

// --- blocks that are not cached -----------------------------------------------------------------

/// Frees a block of another arena than the last one, nullptr, or something that is no block.
[[gnu::noinline]] void ThreadHeap::deallocate_elsewhere(void* block) noexcept {
  if (block == nullptr) return;
  HeapArena& arena = instance_.arena_of(block);
  const std::uint32_t granules = ArenaHeap::granules_of_live(arena, block);
  if (is_for_cache(arena.heap)) {
    last_first_ = reinterpret_cast<std::uintptr_t>(&arena) + BlockTag::kGranuleBytes;
    last_granules_.set(arena.bytes / BlockTag::kGranuleBytes);
    return take_back(block);
  }
  frees_.add(1, std::memory_order_release);  // as in take_back()
  elsewhere_.add(-std::int64_t{granules});
  remote_frees_.add(1);
  send(granules, arena.heap, block);
}

[[gnu::noinline]] void ThreadHeap::take_back_large(void* block) noexcept {
  const std::uint32_t granules = ArenaHeap::granules_of_live(block);
  frees_.add(1, std::memory_order_release);
  elsewhere_.add(-std::int64_t{granules});
  HeapArena& arena = instance_.arena_under(block);
  arena.heap.deallocate(arena, block, granules);
}

void* ThreadHeap::reallocate(void* block, std::size_t bytes) noexcept {
  HeapArena& arena = instance_.arena_of(block);
  const std::size_t held = user_bytes(ArenaHeap::granules_of_live(arena, block));
  if (bytes <= held && held <= 2 * bytes + 64) return block;
  if (resize(arena, block, held, bytes)) return block;
  void* moved = place(bytes, BlockTag::kGranuleBytes);
  if (moved == nullptr) {
    if (bytes <= held) return block;  // no room for a smaller one, and none is needed
    failures_.add(1);
    return nullptr;
  }
  std::memcpy(moved, block, std::min(held, bytes));
  deallocate(block);
  return moved;
}

/// Resizes in place, unless the block is small or belongs to another thread's heap.
bool ThreadHeap::resize(HeapArena& arena, void* block, std::size_t held,
                        std::size_t bytes) noexcept {
  if (std::min(held, bytes) < kResizedBytes || !is_for_cache(arena.heap)) return false;
  if (!arena.heap.resize(arena, block, bytes)) return false;
  elsewhere_.add(granules_in(usable_size(arena, block) + BlockTag::kBytes) -
                 granules_in(held + BlockTag::kBytes));
  return true;
}

std::size_t ThreadHeap::usable_size(const HeapArena& arena, const void* block) noexcept {
  return user_bytes(ArenaHeap::granules_of_live(arena, block));
}

std::uint32_t ThreadHeap::free_for_nobody(HeapArena& arena, void* block) noexcept {
  const std::uint32_t granules = ArenaHeap::granules_of_live(arena, block);
  BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
  arena.heap.receive(FreedBlock::in(block), FreedBlock::in(block));
  return granules;
}

// --- blocks between heaps -----------------------------------------------------------------------

void ThreadHeap::send(std::uint32_t granules, ArenaHeap& to, void* block) noexcept {
  BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
  Outbox& outbox = outboxes_[to.number() % kOutboxes];
  if (outbox.to != &to) {
    send_off(outbox);
    outbox.to = &to;
  }
  FreedBlock::in(block)->set_next(outbox.first);
  if (outbox.first == nullptr) outbox.last = FreedBlock::in(block);
  outbox.first = FreedBlock::in(block);
  ++outbox.count;
  outbox.bytes += user_bytes(granules);
  if (outbox.count >= kMaxSent || outbox.bytes >= kMaxSentBytes) send_off(outbox);
}

void ThreadHeap::send_off(Outbox& outbox) noexcept {
  if (outbox.first != nullptr) outbox.to->receive(outbox.first, outbox.last);
  outbox = {};
}

void ThreadHeap::check_invariants() const noexcept {
  std::int64_t room = full_room_;
  for (std::size_t list = 0; list < kLists; ++list) {
    for (FreedBlock* block = lists_[list]; block != nullptr; block = block->checked_next()) {
      const std::uint32_t granules = ArenaHeap::granules_in_state(block, BlockState::kCached);
      STRATA_INVARIANT(is_for_cache(instance_.arena_of(block).heap),
                       "a cache holds another's block");
      STRATA_INVARIANT(size_bins::bin_of(granules) == list, "a cached block is in the wrong list");
      room -= granules;
    }
  }
  STRATA_INVARIANT(room == room_.get() && room >= 0, "a cache miscounts its blocks");
}

}  // namespace strata
