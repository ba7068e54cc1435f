#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"
#include "span/fresh_regions.h"
#include "span/page_map.h"
#include "span/region_chunks.h"

namespace strata {

/// The page source for the regions of all user heaps, at addresses that one page map covers.
/// HeapTable owns it. A freed region's memory goes to the kernel; its addresses wait for the next
/// heap. So neither the start nor the end of a heap costs a mapping. Where the kernel refuses
/// something else to a heap, waiting regions are unmapped, and mapped again when they are needed.
///
/// As a page source it maps and unmaps only whole regions, one by one.
/// \threads  Any number at once; one lock, not held while a freed region's memory goes back.
class RegionPool final : public os::PageSource {
 public:
  constexpr RegionPool(PageMap& map, os::PageSource& pages) noexcept
      : map_(map), pages_(pages), metadata_(pages) {}

  /// Reserves the page map. Call before anything else.
  /// \param seed  decides where the regions lie, and the order in which they come into use; 0:
  ///              always at the same place, upwards
  /// \returns  False when out of memory; it can be tried again.
  bool start(std::uint64_t seed) noexcept;

  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override;
  bool unmap(void* region, std::size_t bytes) noexcept override;
  bool unmap_for_good(void* region, std::size_t bytes) noexcept override;
  std::size_t unmap_waiting(std::size_t max_bytes) noexcept override;
  bool decommit(void* address, std::size_t bytes) noexcept override {
    return pages_.decommit(address, bytes);
  }
  void decommit_each(os::PageRange* ranges, std::size_t count) noexcept override {
    pages_.decommit_each(ranges, count);
  }
  void advise_huge(void* address, std::size_t bytes) noexcept override;
  void advise_small(void* address, std::size_t bytes) noexcept override;
  std::uint64_t touch(void* address) noexcept override { return pages_.touch(address); }
  bool is_mostly_touched(const void* address, std::size_t bytes) noexcept override {
    return pages_.is_mostly_touched(address, bytes);
  }

  // No heap asks a pool of regions for these.
  void* map(std::size_t) noexcept override { return nullptr; }
  os::MapAt map_at(void*, std::size_t) noexcept override { return os::MapAt::kInUse; }

  struct Statistics {
    std::size_t regions;  ///< mapped now
    std::size_t waiting;  ///< the part of them in no heap
  };
  Statistics statistics() noexcept;

  void hold_locks_for_fork() noexcept {
    LocksInFork::hold(lock_);
    LocksInFork::hold(metadata_.lock());
  }

 private:
  // Chosen: the first chunk is what a small heap needs; each next one is as large as all before.
  static constexpr std::size_t kFirstChunkRegions = 4;

  bool map_chunk() noexcept STRATA_REQUIRES(lock_);
  bool make_room(std::size_t regions) noexcept STRATA_REQUIRES(lock_);
  os::MapAt map_again(void*& region) noexcept STRATA_REQUIRES(lock_);
  bool unmap_here(void* region) noexcept STRATA_REQUIRES(lock_);

  PageMap& map_;
  os::PageSource& pages_;
  MetadataArena metadata_;
  Lock lock_{LockRank::kRegionPool};
  RegionChunks chunks_ STRATA_GUARDED_BY(lock_);
  FreshRegions fresh_ STRATA_GUARDED_BY(lock_);  // of the newest chunk
  std::uint64_t seed_ STRATA_GUARDED_BY(lock_) = 0;
  // Two stacks with room for every region: from the front those that wait, from the back those that
  // were unmapped.
  void** waiting_ STRATA_GUARDED_BY(lock_) = nullptr;
  std::size_t room_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t waiting_count_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t unmapped_count_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t regions_ STRATA_GUARDED_BY(lock_) = 0;  // including unmapped ones
  std::atomic<bool> was_huge_{false};  // a waiting region may be huge; relaxed: it guards nothing
};

}  // namespace strata
