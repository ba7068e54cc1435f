#include "heap/thread_heap.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/fatal.h"
#include "heap/heap_instance.h"
#include "heap/shared_heap.h"
#include "heap/size_bins.h"

namespace strata {
namespace {

std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

FreedBlock* freed(void* block) noexcept { return FreedBlock::in(block); }

}  // namespace

ThreadHeap::ThreadHeap(HeapInstance& instance, std::uint32_t number) noexcept
    : ArenaHeap(instance, number, /*is_shared=*/false),
      shared_bytes_(instance.shared_count() != 0 ? instance.options().shared_bytes
                                                 : ThreadHeaps::kUnlimited) {
  static_assert(ThreadHeaps::kMaxSmallBins == kBins);
  static_assert(
      size_bins::smallest_of(size_bins::last_whole(size_bins::bin_for(granules_for(1024))) + 1) <
          kMaxSmallGranules,
      "every block that serves a small request has a place in the table");
  std::fill_n(bin_of_request_, sizeof bin_of_request_, kNoBin);
  std::fill_n(bin_of_granules_, sizeof bin_of_granules_, kNoBin);
  const auto& bins = instance.options().small_bins;
  std::size_t size = 0;
  for (std::uint8_t bin = 0; bin < kBins && bins[bin] != 0; ++bin) {
    caches_[bin].bytes = static_cast<std::uint32_t>(bins[bin]);
    for (; size <= bins[bin]; size += 16) bin_of_request_[size / 16] = bin;
    // The last bin also takes the blocks that were not worth splitting for it.
    std::uint32_t granules = granules_for(bins[bin]);
    const std::uint32_t end =
        size_bins::smallest_of(size_bins::last_whole(size_bins::bin_for(granules)) + 1);
    const bool is_last = bin + 1u == kBins || bins[bin + 1] == 0;
    for (; is_last ? granules < end : granules < kMaxSmallGranules; ++granules) {
      bin_of_granules_[granules] = bin;
    }
    if (is_last) std::fill(bin_of_granules_ + end, std::end(bin_of_granules_), kNoBin);
    small_end_ = bins[bin] + 1;
  }
}

// --- the cache of small blocks ------------------------------------------------------------------

/// \returns  False if the arenas have nothing left for this bin.
bool ThreadHeap::refill(Cache& cache) noexcept {
  if (cache.second != nullptr) {
    cache.head = std::exchange(cache.second, nullptr);
    cache.count = kHalf;
    return true;
  }
  LockGuard guard(lock_);
  take_in([this](FreedBlock* block, std::uint32_t granules) {
    const std::uint8_t bin = granules < kMaxSmallGranules ? bin_of_granules_[granules] : kNoBin;
    if (bin == kNoBin || caches_[bin].count == kHalf) return false;
    push(caches_[bin], block, granules);
    return true;
  });
  if (cache.head != nullptr) return true;
  void* blocks[kRefill];
  std::uint32_t count = carve_several(cache.bytes, blocks, kRefill);
  // The lowest is used first.
  while (count-- > 0) push(cache, blocks[count], BlockTag::of(blocks[count])->load_size() >> 1);
  return cache.head != nullptr;
}

/// The newer list becomes the older one.
void ThreadHeap::push_into_full(Cache& cache, void* block, std::uint32_t granules) noexcept {
  spill(std::exchange(cache.second, std::exchange(cache.head, nullptr)));
  cache.count = 0;
  push(cache, block, granules);
}

/// Back into the arenas.
void ThreadHeap::spill(FreedBlock* list) noexcept {
  if (list == nullptr) return;
  LockGuard guard(lock_);
  Joined joined;
  while (list != nullptr) {
    FreedBlock* block = std::exchange(list, list->checked_next());
    put_back(block, granules_in_state(block, BlockState::kCached), joined);
  }
  put_back(joined);
}

void ThreadHeap::empty(Cache& cache) noexcept {
  spill(std::exchange(cache.head, nullptr));
  spill(std::exchange(cache.second, nullptr));
  cache.count = 0;
}

// --- the owner's operations ----------------------------------------------------------------------

/// Perhaps a peak; passes the block on, so that its caller has nothing to keep.
void* ThreadHeap::note_own_peak(void* block) noexcept {
  note_peak();
  peak_line_ = peak_bytes_.get() + taken_in_bytes_.get();
  return block;
}

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
  if (alignment <= BlockTag::kGranuleBytes && bytes < small_end_) {
    Cache& cache = caches_[bin_of_request_[(bytes + 15) / 16]];
    if (cache.head != nullptr || refill(cache)) return pop(cache);
  }
  if (is_for_shared(bytes)) {
    if (void* block = allocate_shared(bytes, alignment)) return block;
  }
  return allocate_from_arenas(bytes, alignment);
}

/// From this thread's home among the shared heaps; the others are asked only when that has no more.
void* ThreadHeap::allocate_shared(std::size_t bytes, std::size_t alignment) noexcept {
  const std::uint32_t count = instance_.shared_count();
  void* block = nullptr;
  for (std::uint32_t i = 0; i < count && block == nullptr; ++i) {
    block = instance_.shared((number_ + i) % count).allocate(bytes, alignment);
  }
  if (block != nullptr) allocations_.add(1);
  return block;
}

void* ThreadHeap::allocate_from_arenas(std::size_t bytes, std::size_t alignment) noexcept {
  lock_.lock();
  take_in();
  void* block = carve(bytes, alignment);
  lock_.unlock();
  if (block == nullptr) [[unlikely]] {
    // The budget is used up: what the cache holds back may make room.
    for (Cache& cache : caches_) empty(cache);
    LockGuard guard(lock_);
    block = carve(bytes, alignment);
  }
  if (block == nullptr) [[unlikely]] {
    // Or the shared heaps have room in the arenas that used it up.
    return allocate_shared(bytes, alignment);
  }
  recent_arena_.store(address_of(block) & ~arena_mask_, std::memory_order_relaxed);
  count_allocation(user_bytes(BlockTag::of(block)->load_size() >> 1));
  return note_own_peak(block);
}

void ThreadHeap::deallocate_elsewhere(void* block) noexcept {
  HeapArena& arena = instance_.arena_of(block);
  if (&arena.heap == this) {
    // Before the block, which keeps the arena, is given back.
    recent_arena_.store(address_of(&arena), std::memory_order_relaxed);
    return deallocate_own(arena, block);
  }
  const std::uint32_t granules = granules_of_live(arena, block);
  // release as in deallocate_own().
  frees_.add(1, std::memory_order_release);
  freed_elsewhere_bytes_.add(user_bytes(granules), std::memory_order_release);
  if (arena.heap.is_shared()) {
    static_cast<SharedHeap&>(arena.heap).deallocate(arena, block, granules);
  } else {
    send(granules, arena.heap, block);
  }
}

void ThreadHeap::deallocate_uncached(HeapArena& arena, void* block) noexcept {
  LockGuard guard(lock_);
  deallocate_into(arena, block);
  take_in();
}

void* ThreadHeap::reallocate(void* block, std::size_t bytes) noexcept {
  HeapArena& arena = instance_.arena_of(block);
  const std::size_t held = user_bytes(granules_of_live(arena, block));
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

/// In place, if the block stays of the kind of heap that it is in.
bool ThreadHeap::resize(HeapArena& arena, void* block, std::size_t held,
                        std::size_t bytes) noexcept {
  if (arena.heap.is_shared()) {
    if (!is_for_shared(bytes)) return false;
    if (!static_cast<SharedHeap&>(arena.heap).resize(arena, block, bytes)) return false;
    freed_elsewhere_bytes_.add(held, std::memory_order_release);
    return true;
  }
  if (&arena.heap != this || bytes < small_end_ || is_for_shared(bytes)) return false;
  LockGuard guard(lock_);
  if (held < small_end_ || !arena.blocks.resize_in_place(block, bytes)) return false;
  freed_bytes_.add(held, std::memory_order_release);
  placed_bytes_.add(user_bytes(BlockTag::of(block)->load_size() >> 1));
  note_own_peak(block);
  note_dirty();
  return true;
}

std::size_t ThreadHeap::usable_size(const HeapArena& arena, const void* block) noexcept {
  return user_bytes(granules_of_live(arena, block));
}

std::size_t ThreadHeap::free_for_nobody(HeapArena& arena, void* block) noexcept {
  const std::uint32_t granules = granules_of_live(arena, block);
  BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
  arena.heap.receive(freed(block), freed(block));
  return user_bytes(granules);
}

void ThreadHeap::flush() noexcept {
  for (Outbox& outbox : outboxes_) send_off(outbox);
  for (Cache& cache : caches_) empty(cache);
}

// --- blocks between threads
// ------------------------------------------------------------------------

void ThreadHeap::send(std::uint32_t granules, ArenaHeap& to, void* block) noexcept {
  remote_frees_.add(1);
  BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
  Outbox& outbox = outboxes_[static_cast<ThreadHeap&>(to).number_ % kOutboxes];
  if (outbox.to != &to) {
    send_off(outbox);
    outbox.to = &to;
  }
  freed(block)->set_next(outbox.first);
  if (outbox.first == nullptr) outbox.last = freed(block);
  outbox.first = freed(block);
  ++outbox.count;
  outbox.bytes += user_bytes(granules);
  if (outbox.count >= kMaxSent || outbox.bytes >= kMaxSentBytes) send_off(outbox);
}

void ThreadHeap::send_off(Outbox& outbox) noexcept {
  if (outbox.first != nullptr) outbox.to->receive(outbox.first, outbox.last);
  outbox = {};
}

void ThreadHeap::shed() noexcept {
  LockGuard guard(lock_);
  ArenaHeap::shed(kKept);
}

std::size_t ThreadHeap::check_invariants() noexcept {
  const auto count_in = [this](FreedBlock* list) {
    std::uint32_t count = 0;
    for (FreedBlock* block = list; block != nullptr; block = block->checked_next()) {
      granules_in_state(block, BlockState::kCached);
      STRATA_INVARIANT(&instance_.arena_of(block).heap == this, "a cache holds another's block");
      ++count;
    }
    return count;
  };
  for (Cache& cache : caches_) {
    STRATA_INVARIANT(count_in(cache.head) == cache.count && cache.count <= kHalf,
                     "a cache miscounts its blocks");
    STRATA_INVARIANT(cache.second == nullptr || count_in(cache.second) == kHalf,
                     "the older list of a cache is not full");
  }
  return check_arenas();
}

}  // namespace strata
