#include "span/region_source.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace strata {

void RegionSource::configure(std::uintptr_t first_region, HugePages huge_pages,
                             std::size_t most_chunk_bytes, std::uint64_t seed) noexcept {
  LockGuard guard(lock_);
  seed_ = seed;
  most_chunk_regions_ =
      std::clamp(most_chunk_bytes / kRegionBytes, std::size_t{1}, kMaxChunkRegions);
  next_address_ = first_region;
  huge_pages_.configure(huge_pages);
}

Region* RegionSource::make(bool is_extra) noexcept {
  LockGuard guard(lock_);
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
  latest_[regions_ % kEarlier] = region->is_huge ? nullptr : start;
  ++regions_;
  if (is_extra) ++extra_regions_;
  if (region->is_huge || HugePagePolicy::is_large(counted_regions()))
    is_small_.store(false, std::memory_order_relaxed);
  map_.set_region(region->start, region);
  return region;
}

/// Whether the program has touched what it got of an earlier region. Of huge pages that are hardly
/// touched, all the rest would be memory in vain: stacks, and buffers that are never filled. That
/// of a region with huge pages cannot be seen; such follow each other.
[[gnu::noinline]] bool RegionSource::is_touched() noexcept {
  if (!huge_pages_.is_measured()) return true;
  const char* const earlier = latest_[regions_ % kEarlier];
  return earlier == nullptr || pages_.is_mostly_touched(earlier, kRegionBytes);
}

void RegionSource::begin_use(Region& region) noexcept {
  LockGuard guard(lock_);
  if (region.is_split && choose_huge()) {
    region.is_split = false;
    pages_.advise_huge(region.start, kRegionBytes);
  }
  region.awaits_touch = huge_pages_.is_measured();
}

void RegionSource::give_back(Region& region) noexcept {
  char* const start = region.start;
  map_.forget_region(start);
  pages_.unmap(start, kRegionBytes);
}

void RegionSource::discard() noexcept {
  LockGuard guard(lock_);
  fresh_.give_up([this](char* region) { pages_.unmap(region, kRegionBytes); });
  was_refused_ = false;
  regions_ = extra_regions_ = huge_regions_ = 0;
  for (const char*& earlier : latest_) earlier = nullptr;
  is_small_.store(true, std::memory_order_relaxed);
}

void RegionSource::advise(char* start, std::size_t bytes, bool is_huge) noexcept {
  if (is_huge) {
    pages_.advise_huge(start, bytes);
  } else {
    pages_.advise_small(start, bytes);
  }
}

std::size_t RegionSource::next_chunk_regions() const noexcept {
  if (most_chunk_regions_ == kMaxChunkRegions)
    return std::clamp(regions_, kFirstChunkRegions, kMaxChunkRegions);
  return std::clamp(regions_ / kNarrowShare, std::size_t{1}, most_chunk_regions_);
}

/// Whether the kernel would map a region now, or chooses the place anyway. Accepted loss: where it
/// has no mapping left to cut this one off its neighbours, the addresses.
[[gnu::cold, gnu::noinline]] bool RegionSource::has_room() noexcept {
  if (next_address_ + kRegionBytes > map_.limit()) return true;
  void* const memory = pages_.map(kRegionBytes);
  if (memory != nullptr) pages_.unmap(memory, kRegionBytes);
  return memory != nullptr;
}

bool RegionSource::map_chunk() noexcept {
  // Where there was no chunk the last time, a failure has to be cheap: one call of the kernel. Only
  // if there is room is one region tried, in two places; in one where the kernel chooses.
  if (was_refused_ && !has_room()) return false;
  // Addresses that are in use are skipped, some gigabytes at the most.
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
[[gnu::noinline]] bool RegionSource::begin_chunk(char* start, std::size_t bytes) noexcept {
  if (reinterpret_cast<std::uintptr_t>(start) + bytes > map_.limit()) {
    pages_.unmap(start, bytes);
    return false;
  }
  // Once for all of it, since others wait meanwhile. What is not touched takes no memory.
  is_chunk_huge_ =
      huge_pages_.is_worth_it(counted_regions(), limit_.is_above_soft()) && is_touched();
  advise(start, bytes, is_chunk_huge_);
  fresh_.begin(start, bytes / kRegionBytes);
  return true;
}

}  // namespace strata
