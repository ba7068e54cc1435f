#include "user_heap/region_pool.h"

#include <algorithm>
#include <cstring>

#include "base/fatal.h"
#include "base/random.h"
#include "os/resources.h"
#include "span/heap_addresses.h"

namespace strata {

bool RegionPool::start(std::uint64_t seed) noexcept {
  const std::size_t address_space = os::address_space_limit_bytes();
  const auto begin_at = [this, seed](std::uintptr_t first) {
    LockGuard guard(lock_);
    next_address_ = first;
    seed_ = seed;
    was_refused_ = false;
    // A window shows whether the kernel gives addresses below the limit.
    return map_window();
  };
  return HeapAddresses::choose(map_, pages_, HeapAddresses::kAll, address_space, seed, begin_at);
}

void* RegionPool::map_aligned(std::size_t bytes, std::size_t alignment) noexcept {
  STRATA_DCHECK(bytes == kRegionBytes && alignment == kRegionBytes);
  if (bytes != kRegionBytes || alignment != kRegionBytes) return nullptr;
  LockGuard guard(lock_);
  if (waiting_count_ != 0) return waiting_[--waiting_count_];
  if (fresh_.is_empty() && !map_window()) return nullptr;
  const std::size_t given = regions_ - fresh_.bytes() / kRegionBytes;
  char* const region = fresh_.choose(seed_ != 0 ? random_word(seed_, given) : 0);
  fresh_.remove(region);
  return region;
}

bool RegionPool::unmap(void* region, std::size_t bytes) noexcept {
  STRATA_DCHECK(bytes == kRegionBytes);
  // Memory that is locked (mlockall) stays; it must read as zero for the next heap.
  if (!pages_.decommit(region, bytes)) std::memset(region, 0, bytes);
  LockGuard guard(lock_);
  waiting_[waiting_count_++] = region;
  return true;
}

void RegionPool::advise_huge(void* address, std::size_t bytes) noexcept {
  was_huge_.store(true, std::memory_order_relaxed);
  pages_.advise_huge(address, bytes);
}

/// A window is advised as a whole: only a region that was huge is told again.
void RegionPool::advise_small(void* address, std::size_t bytes) noexcept {
  if (was_huge_.load(std::memory_order_relaxed)) pages_.advise_small(address, bytes);
}

/// Maps the next regions, below the page map's limit, and makes their entries ready.
bool RegionPool::map_window() noexcept {
  // Where there was none the last time, a failure has to be cheap: one region, in two places.
  const int tries = was_refused_ ? 1 : kTries;
  std::size_t regions =
      was_refused_ ? 1 : std::clamp(regions_, kFirstWindowRegions, kMostWindowRegions);
  was_refused_ = false;
  for (;; regions = 1) {
    const std::size_t bytes = regions * kRegionBytes;
    std::uintptr_t address = next_address_;
    for (int i = 0; i < tries && address + bytes <= map_.limit();
         ++i, address += kMostWindowRegions * kRegionBytes) {
      auto* const start = reinterpret_cast<char*>(address);
      if (!pages_.map_at(start, bytes)) continue;
      next_address_ = address + bytes;
      return begin_window(start, regions);
    }
    void* const start = pages_.map_aligned(bytes, kRegionBytes);
    if (start != nullptr && reinterpret_cast<std::uintptr_t>(start) + bytes <= map_.limit()) {
      next_address_ = map_.limit();  // from now on the kernel chooses
      return begin_window(start, regions);
    }
    if (start != nullptr) pages_.unmap(start, bytes);
    if (regions == 1) break;
  }
  was_refused_ = true;
  return false;
}

/// \returns  false, and unmaps the window, when out of memory
bool RegionPool::begin_window(void* start, std::size_t regions) noexcept {
  const std::size_t bytes = regions * kRegionBytes;
  const std::size_t all = regions_ + regions;
  if (all > room_) {
    const std::size_t room = std::max(2 * room_, std::max(all, std::size_t{64}));
    auto* const more = static_cast<void**>(metadata_.allocate(room * sizeof(void*)));
    if (more == nullptr) {
      pages_.unmap(start, bytes);
      return false;
    }
    if (waiting_count_ != 0) std::memcpy(more, waiting_, waiting_count_ * sizeof(void*));
    if (waiting_ != nullptr) metadata_.deallocate(waiting_, room_ * sizeof(void*));
    waiting_ = more;
    room_ = room;
  }
  if (!map_.open(start, bytes)) {
    pages_.unmap(start, bytes);
    return false;
  }
  pages_.advise_small(start, bytes);
  regions_ = all;
  fresh_.begin(static_cast<char*>(start), regions);
  return true;
}

RegionPool::Statistics RegionPool::statistics() noexcept {
  LockGuard guard(lock_);
  return {regions_, waiting_count_ + fresh_.bytes() / kRegionBytes};
}

}  // namespace strata
