#include "heap/thread_heap.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fatal.h"
#include "heap/free_block.h"
#include "heap/heap_instance.h"
#include "heap/size_bins.h"

namespace strata {
namespace {

std::uintptr_t address_of(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

/// The block that a freed block's link lies in is the link.
FreedBlock* freed(void* block) noexcept { return static_cast<FreedBlock*>(block); }

/// Size of a block in the state that its holder left it in, or no return.
std::uint32_t granules_in_state(const void* block, BlockState state) noexcept {
  const BlockTag* tag = BlockTag::of(block);
  const std::uint32_t granules = tag->load_size() >> 1;
  if (tag->load_seal() != tag->seal_for(granules, state)) [[unlikely]] {
    fatal_pointer("overwritten tag in front of ", block,
                  ": the block before it was written beyond its end");
  }
  return granules;
}

/// Size of a live block of this arena that the user names, or no return.
std::uint32_t granules_of_live(const HeapArena& arena, const void* block) noexcept {
  const std::uintptr_t offset = address_of(block) - address_of(&arena);
  if (offset % BlockTag::kGranuleBytes != 0 ||
      offset - sizeof(HeapArena) >= arena.bytes - sizeof(HeapArena)) [[unlikely]] {
    fatal_pointer("foreign pointer ", block, ": no block of these thread heaps starts there");
  }
  const BlockTag* tag = BlockTag::of(block);
  const std::uint32_t granules = tag->load_size() >> 1;
  const std::uint32_t seal = tag->load_seal();
  if (seal != tag->seal_for(granules, BlockState::kLive)) [[unlikely]] {
    if (is_state(tag->state_in(seal, granules))) {
      fatal_pointer("double free of ", block, ": the block is already free");
    }
    fatal_pointer("overwritten tag in front of ", block,
                  ": the block before it was written beyond its end, or no block starts there");
  }
  return granules;
}

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

ThreadHeap::ThreadHeap(HeapInstance& instance, std::uint32_t number) noexcept
    : instance_(instance), number_(number), arena_mask_(instance.arena_mask()) {
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
    max_small_ = bins[bin];
  }
}

// --- the cache of small blocks ------------------------------------------------------------------

inline void* ThreadHeap::pop(Cache& cache) noexcept {
  FreedBlock* block = cache.head;
  const std::uint32_t granules = granules_in_state(block, BlockState::kCached);
  cache.head = block->checked_next();
  --cache.count;
  BlockTag::of(block)->set_state(granules, BlockState::kLive);
  count_allocation(user_bytes(granules));
  return block;
}

inline void ThreadHeap::push(Cache& cache, void* block, std::uint32_t granules) noexcept {
  BlockTag::of(block)->set_state(granules, BlockState::kCached);
  freed(block)->set_next(cache.head);
  cache.head = freed(block);
  ++cache.count;
}

/// \returns  False if the arenas have nothing left for this bin.
bool ThreadHeap::refill(Cache& cache) noexcept {
  LockGuard guard(lock_);
  take_in(/*may_cache=*/true);
  if (cache.head != nullptr) return true;
  void* block = carve(cache.bytes, BlockTag::kGranuleBytes);
  while (block != nullptr) {
    push(cache, block, BlockTag::of(block)->load_size() >> 1);
    if (cache.count == kRefill) break;
    block = arenas_->blocks.allocate(cache.bytes);
  }
  return cache.head != nullptr;
}

void ThreadHeap::spill(Cache& cache, std::uint32_t keep) noexcept {
  LockGuard guard(lock_);
  while (cache.count > keep) {
    FreedBlock* block = cache.head;
    cache.head = block->checked_next();
    --cache.count;
    put_back(block, granules_in_state(block, BlockState::kCached));
  }
}

// --- the owner's operations ----------------------------------------------------------------------

inline void ThreadHeap::count_allocation(std::size_t bytes) noexcept {
  allocations_.add(1);
  allocated_bytes_.add(bytes);
  note_peak();
}

inline void ThreadHeap::note_peak() noexcept {
  const std::uint64_t in_use =
      allocated_bytes_.get() - returned_bytes_.get() - taken_in_bytes_.get();
  if (in_use > peak_bytes_.get()) peak_bytes_.set(in_use);
}

void* ThreadHeap::allocate(std::size_t bytes) noexcept {
  if (bytes <= max_small_) {
    Cache& cache = caches_[bin_of_request_[(bytes + 15) / 16]];
    if (cache.head != nullptr || refill(cache)) return pop(cache);
  }
  return allocate_from_arenas(bytes, BlockTag::kGranuleBytes);
}

void* ThreadHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (alignment <= BlockTag::kGranuleBytes && std::has_single_bit(alignment)) {
    return allocate(bytes);
  }
  return allocate_from_arenas(bytes, alignment);
}

/// Under the lock: a live block out of any arena, of which the one that served comes first the next
/// time, or out of a new one; nullptr if there is none to be had.
void* ThreadHeap::carve(std::size_t bytes, std::size_t alignment) noexcept {
  for (HeapArena** link = &arenas_; *link != nullptr; link = &(*link)->next) {
    HeapArena* arena = *link;
    void* block = arena->blocks.allocate(bytes, alignment);
    if (block == nullptr) continue;
    if (arena != arenas_) {
      *link = arena->next;
      arena->next = arenas_;
      arenas_ = arena;
    }
    return block;
  }
  HeapArena* arena = add_arena(arena_bytes_for(bytes, alignment));
  return arena != nullptr ? arena->blocks.allocate(bytes, alignment) : nullptr;
}

void* ThreadHeap::allocate_from_arenas(std::size_t bytes, std::size_t alignment) noexcept {
  lock_.lock();
  take_in(/*may_cache=*/false);
  void* block = carve(bytes, alignment);
  lock_.unlock();
  if (block == nullptr) [[unlikely]] {
    // The budget is used up: what the cache holds back may make room.
    for (Cache& cache : caches_) spill(cache, 0);
    LockGuard guard(lock_);
    block = carve(bytes, alignment);
  }
  if (block == nullptr) [[unlikely]] {
    failures_.add(1);
    return nullptr;
  }
  recent_arena_.store(address_of(block) & ~arena_mask_, std::memory_order_relaxed);
  count_allocation(user_bytes(BlockTag::of(block)->load_size() >> 1));
  return block;
}

/// Under the lock.
HeapArena* ThreadHeap::add_arena(std::size_t min_bytes) noexcept {
  HeapArena* arena = instance_.map_arena(*this, min_bytes);
  if (arena == nullptr) return nullptr;
  arena->next = arenas_;
  arenas_ = arena;
  held_bytes_ += arena->bytes;
  return arena;
}

void ThreadHeap::deallocate(void* block) noexcept {
  const std::uintptr_t start = address_of(block) & ~arena_mask_;
  HeapArena* arena = reinterpret_cast<HeapArena*>(start);
  if (start != recent_arena_.load(std::memory_order_relaxed)) arena = &instance_.arena_of(block);
  const std::uint32_t granules = granules_of_live(*arena, block);
  const std::size_t bytes = user_bytes(granules);
  // release pairs with the acquire in statistics(): who sees this free sees the allocation too.
  frees_.add(1, std::memory_order_release);
  freed_bytes_.add(bytes, std::memory_order_release);
  if (&arena->heap != this) {
    send(granules, arena->heap, block);
    return;
  }
  returned_bytes_.add(bytes);
  recent_arena_.store(start, std::memory_order_relaxed);
  const std::uint8_t bin = granules < kMaxSmallGranules ? bin_of_granules_[granules] : kNoBin;
  if (bin != kNoBin) {
    Cache& cache = caches_[bin];
    if (cache.count == kMaxCached) [[unlikely]]
      spill(cache, kMaxCached / 2);
    push(cache, block, granules);
    return;
  }
  LockGuard guard(lock_);
  arena->blocks.deallocate(block);
  note_dirty();
  take_in(/*may_cache=*/false);
}

void* ThreadHeap::reallocate(void* block, std::size_t bytes) noexcept {
  HeapArena& arena = instance_.arena_of(block);
  const std::size_t held = user_bytes(granules_of_live(arena, block));
  if (bytes <= held && held <= 2 * bytes + 64) return block;
  if (&arena.heap == this && held > max_small_ && bytes > max_small_) {
    LockGuard guard(lock_);
    if (void* moved = arena.blocks.reallocate(block, bytes)) {
      returned_bytes_.add(held);
      freed_bytes_.add(held, std::memory_order_release);
      allocated_bytes_.add(user_bytes(BlockTag::of(moved)->load_size() >> 1));
      note_peak();
      note_dirty();
      return moved;
    }
  }
  void* moved = allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, std::min(held, bytes));
  deallocate(block);
  return moved;
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
  for (Cache& cache : caches_) spill(cache, 0);
}

// --- blocks between threads
// ------------------------------------------------------------------------

void ThreadHeap::send(std::uint32_t granules, ThreadHeap& to, void* block) noexcept {
  remote_frees_.add(1);
  BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
  Outbox& outbox = outboxes_[to.number_ % kOutboxes];
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

void ThreadHeap::receive(FreedBlock* first, FreedBlock* last) noexcept {
  FreedBlock* head = received_.load(std::memory_order_relaxed);
  do {
    last->set_next(head);
    // release pairs with the acquire in take_in(): the owner sees the links and the tags.
  } while (!received_.compare_exchange_weak(head, first, std::memory_order_release,
                                            std::memory_order_relaxed));
  note_dirty();
}

/// Under the lock. \returns  True if there was something.
bool ThreadHeap::take_in(bool may_cache) noexcept {
  if (received_.load(std::memory_order_relaxed) == nullptr) return false;
  FreedBlock* block = received_.exchange(nullptr, std::memory_order_acquire);
  while (block != nullptr) {
    FreedBlock* next = block->checked_next();
    const std::uint32_t granules = granules_in_state(block, BlockState::kTravelling);
    taken_in_bytes_.add(user_bytes(granules));
    const std::uint8_t bin = granules < kMaxSmallGranules ? bin_of_granules_[granules] : kNoBin;
    if (may_cache && bin != kNoBin && caches_[bin].count < kMaxCached / 2) {
      push(caches_[bin], block, granules);
    } else {
      put_back(block, granules);
    }
    block = next;
  }
  return true;
}

/// Under the lock.
void ThreadHeap::put_back(FreedBlock* block, std::uint32_t granules) noexcept {
  BlockTag::of(block)->set_state(granules, BlockState::kLive);
  reinterpret_cast<HeapArena*>(address_of(block) & ~arena_mask_)->blocks.deallocate(block);
  note_dirty();
}

// --- reclaiming
// ------------------------------------------------------------------------------------

inline void ThreadHeap::note_dirty() noexcept {
  if (is_dirty_.load(std::memory_order_relaxed)) return;
  is_dirty_.store(true, std::memory_order_seq_cst);
  if (instance_.options().reclaims) instance_.note_dirty();
}

std::size_t ThreadHeap::sweep(bool is_forced, bool& is_young) noexcept {
  std::size_t returned = 0;
  is_dirty_.store(false, std::memory_order_seq_cst);
  LockGuard guard(lock_);
  take_in(/*may_cache=*/false);
  for (HeapArena** link = &arenas_; *link != nullptr;) {
    HeapArena* arena = *link;
    CoalescingHeap& blocks = arena->blocks;
    if (blocks.live_blocks() == 0 && (is_forced || blocks.at(1)->state() != BlockState::kFree)) {
      *link = arena->next;
      returned += arena->bytes;
      release(arena);
      continue;
    }
    for (std::uint32_t bin = CoalescingHeap::first_paged_bin(); bin < CoalescingHeap::kBins;
         ++bin) {
      returned += blocks.sweep_bin(bin, instance_.pages(), {.ages_first = !is_forced}, &is_young);
    }
    link = &arena->next;
  }
  return returned;
}

void ThreadHeap::shed() noexcept {
  const auto first = size_bins::bin_for(static_cast<std::uint32_t>(2 * kKept / 16));
  LockGuard guard(lock_);
  for (HeapArena* arena = arenas_; arena != nullptr; arena = arena->next) {
    for (std::uint32_t bin = first; bin < CoalescingHeap::kBins; ++bin) {
      arena->blocks.sweep_bin(bin, instance_.pages(), {.kept_bytes = kKept});
    }
  }
}

/// Under the lock; no block of the arena is in use, cached or travelling.
void ThreadHeap::release(HeapArena* arena) noexcept {
  held_bytes_ -= arena->bytes;
  if (recent_arena_.load(std::memory_order_relaxed) == address_of(arena)) {
    recent_arena_.store(0, std::memory_order_relaxed);
  }
  instance_.unmap_arena(*arena);
}

void ThreadHeap::unmap_arenas() noexcept {
  while (HeapArena* arena = arenas_) {
    arenas_ = arena->next;
    release(arena);
  }
}

void ThreadHeap::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t held = 0;
  for (HeapArena* arena = arenas_; arena != nullptr; arena = arena->next) {
    STRATA_INVARIANT(&arena->heap == this, "an arena is listed by another heap");
    arena->blocks.check_invariants();
    held += arena->bytes;
  }
  STRATA_INVARIANT(held == held_bytes_, "a thread heap miscounts its arenas");
  for (Cache& cache : caches_) {
    std::uint32_t count = 0;
    for (FreedBlock* block = cache.head; block != nullptr; block = block->checked_next()) {
      granules_in_state(block, BlockState::kCached);
      STRATA_INVARIANT(&instance_.arena_of(block).heap == this, "a cache holds another's block");
      ++count;
    }
    STRATA_INVARIANT(count == cache.count && count <= kMaxCached, "a cache miscounts its blocks");
  }
}

}  // namespace strata
