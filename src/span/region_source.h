#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/memory_limit.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"
#include "span/fresh_regions.h"
#include "span/huge_page_policy.h"
#include "span/page.h"
#include "span/page_map.h"
#include "span/region_chunks.h"

namespace strata {

/// Makes the regions of a page heap: maps chunks of them, allocates their descriptions, and decides
/// whether each asks for huge pages. PageHeap owns it; its shards call it.
/// \threads  Any number at once; one lock. Under it, the only system calls map a new chunk and
///           commit its part of the page map, unmap a region or map it again, advise on huge pages,
///           and ask whether an earlier region is touched.
class RegionSource {
 public:
  struct Statistics {
    std::size_t regions;
    std::size_t huge_regions;
    std::size_t reserved_bytes;  ///< regions of the newest chunk that were not begun yet
  };

  constexpr RegionSource(PageMap& map, MetadataArena& metadata, MemoryLimit& limit,
                         os::PageSource& pages, HeapNumber number) noexcept
      : map_(map), metadata_(metadata), pages_(pages), limit_(limit), number_(number) {}
  RegionSource(const RegionSource&) = delete;
  RegionSource& operator=(const RegionSource&) = delete;

  /// As PageHeap's.
  void configure(std::uintptr_t first_region, HugePages huge_pages, std::size_t most_chunk_bytes,
                 std::uint64_t seed) noexcept;

  /// Makes a region whose pages are all free and clean, and enters it in the page map.
  /// \param is_extra  made only to give a shard a region of its own; it does not count in the
  ///                  heap's size
  /// \returns  nullptr if there is no memory for it
  Region* make(bool is_extra) noexcept;
  /// Called before the first page of a region without memory is used.
  void begin_use(Region& region) noexcept;
  /// Unmaps a region, whatever is in it.
  void give_back(Region& region) noexcept;
  /// Unmaps a free, unlisted region. A later make() maps it again at its old place, if nothing else
  /// lies there by then.
  /// \returns  False, and it is still there, if the kernel has no mapping left for the hole.
  bool unmap(Region& region) noexcept;
  /// Unmaps regions of the newest chunk that were not begun, until so many bytes are gone. They are
  /// mapped again as those of unmap() are.
  /// \returns  how many bytes
  std::size_t unmap_fresh(std::size_t max_bytes) noexcept;
  /// Gives back what is reserved. Every region was given back before.
  void discard() noexcept;

  /// Has small pages back the region from now on.
  void advise_small(const Region& region) noexcept {
    pages_.advise_small(region.start, kRegionBytes);
  }
  /// Takes the duration of the first touch of a region that asked for a huge page.
  void note_first_touch(std::uint64_t ns) noexcept {
    LockGuard guard(lock_);
    huge_pages_.note_first_touch(ns);
  }

  /// As PageHeap's.
  std::size_t take_growth() noexcept {
    if (growth_bytes_.load(std::memory_order_relaxed) == 0) return 0;
    return growth_bytes_.exchange(0, std::memory_order_relaxed);
  }
  std::size_t growth_bytes() const noexcept {
    return growth_bytes_.load(std::memory_order_relaxed);
  }
  void count_growth(std::size_t bytes) noexcept {
    growth_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  bool is_small() const noexcept { return is_small_.load(std::memory_order_relaxed); }

  const PageMap& map() const noexcept { return map_; }
  /// \pre  the span lies in a region of this map
  Region& region_of(const Span& span) const noexcept { return *map_.region_of(span.start); }
  os::PageSource& pages() noexcept { return pages_; }
  constexpr MemoryLimit& limit() noexcept { return limit_; }
  const MemoryLimit& limit() const noexcept { return limit_; }
  MetadataArena& metadata() noexcept { return metadata_; }
  constexpr HeapNumber number() const noexcept { return number_; }

  Statistics statistics() noexcept {
    LockGuard guard(lock_);
    return {regions_, huge_regions_, fresh_.bytes()};
  }
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  std::size_t next_chunk_regions() const noexcept STRATA_REQUIRES(lock_);
  std::size_t counted_regions() const noexcept STRATA_REQUIRES(lock_) {
    return regions_ - std::min(regions_, extra_regions_);
  }
  bool choose_huge() noexcept STRATA_REQUIRES(lock_) {
    return huge_pages_.choose(counted_regions(), limit_.is_above_soft()) && is_touched();
  }
  bool is_touched() noexcept STRATA_REQUIRES(lock_);
  os::MapAt map_again(Region& unmapped) noexcept STRATA_REQUIRES(lock_);
  void reuse(Region& unmapped) noexcept STRATA_REQUIRES(lock_);
  Region* describe() noexcept STRATA_REQUIRES(lock_);
  Region* begin_fresh(Region* region) noexcept STRATA_REQUIRES(lock_);
  void advise(char* start, std::size_t bytes, bool is_huge) noexcept STRATA_REQUIRES(lock_);
  bool map_chunk() noexcept STRATA_REQUIRES(lock_);

  // Chosen: a chunk is one mapping, as large as the heap so far, up to 256 MiB. Where address space
  // is limited, up to a fourth of that: what a chunk does not use is lost to others.
  static constexpr std::size_t kFirstChunkRegions = 8;
  static constexpr std::size_t kMaxChunkRegions = RegionChunks::kMost;
  static constexpr std::size_t kNarrowShare = 4;
  // Chosen: a program that will touch its memory soon has touched what it got so many regions ago.
  static constexpr std::size_t kEarlier = 4;

  Lock lock_{LockRank::kRegionSource};
  PageMap& map_;
  MetadataArena& metadata_;
  os::PageSource& pages_;
  MemoryLimit& limit_;  // what this heap's dirty pages count in
  const HeapNumber number_;

  RegionChunks chunks_ STRATA_GUARDED_BY(lock_);
  FreshRegions fresh_ STRATA_GUARDED_BY(lock_);                          // of the newest chunk
  IntrusiveList<Region, RunListTag> unmapped_ STRATA_GUARDED_BY(lock_);  // the latest first
  bool is_chunk_huge_ STRATA_GUARDED_BY(lock_) = false;                  // advised for that chunk
  std::uint64_t seed_ STRATA_GUARDED_BY(lock_) = 0;
  HugePagePolicy huge_pages_ STRATA_GUARDED_BY(lock_);
  // The latest regions, in a ring; nullptr for those that asked for huge pages.
  const char* latest_[kEarlier] STRATA_GUARDED_BY(lock_) = {};
  std::size_t most_chunk_regions_ STRATA_GUARDED_BY(lock_) = kMaxChunkRegions;
  std::size_t regions_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t extra_regions_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t huge_regions_ STRATA_GUARDED_BY(lock_) = 0;
  std::atomic<bool> is_small_{true};  // written under lock_, read anywhere
  // What take_growth() takes. relaxed: nothing is ordered by it.
  std::atomic<std::size_t> growth_bytes_{0};
};

}  // namespace strata
