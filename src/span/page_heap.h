#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/memory_limit.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"
#include "span/fresh_regions.h"
#include "span/huge_page_policy.h"
#include "span/kept_spans.h"
#include "span/page.h"
#include "span/page_map.h"

namespace strata {

/// Allocates runs of 1 to 32 pages.
///
/// Pages of a region are bits of one word, so splitting and merging are arithmetic: a run that
/// comes back is merged by being set. Regions are listed by their longest free run; a request takes
/// the tightest list that fits, so that full regions stay full and empty ones become whole again,
/// to be backed by huge pages or decommitted. Idle pages (free, but holding memory) are used before
/// clean ones.
///
/// What was freed as one block is kept: it stays a run of its own for the next request of as many
/// pages. Its pages are idle like others, and any other request has all that is kept merged first.
///
/// Decommitting follows demand, not the age of single pages: the least number of idle pages that
/// was seen during an interval was not needed in it, and that many are decommitted, the longest
/// idle first. A burst that comes back within the interval finds its memory still there.
///
/// Always: used, free and kept pages are 32 * regions together, and idle_pages counts free & dirty
/// ones and those that are kept, which are of neither a span nor free_pages. Those on their way to
/// the kernel are used, but of no span (check_invariants).
/// \threads  Any number at once; one lock, never held during a system call on the free path.
class PageHeap {
 public:
  struct Statistics {
    std::size_t regions;
    std::size_t used_pages;
    std::size_t idle_pages;         ///< free and holding memory
    std::size_t decommitted_pages;  ///< since the start
    std::size_t huge_regions;
    std::size_t reserved_bytes;  ///< regions of the newest chunk that were not begun yet
  };

  constexpr PageHeap(PageMap& map, MetadataArena& metadata, MemoryLimit& limit,
                     os::PageSource& pages, HeapNumber number = 0) noexcept
      : map_(map), metadata_(metadata), pages_(pages), limit_(limit), number_(number) {}
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  /// Where regions are placed from now on, and how they are backed. `first_region` is a multiple of
  /// kRegionBytes; the search goes upwards from there.
  /// \param most_chunk_bytes  how much is mapped at a time, at least one region
  /// \param seed  decides in which order the regions of a chunk come into use; 0: upwards
  void configure(std::uintptr_t first_region, HugePages huge_pages,
                 std::size_t most_chunk_bytes = SIZE_MAX, std::uint64_t seed = 0) noexcept;

  /// \param alignment_pages  a power of two up to kPagesPerRegion: the start is a multiple of it.
  /// \returns  A span of that many pages, its class 0 and in no list; nullptr if the kernel or the
  ///           limit refuses the memory.
  /// \cost     Constant; system calls only when a new chunk of regions is mapped.
  enum class Pages : bool {
    kAny,
    kIdle,  ///< only pages that hold memory already, so that no more is held than before
  };
  /// Of the free run that is chosen, the pages at one end. Who takes spans at one end, while
  /// another thread takes them at the other, has neighbours of its own: where the heap grows, new
  /// pages come from regions that nobody took pages of at the other end.
  enum class End : bool { kLow, kHigh };
  Span* allocate(unsigned page_count, unsigned alignment_pages = 1, Pages which = Pages::kAny,
                 End end = End::kLow) noexcept;

  /// One that is likely to be made longer: of idle pages, with room for several times as many.
  /// Where the span before them may grow as well, each gets half of the room.
  /// \returns  nullptr if there is no run that long
  Span* allocate_to_grow(unsigned page_count) noexcept;

  /// Up to `count` such spans, of any pages, each aligned to a page.
  /// \returns  how many
  static constexpr std::size_t kMostAtOnce = 8;
  std::size_t allocate_several(unsigned page_count, Span** spans, std::size_t count,
                               End end = End::kLow) noexcept;

  /// Takes back a span; the caller has cleared its class in the page map.
  /// \param is_clean  its pages went back to the kernel, and are not counted as held
  /// \param was  kIdle: the next decommit_unneeded() takes its pages for as unneeded as those that
  ///             were idle since the last one
  /// \cost  constant
  void deallocate(Span& span, bool is_clean = false, Was was = Was::kInUse) noexcept;
  /// The same for a span that is kept.
  /// \pre      it is large, and was in use when the caller looked
  /// \returns  False if another thread has given it back meanwhile.
  /// \cost     less: nothing is merged
  bool keep(Region& region, Span& span) noexcept;
  /// Whether a span of so many pages is kept: a hint, read without the lock.
  // Not analysed: it reads an atomic member.
  bool has_kept(unsigned page_count) const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    return kept_.has(page_count);
  }
  /// A span of so many pages that was kept.
  /// \returns  nullptr if there is none
  Span* allocate_kept(unsigned page_count) noexcept;

  /// How much more was held for allocations since the last call, in bytes: for one of the callers.
  /// \cost  a load where it is nothing
  std::size_t take_growth() noexcept {
    if (growth_bytes_.load(std::memory_order_relaxed) == 0) return 0;
    return growth_bytes_.exchange(0, std::memory_order_relaxed);
  }

  /// The same, for one who only looks.
  std::size_t growth_bytes() const noexcept {
    return growth_bytes_.load(std::memory_order_relaxed);
  }
  /// Of a span in use so many bytes more are held.
  void count_growth(std::size_t bytes) noexcept {
    growth_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  /// A part of the span is about to be decommitted: small pages back its region from now on, until
  /// all of it was decommitted. The kernel would otherwise make huge pages of it again, some
  /// minutes later, and back the part with them.
  /// \cost  a system call for the first such span of a region
  void split_region_of(const Span& span) noexcept;

  /// Makes a span longer or shorter at its end, in place.
  /// \returns  False, and nothing changes, if the pages after it are in use or the limit forbids
  ///           more.
  bool resize(Span& span, unsigned page_count) noexcept;

  /// Calls visit(const Span&) for each span in use.
  /// \cost  a look at every page; the lock is held
  template <typename Visit>
  void for_each_span(Visit visit) noexcept {
    LockGuard guard(lock_);
    for (auto& list : by_run_) {
      for (Region* region = list.front(); region != nullptr; region = list.next(*region)) {
        for (unsigned page = 0; page < kPagesPerRegion; ++page) {
          if (region->head_of_page[page] == page) visit(region->spans[page]);
        }
      }
    }
  }

  /// Decommits up to `max_pages` idle pages, the longest idle first.
  ///   kAny       of any region
  ///   kNotWhole  not where a huge page would have to be split for it
  /// \returns  How many.
  /// \cost     one system call per region, outside the lock; one per huge page that is split, some
  ///           of them under it
  enum class From : bool { kAny, kNotWhole };
  std::size_t decommit(std::size_t max_pages, From from = From::kAny) noexcept;

  /// Decommits the idle pages that were not needed since the last call.
  /// \returns  How many.
  std::size_t decommit_unneeded() noexcept;

  /// Whether the region is this heap's: a page map may know those of several.
  bool owns(const Region& region) const noexcept { return region.owner == number_; }
  constexpr HeapNumber number() const noexcept { return number_; }

  /// Calls `free(Span&)` for every span, which deallocates it.
  /// \threads  no other thread uses the heap at the same time
  template <typename Free>
  void free_each_span(Free&& free) noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS;

  /// Unmaps every region, whatever is in it. It can be used again.
  /// \pre   no region is owned by anything else: map_aligned() of the source gives regions that
  ///        unmap() takes one by one
  /// \threads  no other thread uses the heap at the same time
  /// \cost  A system call for each region.
  void discard() noexcept;

  /// Idle pages now: a hint, read without the lock.
  std::size_t idle_pages() const noexcept { return idle_pages_.load(std::memory_order_relaxed); }

  /// Pages in spans now: a hint, read without the lock.
  std::size_t used_pages() const noexcept { return used_pages_.load(std::memory_order_relaxed); }

  /// Whether no region asks for huge pages, or would if it were to begin now: a hint, read without
  /// the lock. What is not touched of a page that was clean holds no memory then.
  bool is_small() const noexcept { return is_small_.load(std::memory_order_relaxed); }

  /// What this heap and its users hold together, and may hold.
  constexpr MemoryLimit& limit() noexcept { return limit_; }
  const MemoryLimit& limit() const noexcept { return limit_; }

  Statistics statistics() noexcept;
  void check_invariants() noexcept;
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  struct Taken {
    Span* span;
    bool awaits_touch;  ///< the first touch of it may back its region by a huge page
  };
  Taken take_span(Region& region, unsigned page_count, PageMask positions, End end) noexcept
      STRATA_REQUIRES(lock_);
  void merge_kept() noexcept STRATA_REQUIRES(lock_);
  void merge(const Span& kept) noexcept STRATA_REQUIRES(lock_);
  Region* take_region(unsigned run, End end) noexcept STRATA_REQUIRES(lock_);
  Region* take_idle_region(unsigned count, PageMask positions) noexcept STRATA_REQUIRES(lock_);
  Region* take_latest_idle_region(unsigned count, PageMask positions) noexcept
      STRATA_REQUIRES(lock_);
  Region* longest_idle(From from) noexcept STRATA_REQUIRES(lock_) {
    Region* region = idle_.back();
    if (from == From::kAny) return region;
    for (unsigned looks = 0; region != nullptr && region->is_backed_whole(); ++looks)
      region = looks != kLooks ? idle_.previous(*region) : nullptr;
    return region;
  }
  Region* grow() noexcept STRATA_REQUIRES(lock_);
  std::size_t next_chunk_regions() const noexcept STRATA_REQUIRES(lock_);
  bool choose_huge() noexcept STRATA_REQUIRES(lock_) {
    return huge_pages_.choose(regions_, limit_.is_above_soft());
  }
  void advise(char* start, std::size_t bytes, bool is_huge) noexcept;
  void touch_huge_page(const Span& span) noexcept;
  bool map_chunk() noexcept STRATA_REQUIRES(lock_);
  bool begin_chunk(char* start, std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  void list(Region& region) noexcept STRATA_REQUIRES(lock_);
  void unlist(Region& region) noexcept STRATA_REQUIRES(lock_);
  void mark_used(Region& region, PageMask mask, PageMask touched) noexcept STRATA_REQUIRES(lock_);
  void mark_free(Region& region, PageMask mask) noexcept STRATA_REQUIRES(lock_);
  /// They are fewer now.
  void count_idle(std::size_t pages) noexcept STRATA_REQUIRES(lock_) {
    idle_pages_.store(pages, std::memory_order_relaxed);
    least_idle_ = std::min(least_idle_, pages);
  }
  void count_used(std::size_t pages) noexcept STRATA_REQUIRES(lock_) {
    used_pages_.store(pages, std::memory_order_relaxed);
  }
  static bool begin_split(Region& region) noexcept;
  PageMask decommit_pages(const Region& region, PageMask mask) noexcept;

  // Chosen: a chunk is one mapping; each is as large as the heap until then, up to 256 MiB. Where
  // address space is limited, a fourth of that: what the chunk does not use is of no use to others.
  static constexpr std::size_t kFirstChunkRegions = 8;
  static constexpr std::size_t kMaxChunkRegions = FreshRegions::kMost;
  static constexpr std::size_t kNarrowShare = 4;
  // Chosen: blocks that grow by half are moved a third as often as in the tightest run that fits
  // (docs/decisions/0003).
  static constexpr unsigned kRoomTimes = 4;
  // Chosen: whoever needs other pages has so many runs merged before, some 0.2 ms.
  static constexpr std::size_t kMostKept = 1024;
  // Chosen: so much is free between two chunks. The kernel makes one mapping of two that touch, and
  // waits for the page faults in the first one; threads that grow the heap wait with it.
  static constexpr std::size_t kBetweenChunks = kRegionBytes;
  // Chosen: others wait for so many looks at regions, below a microsecond.
  static constexpr unsigned kLooks = 16;

  Lock lock_{LockRank::kPageHeap};
  PageMap& map_;
  MetadataArena& metadata_;
  os::PageSource& pages_;
  MemoryLimit& limit_;  // what this heap's dirty pages count in
  const HeapNumber number_;

  std::uint64_t nonempty_ STRATA_GUARDED_BY(lock_) = 0;  // bit r: by_run_[r] has a region
  // By longest free run.
  IntrusiveList<Region, RunListTag> by_run_[kPagesPerRegion + 1] STRATA_GUARDED_BY(lock_);
  // Those with idle pages, the latest first.
  IntrusiveList<Region, DirtyListTag> idle_ STRATA_GUARDED_BY(lock_);
  KeptSpans kept_ STRATA_GUARDED_BY(lock_);
  std::uintptr_t next_address_ STRATA_GUARDED_BY(lock_) = 0;  // where the next chunk is tried
  FreshRegions fresh_ STRATA_GUARDED_BY(lock_);               // of the newest chunk
  bool is_chunk_huge_ STRATA_GUARDED_BY(lock_) = false;       // what was said of that chunk
  std::uint64_t seed_ STRATA_GUARDED_BY(lock_) = 0;
  HugePagePolicy huge_pages_ STRATA_GUARDED_BY(lock_);
  std::size_t most_chunk_regions_ STRATA_GUARDED_BY(lock_) = kMaxChunkRegions;
  // The last chunk: the next try is a short one.
  bool was_refused_ STRATA_GUARDED_BY(lock_) = false;
  std::size_t regions_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t huge_regions_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t decommitted_pages_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t leaving_pages_ STRATA_GUARDED_BY(lock_) = 0;  // on their way to the kernel
  std::size_t least_idle_ STRATA_GUARDED_BY(lock_) = 0;     // since the last decommit_unneeded()
  std::atomic<bool> is_small_{true};                        // written under lock_, read anywhere
  std::atomic<std::size_t> idle_pages_{0};                  // the same
  std::atomic<std::size_t> used_pages_{0};                  // the same
  // What take_growth() takes. relaxed: nothing is ordered by it.
  std::atomic<std::size_t> growth_bytes_{0};
};

template <typename Free>
void PageHeap::free_each_span(Free&& free) noexcept {
  for (unsigned run = 0; run < kPagesPerRegion; ++run) {
    // A region whose spans are given back moves to another list, after those looked at.
    for (Region* region = by_run_[run].front(); region != nullptr;) {
      Region* const next = by_run_[run].next(*region);
      for (unsigned page = 0; page < kPagesPerRegion; ++page) {
        if (region->head_of_page[page] == page) free(region->spans[page]);
      }
      region = next;
    }
  }
}

}  // namespace strata
