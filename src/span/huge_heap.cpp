#include "span/huge_heap.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/fatal.h"
#include "base/memory_limit.h"
#include "os/clock.h"
#include "os/resources.h"
#include "span/page.h"

namespace strata {

inline void HugeHeap::add_live(std::size_t bytes) noexcept {
  live_bytes_ += bytes;
  given_bytes_ += bytes;
  if (live_bytes_ > most_live_) most_live_ = live_bytes_;
}

[[gnu::always_inline]] inline bool HugeHeap::insert(const void* p, Extent extent) noexcept {
  if (!live_.insert(p, extent)) return false;
  add_live(extent.bytes);
  return true;
}

HugeHeap::Block HugeHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  STRATA_DCHECK(bytes != 0);
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  if (rounded < bytes) return {nullptr, false};
  Range range{};
  std::size_t exchanged;
  {
    LockGuard guard(lock_);
    if (!live_.make_room() || !kept_.make_room()) return {nullptr, false};
    if (kept_.take_fitting(rounded, alignment, range)) {
      insert(range.start(), {rounded, rounded});
      return {range.start(), false};
    }
    if (!is_allowed(rounded)) return {nullptr, false};
    // Under the same lock, so that the largest range is shorter than the block.
    if (alignment <= os::page_bytes()) kept_.take_extendable(rounded, range);
    STRATA_DCHECK(range.bytes < rounded);
    exchanged = draw_exchange(rounded, rounded - range.bytes);
  }
  return extend_or_map(range, rounded, alignment, exchanged);
}

void* HugeHeap::allocate_to_grow(std::size_t bytes) noexcept {
  if (bytes > kMostGrownIntoKept) return nullptr;
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  LockGuard guard(lock_);
  Range range{};
  if (!live_.make_room() || !kept_.take_roomiest(rounded, range)) return nullptr;
  insert(range.start(), {rounded, rounded});
  return range.start();
}

/// Whether the limit allows so long a block. For one that it does not allow, nothing is given back.
bool HugeHeap::is_allowed(std::size_t bytes) noexcept {
  MemoryLimit& limit = page_heap_.limit();
  if (limit.allows(bytes)) return true;
  limit.note_refusal();
  return false;
}

/// Has map() get `bytes` more from the kernel for a block of `whole` bytes, in exchange for idle
/// memory. Under a hard limit idle memory goes back first, otherwise after the mapping or a
/// refusal. A block too large for any machine changes nothing.
template <typename Map>
void* HugeHeap::map_in_exchange(std::size_t bytes, std::size_t whole, std::size_t exchanged,
                                Map map) noexcept {
  MemoryLimit& limit = page_heap_.limit();
  const bool is_held_first = limit.has_hard_limit();
  if (is_held_first) {
    exchange_idle_for(exchanged, PageHeap::From::kAny);
    if (!limit.try_hold(bytes)) return nullptr;
  }
  void* mapped = map();
  const bool is_in_reach = mapped != nullptr || !os::is_beyond_machine(whole);
  if (!is_held_first && is_in_reach) {
    const bool has_returned = exchange_idle_for(exchanged, PageHeap::From::kAny) != 0;
    if (mapped == nullptr && has_returned) mapped = map();
  }
  if (mapped == nullptr && is_in_reach && page_heap_.unmap(bytes) != 0) mapped = map();
  if (is_held_first && mapped == nullptr) limit.take_back(bytes);
  if (!is_held_first && mapped != nullptr) limit.hold(bytes);
  return mapped;
}

/// Makes a block of whole OS pages: extends the kept range, if there is one, or maps anew.
[[gnu::noinline]] HugeHeap::Block HugeHeap::extend_or_map(Range range, std::size_t rounded,
                                                          std::size_t alignment,
                                                          std::size_t exchanged) noexcept {
  void* address = nullptr;
  if (range.address != 0) {
    address = map_in_exchange(rounded - range.bytes, rounded, exchanged, [&]() noexcept {
      return pages_.remap(range.start(), range.bytes, rounded);
    });
    if (address == nullptr && os::is_beyond_machine(rounded)) {
      put_back(range);
      return {nullptr, false};
    }
    if (address == nullptr) {
      unmap(range);  // the kernel does not move what it keeps as two mappings
    } else if (is_worth_huge_pages(rounded)) {
      pages_.advise_huge(address, rounded);
    }
    exchanged = 0;
  }
  const Block block =
      address == nullptr ? map(rounded, alignment, exchanged) : Block{address, false};
  if (block.address == nullptr) return {nullptr, false};
  const bool is_telling = policy_.depends_on(rounded);
  LockGuard guard(lock_);
  if (is_telling && live_.find(watched_) == nullptr) {
    watched_ = block.address;
    watched_since_ns_ = os::monotonic_ns();
  }
  if (!insert(block.address, {rounded, rounded})) {
    pages_.unmap(block.address, rounded);
    page_heap_.limit().let_go(rounded);
    return {nullptr, false};
  }
  return block;
}

void HugeHeap::put_back(Range range) noexcept {
  Range evicted{};
  {
    LockGuard guard(lock_);
    evicted = keep(range);
  }
  if (evicted.address != 0) unmap(evicted);
}

/// \returns  the range to unmap in its stead, if any
HugeHeap::Range HugeHeap::keep(Range range) noexcept {
  kept_.add(range);
  return kept_.count() > KeptRanges::kMost ? kept_.take_oldest(~std::size_t{0}) : Range{};
}

bool HugeHeap::deallocate(void* p) noexcept {
  Range evicted{};
  std::size_t bytes;
  {
    LockGuard guard(lock_);
    bytes = remove(p);
    if (bytes == 0) return false;
    const Range freed{reinterpret_cast<std::uintptr_t>(p), bytes};
    evicted = pages_.is_divisible() ? keep(freed) : freed;
  }
  // Without the lock: if another thread has taken it meanwhile, its use counts, too.
  if (policy_.depends_on(bytes)) policy_.note_end(pages_, p);
  if (evicted.address != 0) unmap(evicted);
  return true;
}

/// How much is to go back when a block of `bytes` takes `more` bytes from the kernel: as much. But
/// if the program has had as much live before, its blocks come and go, and returned memory is soon
/// needed again. Then nothing goes back while live and kept blocks together stay within slack_ of
/// the peak, and each block that exceeds it raises slack_ by as much as goes back. Not under a
/// limit.
std::size_t HugeHeap::draw_exchange(std::size_t bytes, std::size_t more) noexcept {
  const std::size_t live = live_bytes_ + bytes;
  if (live > most_live_ || page_heap_.limit().is_any() || !pages_.is_divisible()) return more;
  const std::size_t idle = page_heap_.idle_pages() * kPageBytes;
  if (live + kept_bytes() <= most_live_ + slack_ && idle <= most_live_ / kIdlePart) return 0;
  slack_ = std::min(slack_ + more, most_live_ / kSlackPart);
  return more;
}

HugeHeap::Place HugeHeap::place_of(const void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  LockGuard guard(lock_);
  bool is_inside = false;
  live_.for_each(
      [&](std::uintptr_t start, Extent extent) { is_inside |= address - start < extent.bytes; });
  if (is_inside) return Place::kInside;
  const bool was_freed = std::find(std::begin(freed_), std::end(freed_), p) != std::end(freed_);
  if (p != nullptr && was_freed) return Place::kFreed;
  return kept_.overlaps({address, 1}) ? Place::kKept : Place::kElsewhere;
}

std::size_t HugeHeap::usable_bytes(const void* p) noexcept {
  LockGuard guard(lock_);
  const Extent* const extent = live_.find(p);
  return extent != nullptr ? extent->bytes : 0;
}

void HugeHeap::clear(void* p, std::size_t bytes) noexcept {
  const std::size_t whole = detail::round_down(bytes, os::page_bytes());
  const bool is_to_go = whole > kMostAsked || (whole != 0 && !pages_.is_mostly_touched(p, whole));
  const bool is_given_back = is_to_go && pages_.decommit(p, whole);
  const std::size_t cleared = is_given_back ? whole : 0;
  std::memset(static_cast<char*>(p) + cleared, 0, bytes - cleared);
}

bool HugeHeap::resize_in_place(const void* p, std::size_t bytes) noexcept {
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  if (rounded < bytes) return false;
  LockGuard guard(lock_);
  Extent* const extent = live_.find(p);
  return extent != nullptr && try_stay(*extent, rounded);
}

void* HugeHeap::reallocate(void* p, std::size_t bytes) noexcept {
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  if (rounded < bytes) return nullptr;
  Extent old{};
  std::size_t exchanged = 0;
  Range evicted{};
  bool is_done;
  {
    LockGuard guard(lock_);
    Extent* const found = live_.find(p);
    STRATA_DCHECK(found != nullptr);
    old = *found;
    const bool has_tail = rounded < old.asked && old.bytes - rounded >= kLeastTail;
    if (has_tail && pages_.is_divisible()) {
      evicted = keep_tail(p, *found, rounded);
    } else if (rounded > old.bytes && !grow_into_kept(p, *found, rounded)) {
      exchanged = draw_exchange(rounded - old.bytes, rounded - old.bytes);
    }
    is_done = try_stay(*found, rounded);
  }
  if (evicted.address != 0) unmap(evicted);
  if (is_done) return p;
  if (rounded > old.bytes && !is_allowed(rounded)) return nullptr;
  const std::size_t headroom = detail::round_up(old.bytes / kHeadroomPart, os::page_bytes());
  const bool grows_little = rounded > old.bytes && rounded < old.bytes + headroom;
  if (grows_little && pages_.is_divisible() && !page_heap_.limit().is_any()) {
    const std::size_t more = old.bytes + headroom - rounded;
    if (void* const moved = remap(p, old, {rounded + more, rounded}, exchanged + more))
      return moved;
    exchanged = 0;
  }
  return remap(p, old, {rounded, rounded}, exchanged);
}

/// Cuts a block down to `bytes`; the tail becomes a kept range.
/// \returns  the range to unmap in its stead, if any
HugeHeap::Range HugeHeap::keep_tail(const void* p, Extent& extent, std::size_t bytes) noexcept {
  const std::size_t tail = extent.bytes - bytes;
  extent = {bytes, bytes};
  live_bytes_ -= tail;
  return keep({reinterpret_cast<std::uintptr_t>(p) + bytes, tail});
}

/// Extends a block into the kept range behind it.
/// \returns  false if there is no such range, it is shorter, or the block would be too long
bool HugeHeap::grow_into_kept(const void* p, Extent& extent, std::size_t bytes) noexcept {
  const std::size_t more = bytes - extent.bytes;
  if (bytes > kMostGrownIntoKept) return false;
  if (!kept_.take_front({reinterpret_cast<std::uintptr_t>(p) + extent.bytes, more})) return false;
  extent.bytes = bytes;
  add_live(more);
  return true;
}

/// Remaps a live block to another length.
/// \returns  nullptr, with the block unchanged, if the kernel or the limit forbids it.
void* HugeHeap::remap(void* p, Extent old, Extent now, std::size_t exchanged) noexcept {
  const auto move_it = [&]() noexcept { return move(p, old, now); };
  if (now.bytes < old.bytes) {
    void* const moved = move_it();
    if (moved != nullptr) page_heap_.limit().let_go(old.bytes - now.bytes);
    return moved;
  }
  void* const moved = map_in_exchange(now.bytes - old.bytes, now.bytes, exchanged, move_it);
  const bool has_new_places = now.bytes / kHugePageBytes != old.bytes / kHugePageBytes;
  if (moved != nullptr && has_new_places && policy_.is_worth_it_as_grown(pages_, moved, now.bytes))
    pages_.advise_huge(moved, now.bytes);
  return moved;
}

void* HugeHeap::move(void* p, Extent old, Extent now) noexcept {
  // Under the lock: once the block has moved, the kernel may map something else at its old address,
  // and the table must not know it any more. There is room in the table for a block that was in it.
  LockGuard guard(lock_);
  void* const moved = pages_.remap(p, old.bytes, now.bytes);
  if (moved == nullptr) return nullptr;
  kept_.leave_nothing_at(reinterpret_cast<std::uintptr_t>(p) + old.bytes);
  remove(p);
  insert(moved, now);
  return moved;
}

/// Takes a stuck range or a new mapping, with huge pages if it is large enough for them.
HugeHeap::Block HugeHeap::map(std::size_t bytes, std::size_t alignment,
                              std::size_t exchanged) noexcept {
  bool is_zero = true;
  void* const address = map_in_exchange(bytes, bytes, exchanged, [&]() noexcept {
    {
      LockGuard guard(lock_);
      if (const Range stuck = stuck_.take_fitting(bytes, alignment); stuck.address != 0) {
        is_zero = false;
        return stuck.start();
      }
    }
    if (is_worth_huge_pages(bytes)) {
      if (void* const block = map_between_huge_pages(bytes, alignment)) {
        pages_.advise_huge(block, bytes);
        return block;
      }
      // Where addresses are few there may be room for the block alone.
    }
    return pages_.map_block(bytes, alignment);
  });
  return {address, is_zero};
}

/// Maps a block that begins, and mostly ends, in the middle of a huge page's place, apart from all
/// others. So its ends have small pages: of many a buffer only the first ones are touched.
void* HugeHeap::map_between_huge_pages(std::size_t bytes, std::size_t alignment) noexcept {
  constexpr std::size_t kEnd = HugeBlockPolicy::kSmallEnd;
  const std::size_t end = alignment <= kEnd && pages_.is_divisible() ? kEnd : 0;
  if (bytes + 2 * end < bytes) return nullptr;
  auto* const place =
      static_cast<char*>(pages_.map_block(bytes + 2 * end, std::max(alignment, kHugePageBytes)));
  if (place == nullptr || end == 0) return place;
  // Accepted loss: addresses, where the kernel has no mapping left to cut an end off.
  pages_.unmap(place, end);
  pages_.unmap(place + end + bytes, end);
  return place + end;
}

/// Looks first at a block that is in use, until there is nothing more to learn from it.
bool HugeHeap::is_worth_huge_pages(std::size_t bytes) noexcept {
  if (policy_.depends_on(bytes)) {
    Range used{};
    std::uint64_t age_ns;
    {
      LockGuard guard(lock_);
      age_ns = os::monotonic_ns() - watched_since_ns_;
      if (const Extent* const extent = live_.find(watched_))
        used = {reinterpret_cast<std::uintptr_t>(watched_), extent->bytes};
      if (HugeBlockPolicy::is_settled(age_ns)) watched_ = nullptr;
    }
    if (policy_.depends_on(used.bytes)) policy_.note_use(pages_, used.start(), used.bytes, age_ns);
  }
  return policy_.is_worth_it(bytes);
}

/// \returns  The block's bytes; 0 if none is live there.
std::size_t HugeHeap::remove(const void* p) noexcept {
  Extent extent{};
  if (!live_.remove(p, extent)) return 0;
  live_bytes_ -= extent.bytes;
  freed_[frees_++ % kRemembered] = p;
  return extent.bytes;
}

HugeHeap::Statistics HugeHeap::statistics() noexcept {
  LockGuard guard(lock_);
  return {live_.size(), live_bytes_, kept_bytes(), given_bytes_, stuck_.bytes(), unmapped_bytes_};
}

void HugeHeap::check_invariants() noexcept {
  LockGuard guard(lock_);
  live_.check_invariants();
  kept_.check_invariants();
  std::size_t bytes = 0;
  std::size_t left = 0;
  const KeptRanges* const kept = &kept_;
  live_.for_each([&](std::uintptr_t start, Extent extent) {
    bytes += extent.bytes;
    left += kept->leaves_some_at(start + extent.bytes) ? 1 : 0;
    STRATA_INVARIANT(!kept->overlaps({start, extent.bytes}), "a part of a huge block is kept");
    STRATA_INVARIANT(extent.asked <= extent.bytes, "a huge block is shorter than was asked for");
  });
  STRATA_INVARIANT(bytes == live_bytes_, "bytes of huge blocks are miscounted");
  STRATA_INVARIANT(left == kept_.count_left(), "a part of what is kept is left to no huge block");
  STRATA_INVARIANT(live_bytes_ <= most_live_ && slack_ <= most_live_ / kSlackPart,
                   "more may be kept of huge blocks than a part of them");
}

}  // namespace strata
