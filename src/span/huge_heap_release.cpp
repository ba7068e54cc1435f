// What huge blocks give back to the kernel, and when.

#include <strata/detail/bits.hpp>

#include <algorithm>

#include "base/memory_limit.h"
#include "os/page_source.h"
#include "span/huge_heap.h"

namespace strata {

std::size_t HugeHeap::release_unneeded() noexcept {
  std::size_t unneeded;
  {
    LockGuard guard(lock_);
    unneeded = kept_.draw_unneeded();
    most_live_ = live_bytes_;
    slack_ = std::min(slack_ / 2, most_live_ / kSlackPart);
  }
  unmap_stuck();
  return release(unneeded);
}

std::size_t HugeHeap::release_all() noexcept {
  const std::size_t released = release(~std::size_t{0});
  unmap_stuck();
  return released;
}

std::size_t HugeHeap::release_untouched() noexcept {
  std::size_t released = 0;
  std::size_t place = 0;
  // Not for ever, where others free more such blocks meanwhile.
  for (std::size_t looks = 0; looks < kMostLooks; ++looks) {
    Range range{};
    {
      LockGuard guard(lock_);
      if (place >= kept_.count()) break;
      range = kept_.at(place);
    }
    // Without the lock: another thread may take it, and touch it; then it is no longer kept.
    bool is_ours = os::is_hardly_touched(range.start(), range.bytes);
    if (is_ours) {
      LockGuard guard(lock_);
      is_ours = kept_.take(range);
    }
    if (is_ours) {
      unmap(range);
      released += range.bytes;
    } else {
      ++place;
    }
  }
  return released;
}

std::size_t HugeHeap::exchange_idle_for(std::size_t bytes, PageHeap::From from) noexcept {
  const std::size_t released = kept_bytes() != 0 ? release(bytes) : 0;
  if (released >= bytes || page_heap_.idle_pages() == 0) return released;
  return released + page_heap_.decommit((bytes - released) / kPageBytes, from) * kPageBytes;
}

/// Unmaps kept ranges, the longest waiting first, until `max_bytes` are gone.
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
    if (range.address == 0) break;
    unmap(range);
    released += range.bytes;
  }
  return released;
}

/// Returns the range's memory, and its addresses if the kernel can cut them out of their mapping.
void HugeHeap::unmap(Range range) noexcept {
  const bool is_gone = pages_.unmap(range.start(), range.bytes);
  LockGuard guard(lock_);
  page_heap_.limit().let_go(range.bytes);
  unmapped_bytes_ += range.bytes;
  if (!is_gone) stuck_.add(range);
}

/// Unmaps stuck ranges, the longest waiting first, until kMostInVain in a row fail.
void HugeHeap::unmap_stuck() noexcept {
  for (int in_vain = 0; in_vain < kMostInVain;) {
    Range range{};
    {
      LockGuard guard(lock_);
      range = stuck_.take();
    }
    if (range.address == 0) return;
    if (pages_.unmap(range.start(), range.bytes)) {
      in_vain = 0;
      continue;
    }
    LockGuard guard(lock_);
    stuck_.add(range);
    ++in_vain;
  }
}

void HugeHeap::discard() noexcept {
  LockGuard guard(lock_);
  std::size_t bytes = live_bytes_;
  live_.for_each([this](std::uintptr_t start, Extent extent) {
    pages_.unmap(reinterpret_cast<void*>(start), extent.bytes);
  });
  while (kept_.count() != 0) {
    const Range range = kept_.take_oldest(~std::size_t{0});
    pages_.unmap(range.start(), range.bytes);
    bytes += range.bytes;
  }
  for (Range range = stuck_.take(); range.address != 0; range = stuck_.take())
    pages_.unmap(range.start(), range.bytes);
  live_.forget_all();
  live_bytes_ = most_live_ = slack_ = 0;
  for (const void*& freed : freed_) freed = nullptr;
  watched_ = nullptr;
  unmapped_bytes_ += bytes;
  page_heap_.limit().let_go(bytes);
}

}  // namespace strata
