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
    chunks_.begin_at(first);
    seed_ = seed;
    // A chunk shows whether the kernel gives addresses below the limit.
    return map_chunk();
  };
  return HeapAddresses::choose(map_, pages_, HeapAddresses::kAll, address_space, seed, begin_at);
}

void* RegionPool::map_aligned(std::size_t bytes, std::size_t alignment) noexcept {
  STRATA_DCHECK(bytes == kRegionBytes && alignment == kRegionBytes);
  if (bytes != kRegionBytes || alignment != kRegionBytes) return nullptr;
  LockGuard guard(lock_);
  if (waiting_count_ != 0) return waiting_[--waiting_count_];
  if (fresh_.is_empty() && unmapped_count_ != 0) {
    void* region = nullptr;
    if (map_again(region) != os::MapAt::kInUse) return region;
  }
  if (fresh_.is_empty() && !map_chunk()) return nullptr;
  const std::size_t given = regions_ - fresh_.bytes() / kRegionBytes;
  char* const region = fresh_.choose(seed_ != 0 ? random_word(seed_, given) : 0);
  fresh_.remove(region);
  return region;
}

/// Maps an unmapped region at its old place, the latest first. A place that is in use by now is
/// given up.
/// \param region  set if one is mapped
/// \returns  kInUse if all places were
os::MapAt RegionPool::map_again(void*& region) noexcept {
  for (; unmapped_count_ != 0; --regions_) {
    void* const latest = waiting_[room_ - unmapped_count_];
    const os::MapAt answer = pages_.map_at(latest, kRegionBytes);
    if (answer == os::MapAt::kNoMemory) return answer;
    --unmapped_count_;
    if (answer == os::MapAt::kInUse) continue;
    pages_.advise_small(latest, kRegionBytes);
    region = latest;
    return answer;
  }
  return os::MapAt::kInUse;
}

/// \pre  nothing is in the region, and the front stack does not have it
bool RegionPool::unmap_here(void* region) noexcept {
  if (!pages_.unmap(region, kRegionBytes)) return false;
  waiting_[room_ - ++unmapped_count_] = region;
  chunks_.forget_refusal();
  return true;
}

std::size_t RegionPool::unmap_waiting(std::size_t max_bytes) noexcept {
  LockGuard guard(lock_);
  std::size_t unmapped = 0;
  for (; unmapped < max_bytes; unmapped += kRegionBytes) {
    if (waiting_count_ == 0 && !fresh_.is_empty()) {
      char* const fresh = fresh_.choose(0);
      fresh_.remove(fresh);
      waiting_[waiting_count_++] = fresh;
    }
    if (waiting_count_ == 0) break;
    void* const region = waiting_[--waiting_count_];
    if (!unmap_here(region)) {
      ++waiting_count_;
      break;
    }
  }
  return unmapped;
}

bool RegionPool::unmap_for_good(void* region, std::size_t bytes) noexcept {
  STRATA_DCHECK(bytes == kRegionBytes);
  LockGuard guard(lock_);
  return bytes == kRegionBytes && unmap_here(region);
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

/// Advises the kernel only for a region that was huge: chunks are advised as a whole.
void RegionPool::advise_small(void* address, std::size_t bytes) noexcept {
  if (was_huge_.load(std::memory_order_relaxed)) pages_.advise_small(address, bytes);
}

/// Maps the next regions below the page map's limit, and opens their entries.
bool RegionPool::map_chunk() noexcept {
  const std::size_t wanted = std::clamp(regions_, kFirstChunkRegions, RegionChunks::kMost);
  const RegionChunks::Chunk chunk = chunks_.map(pages_, wanted, map_.limit());
  if (chunk.regions == 0) return false;
  const std::size_t bytes = chunk.regions * kRegionBytes;
  if (!make_room(regions_ + chunk.regions) || !map_.open(chunk.start, bytes)) {
    pages_.unmap(chunk.start, bytes);
    chunks_.take_back(chunk);
    return false;
  }
  pages_.advise_small(chunk.start, bytes);
  regions_ += chunk.regions;
  fresh_.begin(chunk.start, chunk.regions);
  return true;
}

/// Makes the stack of waiting regions large enough for so many.
/// \pre      no region waits, and none is unmapped
/// \returns  false when out of memory
bool RegionPool::make_room(std::size_t regions) noexcept {
  STRATA_DCHECK(waiting_count_ == 0 && unmapped_count_ == 0);
  if (regions <= room_) return true;
  const std::size_t room = std::max(2 * room_, std::max(regions, std::size_t{64}));
  auto* const more = static_cast<void**>(metadata_.allocate(room * sizeof(void*)));
  if (more == nullptr) return false;
  if (waiting_ != nullptr) metadata_.deallocate(waiting_, room_ * sizeof(void*));
  waiting_ = more;
  room_ = room;
  return true;
}

RegionPool::Statistics RegionPool::statistics() noexcept {
  LockGuard guard(lock_);
  return {regions_ - unmapped_count_, waiting_count_ + fresh_.bytes() / kRegionBytes};
}

}  // namespace strata
