// How the page heap gets new regions: chunks of them from the kernel, and what describes each.

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/random.h"
#include "span/page_heap.h"

namespace strata {

Region* PageHeap::grow() noexcept {
  if (fresh_.is_empty() && !map_chunk()) return nullptr;
  char* const start = fresh_.choose(seed_ != 0 ? random_word(seed_, regions_) : 0);
  if (!map_.open(start, kRegionBytes)) return nullptr;
  // Zeroed, and touched only where it is used: most programs are small.
  void* const memory = metadata_.allocate_forever(sizeof(Region));
  if (memory == nullptr) return nullptr;
  auto* region = static_cast<Region*>(memory);
  region->start = start;
  region->owner = number_;
  region->free_pages = ~PageMask{0};
  std::memset(region->head_of_page, Region::kNoSpan, sizeof region->head_of_page);
  fresh_.remove(start);
  region->is_huge = choose_huge();
  if (region->is_huge != is_chunk_huge_) advise(region->start, kRegionBytes, region->is_huge);
  if (region->is_huge) ++huge_regions_;
  ++regions_;
  if (region->is_huge || HugePagePolicy::is_large(regions_))
    is_small_.store(false, std::memory_order_relaxed);
  map_.set_region(region->start, region);
  return region;
}

/// Has the kernel back a region by a huge page, unless another thread did, and sees how long that
/// takes.
/// \pre  the span is of that region, and nobody else's
[[gnu::noinline]] void PageHeap::touch_huge_page(const Span& span) noexcept {
  const std::uint64_t ns = pages_.touch(span.start);
  LockGuard guard(lock_);
  map_.region_of(span.start)->awaits_touch = false;
  huge_pages_.note_first_touch(ns);
}

void PageHeap::advise(char* start, std::size_t bytes, bool is_huge) noexcept {
  if (is_huge) {
    pages_.advise_huge(start, bytes);
  } else {
    pages_.advise_small(start, bytes);
  }
}

std::size_t PageHeap::next_chunk_regions() const noexcept {
  if (most_chunk_regions_ == kMaxChunkRegions)
    return std::clamp(regions_, kFirstChunkRegions, kMaxChunkRegions);
  return std::clamp(regions_ / kNarrowShare, std::size_t{1}, most_chunk_regions_);
}

bool PageHeap::map_chunk() noexcept {
  // Addresses that are in use are skipped, some gigabytes at the most. Where there was no chunk the
  // last time, a failure has to be cheap: one region, in two places.
  const int tries = was_refused_ ? 1 : 64;
  std::size_t bytes = was_refused_ ? kRegionBytes : next_chunk_regions() * kRegionBytes;
  was_refused_ = false;
  for (;; bytes = kRegionBytes) {
    std::uintptr_t address = next_address_;
    for (int i = 0; i < tries && address + bytes <= map_.limit();
         ++i, address += kMaxChunkRegions * kRegionBytes) {
      auto* start = reinterpret_cast<char*>(address);
      if (!pages_.map_at(start, bytes) || !begin_chunk(start, bytes)) continue;
      next_address_ = address + bytes + kBetweenChunks;
      return true;
    }
    // Anywhere below the limit will do. A kernel that has chosen so once chooses from now on.
    auto* start = static_cast<char*>(pages_.map_aligned(bytes, kRegionBytes));
    if (start != nullptr && begin_chunk(start, bytes)) {
      next_address_ = map_.limit();
      return true;
    }
    if (bytes == kRegionBytes) break;
  }
  was_refused_ = true;
  return false;
}

/// Takes a mapping for the next regions.
/// \returns  false, and unmaps it, if it is beyond the page map
bool PageHeap::begin_chunk(char* start, std::size_t bytes) noexcept {
  if (reinterpret_cast<std::uintptr_t>(start) + bytes > map_.limit()) {
    pages_.unmap(start, bytes);
    return false;
  }
  // Once for all of it, since others wait meanwhile. What is not touched takes no memory.
  is_chunk_huge_ = huge_pages_.is_worth_it(regions_, limit_.is_above_soft());
  advise(start, bytes, is_chunk_huge_);
  fresh_.begin(start, bytes / kRegionBytes);
  return true;
}

}  // namespace strata
