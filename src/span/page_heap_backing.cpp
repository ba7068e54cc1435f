// How regions are backed after they were begun: filled ones by huge pages, those that gave a part
// back by small ones.

#include <cstdint>

#include "os/clock.h"
#include "span/page_heap.h"

namespace strata {
namespace {

bool has_holes(const Region& region) noexcept {
  return region.spans_with_holes.load(std::memory_order_relaxed) != 0;
}

}  // namespace

bool PageHeap::is_huge(const Span& span) noexcept {
  LockGuard guard(lock_);
  return map_.region_of(span.start)->is_huge;
}

void PageHeap::begin_holes(const Span& span) noexcept {
  Region& region = *map_.region_of(span.start);
  bool is_first;
  {
    LockGuard guard(lock_);
    region.spans_with_holes.fetch_add(1, std::memory_order_relaxed);
    is_first = begin_split(region);
  }
  if (is_first) pages_.advise_small(region.start, kRegionBytes);
}

/// \returns  whether the kernel has to be told
bool PageHeap::begin_split(Region& region) noexcept {
  if (!region.is_huge || region.is_split) return false;
  region.is_split = true;
  return true;
}

/// A region of which nothing is held is about to be used: it is as on its first day.
void PageHeap::begin_anew(Region& region) noexcept {
  region.is_split = false;
  if (region.is_collapsed) {
    region.is_collapsed = region.is_huge = false;
    --huge_regions_;
    pages_.advise_small(region.start, kRegionBytes);
  } else if (region.is_huge) {
    pages_.advise_huge(region.start, kRegionBytes);
  }
}

void PageHeap::collapse_next() noexcept {
  std::uint64_t due = next_collapse_ns_.load(std::memory_order_relaxed);
  const std::uint64_t start = os::monotonic_ns();
  if (start < due ||
      !next_collapse_ns_.compare_exchange_strong(due, UINT64_MAX, std::memory_order_relaxed))
    return;
  // Regions are unmapped by discard() alone, so it can be looked at without the lock.
  Region* const region = choose_filled();
  if (region != nullptr &&
      os::resident_bytes_in(region->start, kRegionBytes) >= kRegionBytes - kMostHoles)
    collapse(*region);
  const std::uint64_t now = os::monotonic_ns();
  const std::uint64_t pause = region != nullptr ? (now - start) * kPauseShare : kRoundPauseNs;
  next_collapse_ns_.store(now + pause, std::memory_order_relaxed);
}

/// \returns  A full region of small pages that this round has not looked at; nullptr at its end.
Region* PageHeap::choose_filled() noexcept {
  LockGuard guard(lock_);
  for (unsigned run = 0; run <= kMostFreePages; ++run) {
    for (Region* region = by_run_[run].front(); region != nullptr;
         region = by_run_[run].next(*region)) {
      if (region->looked_at == round_ || region->is_huge || region->dirty_pages != ~PageMask{0} ||
          region->free_page_count() > kMostFreePages || has_holes(*region))
        continue;
      region->looked_at = round_;
      return region;
    }
  }
  ++round_;
  rounds_left_.store(rounds_left_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return nullptr;
}

void PageHeap::collapse(Region& region) noexcept {
  {
    LockGuard guard(lock_);
    if (region.dirty_pages != ~PageMask{0} || has_holes(region) || limit_.is_above_soft()) return;
    // Whoever decommits a part of it splits it first from here on.
    region.is_huge = region.is_collapsed = true;
    ++huge_regions_;
  }
  pages_.advise_huge(region.start, kRegionBytes);
  // Where the kernel cannot do it now, it does it by and by.
  if (can_collapse_.load(std::memory_order_relaxed) && !pages_.collapse(region.start, kRegionBytes))
    can_collapse_.store(false, std::memory_order_relaxed);
  bool is_small;
  {
    LockGuard guard(lock_);
    is_small = region.is_split || !region.is_huge;
  }
  if (is_small) pages_.advise_small(region.start, kRegionBytes);
}

}  // namespace strata
