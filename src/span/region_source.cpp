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
  chunks_.begin_at(first_region);
  huge_pages_.configure(huge_pages);
}

/// Maps an unmapped region at its old place.
[[gnu::cold, gnu::noinline]] os::MapAt RegionSource::map_again(Region& unmapped) noexcept {
  const os::MapAt answer = pages_.map_at(unmapped.start, kRegionBytes);
  if (answer == os::MapAt::kMapped) reuse(unmapped);
  return answer;
}

/// Takes a region's description for another use of it.
[[gnu::cold, gnu::noinline]] void RegionSource::reuse(Region& unmapped) noexcept {
  unmapped_.remove(unmapped);
  unmapped.dirty_pages = 0;
  unmapped.is_split = unmapped.awaits_touch = false;
}

/// \returns  a new description, without a place; nullptr if there is no memory for it
[[gnu::always_inline]] inline Region* RegionSource::describe() noexcept {
  // Zeroed, and touched only where it is used: most programs are small.
  void* const memory = metadata_.allocate_forever(sizeof(Region));
  if (memory == nullptr) return nullptr;
  auto* const region = static_cast<Region*>(memory);
  region->owner = number_;
  region->free_pages = ~PageMask{0};
  std::memset(region->head_of_page, Region::kNoSpan, sizeof region->head_of_page);
  return region;
}

/// Begins a region of the newest chunk, or of a new one.
/// \param region  an unmapped one, whose description it takes; nullptr: allocates one
/// \returns  nullptr if there is no memory for it
[[gnu::always_inline]] inline Region* RegionSource::begin_fresh(Region* region) noexcept {
  if (fresh_.is_empty() && !map_chunk()) return nullptr;
  char* const start = fresh_.choose(seed_ != 0 ? random_word(seed_, regions_) : 0);
  if (!map_.open(start, kRegionBytes)) return nullptr;
  if (region == nullptr) {
    region = describe();
    if (region == nullptr) return nullptr;
  } else {
    reuse(*region);
  }
  region->start = start;
  fresh_.remove(start);
  return region;
}

Region* RegionSource::make(bool is_extra) noexcept {
  LockGuard guard(lock_);
  Region* const unmapped = fresh_.is_empty() ? unmapped_.front() : nullptr;
  auto answer = os::MapAt::kInUse;
  if (unmapped != nullptr) [[unlikely]]
    answer = map_again(*unmapped);
  if (answer == os::MapAt::kNoMemory) return nullptr;
  const bool is_again = answer == os::MapAt::kMapped;
  Region* const region = is_again ? unmapped : begin_fresh(unmapped);
  if (region == nullptr) return nullptr;
  region->is_huge = choose_huge();
  if (is_again || region->is_huge != is_chunk_huge_)
    advise(region->start, kRegionBytes, region->is_huge);
  if (region->is_huge) ++huge_regions_;
  latest_[regions_ % kEarlier] = region->is_huge ? nullptr : region->start;
  ++regions_;
  if (is_extra) ++extra_regions_;
  if (region->is_huge || HugePagePolicy::is_large(counted_regions()))
    is_small_.store(false, std::memory_order_relaxed);
  map_.set_region(region->start, region);
  return region;
}

/// Whether the program touched what it got of an earlier region. Where it hardly touches its memory
/// (stacks, buffers that are never filled), huge pages would be wasted. For regions with huge pages
/// that cannot be seen; they follow each other.
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

bool RegionSource::unmap(Region& region) noexcept {
  LockGuard guard(lock_);
  map_.forget_region(region.start);
  if (!pages_.unmap_for_good(region.start, kRegionBytes)) {
    map_.set_region(region.start, &region);
    return false;
  }
  chunks_.forget_refusal();
  if (region.is_huge) --huge_regions_;
  --regions_;
  unmapped_.push_front(region);
  return true;
}

std::size_t RegionSource::unmap_fresh(std::size_t max_bytes) noexcept {
  LockGuard guard(lock_);
  std::size_t unmapped = 0;
  while (unmapped < max_bytes && !fresh_.is_empty()) {
    char* const start = fresh_.choose(0);
    if (!map_.open(start, kRegionBytes) || !pages_.unmap_for_good(start, kRegionBytes)) break;
    fresh_.remove(start);
    chunks_.forget_refusal();
    unmapped += kRegionBytes;
    // Accepted loss: a place that nothing describes. It is tried last, since it may need what was
    // just unmapped.
    if (Region* const region = describe()) {
      region->start = start;
      unmapped_.push_front(*region);
    }
  }
  return unmapped;
}

void RegionSource::discard() noexcept {
  LockGuard guard(lock_);
  unmapped_.forget_all();
  fresh_.give_up([this](char* region) { pages_.unmap(region, kRegionBytes); });
  chunks_.forget_refusal();
  regions_ = extra_regions_ = huge_regions_ = 0;
  for (const char*& earlier : latest_) earlier = nullptr;
  is_small_.store(true, std::memory_order_relaxed);
}

void RegionSource::advise(char* start, std::size_t bytes, bool is_huge) noexcept {
  if (is_huge) {
    pages_.advise_huge(start, bytes);
  } else if (huge_pages_.is_told()) {
    pages_.advise_small(start, bytes);
  }
}

std::size_t RegionSource::next_chunk_regions() const noexcept {
  if (most_chunk_regions_ == kMaxChunkRegions)
    return std::clamp(regions_, kFirstChunkRegions, kMaxChunkRegions);
  return std::clamp(regions_ / kNarrowShare, std::size_t{1}, most_chunk_regions_);
}

bool RegionSource::map_chunk() noexcept {
  const RegionChunks::Chunk chunk = chunks_.map(pages_, next_chunk_regions(), map_.limit());
  if (chunk.regions == 0) return false;
  // Once for all of it, since others wait meanwhile. What is not touched takes no memory.
  is_chunk_huge_ =
      huge_pages_.is_worth_it(counted_regions(), limit_.is_above_soft()) && is_touched();
  advise(chunk.start, chunk.regions * kRegionBytes, is_chunk_huge_);
  fresh_.begin(chunk.start, chunk.regions);
  return true;
}

}  // namespace strata
