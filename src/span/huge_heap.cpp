#include "span/huge_heap.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <iterator>

#include "base/fatal.h"

namespace strata {

HugeHeap::Block HugeHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  if (rounded < bytes) return {nullptr, false};
  Range range{};
  {
    LockGuard guard(lock_);
    if (!live_.make_room() || !kept_.make_room()) return {nullptr, false};
    if (kept_.take_fitting(rounded, alignment, range)) {
      void* const kept = reinterpret_cast<void*>(range.address);
      insert(kept, rounded);
      return {kept, false};
    }
    if (alignment <= os::page_bytes()) kept_.take_extendable(rounded, range);
  }
  exchange_idle_for(rounded - range.bytes, PageHeap::From::kAny);
  void* address = nullptr;
  if (range.address != 0) {
    const std::size_t more_bytes = rounded - range.bytes;
    if (page_heap_.limit().try_hold(more_bytes)) {
      address = pages_.remap(reinterpret_cast<void*>(range.address), range.bytes, rounded);
      // The kernel does not move what it keeps as two mappings.
      if (address == nullptr) page_heap_.limit().take_back(more_bytes);
    }
    if (address == nullptr) unmap(range);
  }
  const bool is_zero = address == nullptr;
  if (address == nullptr) address = map(rounded, alignment);
  if (address == nullptr) return {nullptr, false};
  LockGuard guard(lock_);
  if (!insert(address, rounded)) {
    pages_.unmap(address, rounded);
    page_heap_.limit().let_go(rounded);
    return {nullptr, false};
  }
  return {address, is_zero};
}

bool HugeHeap::deallocate(void* p) noexcept {
  Range evicted{};
  {
    LockGuard guard(lock_);
    const std::size_t bytes = remove(p);
    if (bytes == 0) return false;
    const Range freed{reinterpret_cast<std::uintptr_t>(p), bytes};
    if (pages_.is_divisible()) {
      kept_.add(freed);
      if (kept_.count() > KeptRanges::kMost) evicted = kept_.take_oldest(~std::size_t{0});
    } else {
      evicted = freed;
    }
  }
  if (evicted.address != 0) unmap(evicted);
  return true;
}

HugeHeap::Place HugeHeap::place_of(const void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  LockGuard guard(lock_);
  bool is_inside = false;
  live_.for_each(
      [&](std::uintptr_t start, std::size_t bytes) { is_inside |= address - start < bytes; });
  if (is_inside) return Place::kInside;
  const bool was_freed = std::find(std::begin(freed_), std::end(freed_), p) != std::end(freed_);
  return p != nullptr && was_freed ? Place::kFreed : Place::kElsewhere;
}

std::size_t HugeHeap::usable_bytes(const void* p) noexcept {
  LockGuard guard(lock_);
  const std::size_t* const bytes = live_.find(p);
  return bytes != nullptr ? *bytes : 0;
}

void* HugeHeap::reallocate(void* p, std::size_t bytes) noexcept {
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  if (rounded < bytes) return nullptr;
  const std::size_t old_bytes = usable_bytes(p);
  STRATA_DCHECK(old_bytes != 0);
  const std::size_t headroom = detail::round_up(old_bytes / kHeadroomPart, os::page_bytes());
  if (rounded <= old_bytes)
    return old_bytes - rounded <= headroom ? p : remap(p, old_bytes, rounded);
  const std::size_t roomy = std::max(rounded, old_bytes + headroom);
  exchange_idle_for(roomy - old_bytes, PageHeap::From::kAny);
  if (roomy != rounded && page_heap_.limit().try_hold_unasked(roomy - old_bytes)) {
    if (void* const moved = remap(p, old_bytes, roomy)) return moved;
  }
  if (!page_heap_.limit().try_hold(rounded - old_bytes)) return nullptr;
  return remap(p, old_bytes, rounded);
}

/// Moves a live block to a mapping of so many bytes; if these are more, they are held already.
/// \returns  nullptr, and it stays, if the kernel forbids it.
void* HugeHeap::remap(void* p, std::size_t old_bytes, std::size_t bytes) noexcept {
  // Under the lock: once the block has moved, the kernel may map something else at its old address,
  // and the table must not know it any more. There is room in the table for a block that was in it.
  LockGuard guard(lock_);
  void* const moved = pages_.remap(p, old_bytes, bytes);
  if (moved == nullptr) {
    if (bytes > old_bytes) page_heap_.limit().take_back(bytes - old_bytes);
    return nullptr;
  }
  if (bytes < old_bytes) page_heap_.limit().let_go(old_bytes - bytes);
  remove(p);
  insert(moved, bytes);
  return moved;
}

std::size_t HugeHeap::release_unneeded() noexcept {
  std::size_t unneeded;
  {
    LockGuard guard(lock_);
    unneeded = kept_.draw_unneeded();
  }
  return release(unneeded);
}

/// A new mapping, with huge pages if it is large enough for them.
void* HugeHeap::map(std::size_t bytes, std::size_t alignment) noexcept {
  if (!page_heap_.limit().try_hold(bytes)) return nullptr;
  const bool is_huge = huge_pages_ && bytes >= kHugePageFromBytes;
  void* address =
      pages_.map_aligned(bytes, is_huge ? std::max(alignment, kHugePageBytes) : alignment);
  if (address == nullptr) page_heap_.limit().take_back(bytes);
  if (address != nullptr && is_huge) pages_.advise_huge(address, bytes);
  return address;
}

/// \returns  False if the range could not be cut out of its mapping and is kept. Accepted loss:
///           where there is no room to keep it, its addresses are lost.
bool HugeHeap::unmap(Range range) noexcept {
  const bool is_gone = pages_.unmap(reinterpret_cast<void*>(range.address), range.bytes);
  LockGuard guard(lock_);
  if (!is_gone && kept_.count() < KeptRanges::kMost) {
    kept_.add(range);
    return false;
  }
  page_heap_.limit().let_go(range.bytes);
  unmapped_bytes_ += range.bytes;
  return true;
}

void HugeHeap::discard() noexcept {
  LockGuard guard(lock_);
  std::size_t bytes = live_bytes_;
  live_.for_each([this](std::uintptr_t start, std::size_t of_block) {
    pages_.unmap(reinterpret_cast<void*>(start), of_block);
  });
  while (kept_.count() != 0) {
    const Range range = kept_.take_oldest(~std::size_t{0});
    pages_.unmap(reinterpret_cast<void*>(range.address), range.bytes);
    bytes += range.bytes;
  }
  live_.forget_all();
  live_bytes_ = 0;
  for (const void*& freed : freed_) freed = nullptr;
  unmapped_bytes_ += bytes;
  page_heap_.limit().let_go(bytes);
}

void HugeHeap::exchange_idle_for(std::size_t bytes, PageHeap::From from) noexcept {
  const std::size_t released = kept_bytes() != 0 ? release(bytes) : 0;
  if (released < bytes && page_heap_.idle_pages() != 0)
    page_heap_.decommit((bytes - released) / kPageBytes, from);
}

/// Unmaps kept ranges, those that waited longest first, until `max_bytes` are gone.
std::size_t HugeHeap::release(std::size_t max_bytes) noexcept {
  std::size_t released = 0;
  while (released < max_bytes) {
    Range range{};
    {
      LockGuard guard(lock_);
      if (kept_.count() != 0)
        range = kept_.take_oldest(
            detail::round_up(std::min(max_bytes - released, kept_bytes()), os::page_bytes()));
    }
    // Where the kernel refuses, trying again would not end.
    if (range.address == 0 || !unmap(range)) break;
    released += range.bytes;
  }
  return released;
}

bool HugeHeap::insert(const void* p, std::size_t bytes) noexcept {
  if (!live_.insert(p, bytes)) return false;
  live_bytes_ += bytes;
  return true;
}

/// \returns  The block's bytes; 0 if none is live there.
std::size_t HugeHeap::remove(const void* p) noexcept {
  std::size_t bytes = 0;
  if (!live_.remove(p, bytes)) return 0;
  live_bytes_ -= bytes;
  freed_[frees_++ % kRemembered] = p;
  return bytes;
}

HugeHeap::Statistics HugeHeap::statistics() noexcept {
  LockGuard guard(lock_);
  return {live_.size(), live_bytes_, kept_bytes(), unmapped_bytes_};
}

void HugeHeap::check_invariants() noexcept {
  LockGuard guard(lock_);
  live_.check_invariants();
  kept_.check_invariants();
  std::size_t bytes = 0;
  live_.for_each([&](std::uintptr_t, std::size_t of_block) { bytes += of_block; });
  STRATA_INVARIANT(bytes == live_bytes_, "bytes of huge blocks are miscounted");
}

}  // namespace strata
