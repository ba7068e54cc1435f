#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/backoff.h"
#include "base/fatal.h"
#include "base/idle_tally.h"
#include "base/lock.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"
#include "span/page.h"
#include "span/page_place.h"
#include "span/page_shard.h"
#include "span/region_source.h"

namespace strata {

/// Allocates runs of 1 to 32 pages: spans of objects, and large objects. It owns the shards
/// (PageShard) and the source of their regions.
///
/// It begins with one shard. A thread that meets others there moves to another, once, so that
/// threads that work independently share no lock, no list and no region. Before the heap holds
/// more, idle pages of any shard are used; before a large heap grows, or a small one for anything
/// but spans of objects, any free pages are.
///
/// Where there may be more than two shards, a heap without a limit holds more so that threads do
/// not meet. A small one gives a thread clean pages of its own shard, or a first region there,
/// rather than have it wait for another thread. A large one gives blocks pages of their own shard,
/// or new ones, once its threads have often got pages of others, and while few pages are idle.
///
/// Decommitting follows demand, not the age of single pages. The least number of idle pages during
/// an interval is what it did not need; that many are decommitted, the longest idle first. A burst
/// that comes back within the interval finds its memory still there.
///
/// Always: used, free and kept pages of all shards are 32 * regions together (check_invariants).
/// \threads  Any number at once; a lock for each shard, never held during a system call on the free
///           path.
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
      : source_(map, metadata, limit, pages, number),
        first_(source_, tally_, 0),
        shards_{&first_} {}
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  /// Sets where regions are placed from now on, and how they are backed. `first_region` is a
  /// multiple of kRegionBytes; the search goes upwards from there.
  /// \param most_chunk_bytes  how much is mapped at a time, at least one region
  /// \param seed  decides the order in which a chunk's regions come into use; 0: upwards
  void configure(std::uintptr_t first_region, HugePages huge_pages,
                 std::size_t most_chunk_bytes = SIZE_MAX, std::uint64_t seed = 0) noexcept {
    source_.configure(first_region, huge_pages, most_chunk_bytes, seed);
  }
  /// Sets how many shards there may be, at least one. Call before there is a second thread.
  void set_most_shards(unsigned most) noexcept;

  using Pages = PageRequest::Pages;
  /// \param alignment_pages  a power of two up to kPagesPerRegion: the start is a multiple of it.
  /// \returns  A span of that many pages, of class 0 and in no list; nullptr if the kernel or the
  ///           limit refuses the memory.
  /// \cost     Constant; system calls only when a new chunk of regions is mapped.
  Span* allocate(unsigned page_count, unsigned alignment_pages, Pages which,
                 PagePlace& place) noexcept;
  Span* allocate(unsigned page_count, unsigned alignment_pages = 1,
                 Pages which = Pages::kAny) noexcept {
    PagePlace first(0);
    return allocate(page_count, alignment_pages, which, first);
  }

  /// Allocates a span that is likely to grow: of idle pages, with room for several times as many.
  /// If the span before it may grow, too, each gets half of the room. Uses clean pages only where
  /// another thread holds the idle ones, as above.
  /// \returns  nullptr if there is no run that long that no other thread holds
  Span* allocate_to_grow(unsigned page_count, PagePlace& place) noexcept;

  /// Takes back a span; the caller has cleared its class in the page map.
  /// \param is_clean  its pages went back to the kernel and do not count as held
  /// \param was  kIdle: the next decommit_unneeded() counts its pages as unneeded, like those that
  ///             were idle since the last one
  /// \cost  constant
  void deallocate(Span& span, bool is_clean = false, Was was = Was::kInUse) noexcept {
    shard_of(source_.region_of(span)).deallocate(span, is_clean, was);
  }
  /// Takes back a span that stays whole, as a kept span.
  /// \pre      it is large, and was in use when the caller looked
  /// \returns  nullptr; or the span, if another thread has given it back meanwhile
  /// \cost     less: nothing is merged
  const Span* keep(Region& region, Span& span) noexcept {
    return shard_of(region).keep(region, span);
  }
  /// The place's shard, if it seems to keep a span of so many pages: a hint, read without the lock.
  /// \returns  nullptr if none is
  PageShard* keeper_of(unsigned page_count, const PagePlace& place) noexcept {
    PageShard& own = place.shard() < shard_count() ? *shards_[place.shard()] : first_;
    return own.has_kept(page_count) ? &own : nullptr;
  }
  /// Takes a kept span of so many pages.
  /// \returns  nullptr if there is none any more
  Span* allocate_kept(PageShard& keeper, unsigned page_count, PagePlace& place) noexcept {
    Span* const span = keeper.allocate_kept(page_count, place);
    if (place.has_met_enough()) [[unlikely]]
      move_on(place);
    return span;
  }

  /// By how many bytes the memory held for allocations grew since the last call. Each byte is
  /// reported to one caller.
  /// \cost  a load where it is nothing
  std::size_t take_growth() noexcept { return source_.take_growth(); }
  /// The same, without taking it.
  std::size_t growth_bytes() const noexcept { return source_.growth_bytes(); }
  /// Counts that so many more bytes of a span in use are held.
  void count_growth(std::size_t bytes) noexcept { source_.count_growth(bytes); }

  /// Called before a part of the span is decommitted. Small pages back its region from now on,
  /// until all of it has been decommitted: otherwise the kernel would make huge pages of it again
  /// some minutes later, and fill the decommitted part.
  /// \cost  a system call for the first such span of a region
  void split_region_of(const Span& span) noexcept {
    Region& region = source_.region_of(span);
    if (region.is_huge) shard_of(region).split(region);
  }

  /// Lengthens or shortens a span at its end, in place.
  /// \returns  False, with the span unchanged, if the pages after it are in use or the limit
  ///           forbids more.
  bool resize(Span& span, unsigned page_count) noexcept {
    STRATA_DCHECK(page_count >= 1);
    return span.first_page + page_count <= kPagesPerRegion &&
           shard_of(source_.region_of(span)).resize(span, page_count);
  }

  /// Notes whether a large span is kept by a block that needs no page any more. A block that grew
  /// again on its page may be; of the others, a few of each shard at a time.
  /// \returns  False, with nothing changed, if it may not be.
  /// \cost     no lock
  bool try_set_short(Span& span, bool is_short) noexcept {
    if (!span.has_grown_again) {
      PageShard& shard = shard_of(source_.region_of(span));
      if (is_short && !shard.begin_short_stay()) return false;
      if (!is_short) shard.end_short_stay();
      span.has_grown_again = !is_short;
    }
    span.is_short = is_short;
    return true;
  }

  /// Calls visit(const Span&) for each span in use.
  /// \cost  a visit to every page, under the lock of each shard
  template <typename Visit>
  void for_each_span(Visit visit) noexcept {
    for_each_shard([&](PageShard& shard) { shard.for_each_span(visit); });
  }

  /// Decommits up to `max_pages` idle pages, the longest idle of each shard first.
  ///   kAny       of any region
  ///   kNotWhole  not where a huge page would have to be split
  /// \returns  How many.
  /// \cost     one system call per region, outside the lock; one per huge page that is split, some
  ///           of them under it
  using From = PageShard::From;
  std::size_t decommit(std::size_t max_pages, From from = From::kAny) noexcept;

  /// Decommits the idle pages that were not needed since the last call.
  /// \returns  How many.
  std::size_t decommit_unneeded() noexcept;

  /// Unmaps free regions, begun or not, until so many bytes of addresses are gone: the kernel, or
  /// the program's page source, refuses a huge block although the heap holds addresses that it does
  /// not use. Skips it if it was in vain shortly before for a request no longer than this one,
  /// unless as much has become free meanwhile as is requested.
  /// \param requested  how long the refused block is, if longer
  /// \returns  how many bytes
  /// \cost     a system call per region, under the lock of its shard
  std::size_t unmap(std::size_t max_bytes, std::size_t requested = kRegionBytes) noexcept;
  /// Called when a request is refused for good: what was unmapped for it was unmapped in vain.
  void note_refusal(std::size_t bytes) noexcept;

  /// Whether the region is this heap's: several heaps may share a page map.
  bool owns(const Region& region) const noexcept { return region.owner == number(); }
  constexpr HeapNumber number() const noexcept { return source_.number(); }

  /// Calls `free(Span&)`, which deallocates the span, for every span.
  /// \threads  no other thread uses the heap at the same time
  template <typename Free>
  void free_each_span(Free&& free) noexcept {
    for_each_shard([&](PageShard& shard) { shard.free_each_span(free); });
  }

  /// Unmaps every region, whatever is in it. The heap can be used again. The caller subtracts from
  /// the limit what the regions held: only spans know their holes.
  /// \pre   no region is owned by anything else: map_aligned() of the source gives regions that
  ///        unmap() takes one by one
  /// \threads  no other thread uses the heap at the same time
  /// \cost  A system call for each region.
  void discard() noexcept {
    for_each_shard([](PageShard& shard) { shard.discard(); });
    source_.discard();
  }

  /// Idle pages now: a hint, read without a lock.
  /// \cost  here and in the next: a load per shard
  std::size_t idle_pages() const noexcept {
    return sum_of([](const PageShard& shard) { return shard.idle_pages(); });
  }
  /// An upper bound of the bytes of idle pages, from what the shards have reported.
  /// \cost  a load
  std::size_t most_idle_bytes() const noexcept { return static_cast<std::size_t>(tally_.said()); }
  /// Makes most_idle_bytes() exact, until enough has changed again.
  /// \cost  a lock per shard
  void settle_idle() noexcept {
    for_each_shard([](PageShard& shard) { shard.tell_tally(); });
  }
  /// Pages in spans now: a hint, read without a lock.
  /// \cost  a load per shard, of a line that each of its allocations writes
  std::size_t used_pages() const noexcept {
    return sum_of([](const PageShard& shard) { return shard.used_pages(); });
  }

  bool has_one_shard() const noexcept { return shard_count() == 1; }

  /// Whether no region asks for huge pages or would if it began now: a hint, read without the lock.
  /// Then untouched parts of clean pages take no memory.
  bool is_small() const noexcept { return source_.is_small(); }

  /// What this heap and its users hold together, and the limit of it.
  constexpr MemoryLimit& limit() noexcept { return source_.limit(); }
  const MemoryLimit& limit() const noexcept { return source_.limit(); }

  Statistics statistics() noexcept;
  /// How often a thread waited for another.
  std::size_t waits() noexcept;
  // Not analysed: it takes the locks of all shards.
  void check_invariants() noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS;
  void hold_locks_for_fork() noexcept;

 private:
  // Chosen: up to so many threads, as many as there are processors, share nothing.
  static constexpr unsigned kMostShards = 16;
  // Chosen: two threads at once seldom wait for each other, and the heap is smaller if they do.
  static constexpr unsigned kFewShards = 2;
  // Chosen: how much threads that replace blocks of 0.1 to 1 MB need idle, each for itself. With a
  // fourth, 16 of them take 1.6 times as long.
  static constexpr std::size_t kMostIdleShare = 2;

  unsigned shard_count() const noexcept { return count_.load(std::memory_order_acquire); }
  template <typename Function>
  void for_each_shard(Function function) const noexcept {
    const unsigned count = shard_count();
    for (unsigned i = 0; i < count; ++i) function(*shards_[i]);
  }
  template <typename Function>
  std::size_t sum_of(Function function) const noexcept {
    std::size_t sum = 0;
    for_each_shard([&](const PageShard& shard) { sum += function(shard); });
    return sum;
  }
  PageShard& shard_for(const PagePlace& place) noexcept {
    return place.shard() < shard_count() ? *shards_[place.shard()] : make_shard_for(place);
  }
  PageShard& shard_of(const Region& region) noexcept {
    return *shards_[region.shard.load(std::memory_order_relaxed)];
  }
  PageShard& make_shard_for(const PagePlace& place) noexcept;
  /// Whether the heap may hold more than it needs to keep threads from meeting.
  bool keeps_apart() const noexcept { return most_ > kFewShards && !limit().is_any(); }
  /// What to do about a shard whose lock another thread holds.
  enum class Busy : bool { kWaitedFor, kPassedBy };
  /// A small heap passes busy shards by: the part of a region that it does not touch takes no
  /// memory.
  Busy busy_others() const noexcept {
    return keeps_apart() && is_small() ? Busy::kPassedBy : Busy::kWaitedFor;
  }
  /// Whether visits to other shards count, and earn clean pages.
  bool pays_for_pages() const noexcept { return keeps_apart() && !is_small(); }
  bool may_grow(const PageShard& own, unsigned page_count) const noexcept;
  PageShard::Taken take(const PageRequest& request, PagePlace& place) noexcept;
  bool merge_kept() noexcept;
  PageShard::Taken take_beside_own(const PageRequest& request, PageShard& own,
                                   PagePlace& place) noexcept;
  PageShard::Taken take_to_grow_beside_own(unsigned page_count, PageShard& own,
                                           PagePlace& place) noexcept;
  template <typename Take>
  PageShard::Taken take_from_others(PageShard& own, std::size_t idle, Busy busy,
                                    Take take) noexcept;
  void look_after(const PageShard::Taken& taken, PagePlace& place) noexcept;
  void move_on(PagePlace& place) noexcept;
  void touch_huge_page(const Span& span) noexcept;
  std::size_t free_bytes() noexcept;

  RegionSource source_;
  IdleTally tally_;
  PageShard first_;
  // Held while a shard is made. count_ is read without it: release after the shard is complete,
  // acquire before it is used.
  Lock making_{LockRank::kPageHeap};
  std::atomic<unsigned> count_{1};
  PageShard* shards_[kMostShards];
  unsigned most_ = 1;  // written before there is a second thread
  // The shard that the next thread moves to. relaxed: two may move to one.
  std::atomic<unsigned> next_{1};
  // A program that goes on asking for what it cannot get would have all free regions unmapped each
  // time, and mapped again in between. How long unmap() took since the last refusal; when it was in
  // vain, for a request of how many bytes, and how much was free then. relaxed: hints.
  std::atomic<std::uint64_t> unmapping_ns_{0};
  Backoff unmapping_backoff_;
  std::atomic<std::size_t> vain_bytes_{0};
  std::atomic<std::size_t> vain_free_bytes_{0};
};

}  // namespace strata
