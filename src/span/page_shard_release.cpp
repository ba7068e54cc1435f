// How a shard of the page heap returns pages to the kernel, and what that means for huge pages.

#include <algorithm>
#include <bit>

#include "os/page_source.h"
#include "span/page_shard.h"

namespace strata {
namespace {

// Chosen: after so many regions in a row of which the kernel takes nothing, give up: it may take
// nothing at all, if the program has locked all its memory.
constexpr int kMostInVain = 8;

/// Calls `function(first, count)` for each run of pages, in parts of at most `most`.
template <typename Function>
void for_each_run(PageMask mask, unsigned most, Function&& function) noexcept {
  while (mask != 0) {
    const auto first = static_cast<unsigned>(std::countr_zero(mask));
    const auto count = std::min(static_cast<unsigned>(std::countr_one(mask >> first)), most);
    function(first, count);
    mask &= ~page_range(first, count);
  }
}

/// \returns  those that the kernel refused to take
PageMask decommit_runs(os::PageSource& pages, const Region& region, PageMask mask,
                       unsigned most) noexcept {
  os::PageRange runs[kPagesPerRegion];
  std::size_t count = 0;
  for_each_run(mask, most, [&](unsigned first, unsigned page_count) {
    runs[count++] = {region.start + first * kPageBytes, page_count * kPageBytes};
  });
  pages.decommit_each(runs, count);
  PageMask kept = 0;
  const os::PageRange* run = runs;
  for_each_run(mask, most, [&](unsigned first, unsigned page_count) {
    if (run++->bytes == 0) kept |= page_range(first, page_count);
  });
  return kept;
}

/// Decommits pages. One that the program has locked does not keep its neighbours from going.
/// \returns  those that the kernel refused to take
PageMask decommit_pages(os::PageSource& pages, const Region& region, PageMask mask) noexcept {
  const PageMask kept = decommit_runs(pages, region, mask, kPagesPerRegion);
  const PageMask in_rows = kept & (kept << 1 | kept >> 1);
  return in_rows != 0 ? (kept & ~in_rows) | decommit_runs(pages, region, in_rows, 1) : kept;
}

}  // namespace

void PageShard::split(Region& region) noexcept {
  bool is_first;
  {
    LockGuard guard(lock_);
    is_first = begin_split(region);
  }
  if (is_first) source_.advise_small(region);
}

/// Marks a region as split.
/// \returns  whether the kernel has to be told
bool PageShard::begin_split(Region& region) noexcept {
  if (!region.is_backed_whole()) return false;
  region.is_split = true;
  return true;
}

std::size_t PageShard::decommit(std::size_t max_pages, From from) noexcept {
  std::size_t decommitted = 0;
  LockGuard guard(lock_);
  if (from == From::kAny || !keeps_runs_whole()) merge_kept();
  for (int in_vain = 0; decommitted < max_pages && in_vain < kMostInVain;) {
    Region* const idle = longest_idle(from);
    if (idle == nullptr) break;
    Region& region = *idle;
    PageMask mask = region.idle_pages();
    while (count_pages(mask) > max_pages - decommitted) mask &= mask - 1;
    // During the system calls the pages count as used, and the lock is free. Accepted loss: in the
    // child of a fork meanwhile they stay so, at most a region for each thread that was here.
    unlist(region);
    const bool is_first_split = mask != region.dirty_pages && begin_split(region);
    mark_used(region, mask, 0);
    leaving_pages_ += count_pages(mask);
    guard.unlock();
    if (is_first_split) source_.advise_small(region);
    const PageMask kept = decommit_pages(source_.pages(), region, mask);
    guard.lock();
    leaving_pages_ -= count_pages(mask);
    unlist(region);
    region.dirty_pages &= ~(mask & ~kept);
    // Others may have taken pages of it meanwhile, or the kernel has refused some.
    if (region.dirty_pages != 0 && kept != mask && begin_split(region))
      source_.advise_small(region);
    mark_free(region, mask);
    source_.limit().let_go(count_pages(mask & ~kept) * kPageBytes);
    decommitted += count_pages(mask & ~kept);
    // What the kernel has refused is now among what was used last.
    in_vain = kept == mask ? in_vain + 1 : 0;
  }
  decommitted_pages_ += decommitted;
  return decommitted;
}

std::size_t PageShard::decommit_unneeded() noexcept {
  std::size_t unneeded;
  {
    LockGuard guard(lock_);
    unneeded = least_idle_;
    least_idle_ = idle_pages() - unneeded;
  }
  return unneeded != 0 ? decommit(unneeded, From::kAny) : 0;
}

std::size_t PageShard::unmap(std::size_t max_bytes) noexcept {
  LockGuard guard(lock_);
  merge_kept();
  std::size_t unmapped = 0;
  while (unmapped < max_bytes) {
    Region* const region = by_run_[kPagesPerRegion].back();
    if (region == nullptr) break;
    const unsigned idle = count_pages(region->idle_pages());
    unlist(*region);
    if (!source_.unmap(*region)) {
      list(*region);
      break;
    }
    count_idle(idle_pages() - idle);
    source_.limit().let_go(idle * kPageBytes);
    decommitted_pages_ += idle;
    unmapped += kRegionBytes;
  }
  return unmapped;
}

}  // namespace strata
