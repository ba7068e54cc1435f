#pragma once

#include <strata/detail/cache_line.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/idle_tally.h"
#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/thread_annotations.h"
#include "span/kept_spans.h"
#include "span/page.h"
#include "span/page_place.h"
#include "span/region_source.h"

namespace strata {

struct PageRequest {
  enum class Pages : bool {
    kAny,
    kIdle,  ///< only pages of a shard that hold memory already, so that no more is held
  };

  unsigned page_count;
  unsigned alignment_pages = 1;  ///< a power of two up to kPagesPerRegion
  Pages pages = Pages::kAny;
};

/// Some of the regions of a page heap, for some of its threads. PageHeap owns the shards and calls
/// them.
///
/// Pages of a region are bits of one word, so splitting and merging are arithmetic: setting a
/// returned run's bits merges it. Regions are listed by their longest free run, and a request takes
/// the tightest list that fits: full regions stay full, and empty ones become whole again, to be
/// backed by huge pages or decommitted. Idle pages (free, but holding memory) are used before clean
/// ones.
///
/// A freed block is kept: it stays a run of its own for the next request of as many pages. Its
/// pages are idle like others. Any other request first has all kept runs merged, unless threads
/// have met and the runs are few.
///
/// Always: idle_pages counts free & dirty pages and kept ones, which are neither in a span nor in
/// free_pages. Pages on their way to the kernel count as used, but are in no span
/// (check_invariants).
/// \threads  Any number at once; one lock, never held during a system call on the free path. It has
///           cache lines of its own.
class alignas(detail::kCacheLineBytes) PageShard {
 public:
  constexpr PageShard(RegionSource& source, IdleTally& tally, unsigned index) noexcept
      : source_(source),
        tally_(tally),
        index_(static_cast<std::uint8_t>(index)),
        has_others_(index != 0) {}
  PageShard(const PageShard&) = delete;
  PageShard& operator=(const PageShard&) = delete;

  struct Taken {
    Span* span = nullptr;
    bool is_refused = false;    ///< there are such pages, but the limit forbids them
    bool was_given = false;     ///< the user shard was given a free region with such pages
    bool was_busy = false;      ///< shards that may have such pages were busy
    bool awaits_touch = false;  ///< touching the span may back its region by a huge page

    bool is_settled() const noexcept { return span != nullptr || is_refused; }
  };
  /// How many new regions an allocation may add to its shard.
  enum class Growth : std::uint8_t {
    kNone,
    kFirst,  ///< one, if it has got none so far
    kAny,
  };
  /// Allocates a span. If the user is another shard, gives it a whole free region instead, unless a
  /// thread holds that shard.
  /// \param user    the shard that the span is for
  /// \param growth  used if this shard is the user
  /// \param asks    the thread's place, to be compared with that of the last to ask; nullptr: none
  Taken allocate(const PageRequest& request, PageShard& user, Growth growth,
                 PagePlace* asks) noexcept;
  /// The length of the run for a span of so many pages that is likely to grow.
  static constexpr unsigned room_for(unsigned page_count) noexcept {
    return std::min(kRoomTimes * page_count, kPagesPerRegion);
  }
  /// Allocates a span in the middle of such a run, as PageHeap does. With kAny, a first region may
  /// be added for it.
  Taken allocate_to_grow(unsigned page_count, PageRequest::Pages pages, PageShard& user,
                         PagePlace* asks) noexcept;
  /// \returns  nullptr if there is none
  Span* allocate_kept(unsigned page_count, PagePlace& asks) noexcept;
  // Not analysed: it reads an atomic member.
  bool has_kept(unsigned page_count) const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    return kept_.has(page_count);
  }
  /// Counts a block of its threads that got pages which stay another shard's.
  void note_visit() noexcept {
    const std::uint32_t now = visits();
    if (now < kPagesPerRegion * kVisitsPerPage)  // others read the line
      visits_.store(now + 1, std::memory_order_relaxed);
  }
  /// Whether its threads got pages of others so often that so many pages of its own are worth it.
  bool can_pay_for(unsigned page_count) const noexcept {
    return visits() >= page_count * kVisitsPerPage;
  }
  /// Deducts the visits that pay for so many pages.
  void pay_for(unsigned page_count) noexcept {
    const std::uint32_t now = visits();
    visits_.store(now - std::min(now, page_count * kVisitsPerPage), std::memory_order_relaxed);
  }
  /// Counts a block that shrank and keeps a page that it needs no more, until it grows again or is
  /// freed.
  /// \returns  false, with nothing counted, if there are as many as may be
  bool begin_short_stay() noexcept {
    if (short_stays_.fetch_add(1, std::memory_order_relaxed) < kMostShortStays) return true;
    end_short_stay();
    return false;
  }
  void end_short_stay() noexcept { short_stays_.fetch_sub(1, std::memory_order_relaxed); }
  unsigned index() const noexcept { return index_; }
  void note_others() noexcept {
    LockGuard guard(lock_);
    has_others_ = true;
  }
  /// Whether a thread seems to hold its lock: a hint.
  bool is_busy() const noexcept { return lock_.is_held(); }

  /// As PageHeap's, for a span of one of its regions.
  void deallocate(Span& span, bool is_clean, Was was) noexcept;
  const Span* keep(Region& region, Span& span) noexcept;
  bool resize(Span& span, unsigned page_count) noexcept;
  void split(Region& region) noexcept;
  /// Records that somebody has touched the region.
  void note_touch(Region& region) noexcept {
    LockGuard guard(lock_);
    region.awaits_touch = false;
  }

  template <typename Visit>
  void for_each_span(Visit visit) noexcept {
    LockGuard guard(lock_);
    for (auto& list : by_run_) {
      for (Region& region : list) {
        for (unsigned page = 0; page < kPagesPerRegion; ++page) {
          if (region.head_of_page[page] == page) visit(region.spans[page]);
        }
      }
    }
  }

  enum class From : bool { kAny, kNotWhole };
  std::size_t decommit(std::size_t max_pages, From from) noexcept;
  std::size_t decommit_unneeded() noexcept;
  bool merge_kept_runs() noexcept;
  std::size_t unmap(std::size_t max_bytes) noexcept;

  /// As PageHeap's: no other thread uses the heap at the same time.
  template <typename Free>
  void free_each_span(Free& free) noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS;
  void discard() noexcept;

  /// Idle and used pages now: hints, read without the lock.
  std::size_t idle_pages() const noexcept { return idle_pages_.load(std::memory_order_relaxed); }
  std::size_t used_pages() const noexcept { return used_pages_.load(std::memory_order_relaxed); }
  void tell_tally() noexcept {
    LockGuard guard(lock_);
    tally_.settle(idle_bytes(), said_idle_);
  }
  std::size_t decommitted_pages() noexcept {
    LockGuard guard(lock_);
    return decommitted_pages_;
  }

  /// \returns  how many regions it has
  /// \pre      its lock is held
  std::size_t check_invariants() noexcept STRATA_REQUIRES(lock_);
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  Taken take_span(Region& region, unsigned page_count, PageMask positions) noexcept
      STRATA_REQUIRES(lock_);
  Region* find_region(const PageRequest& request, PageMask positions) noexcept
      STRATA_REQUIRES(lock_);
  Region* find_idle_region(unsigned count, PageMask positions) noexcept STRATA_REQUIRES(lock_);
  Region* find_latest_idle_region(unsigned count, PageMask positions) noexcept
      STRATA_REQUIRES(lock_);
  Region* grow() noexcept STRATA_REQUIRES(lock_);
  /// Forgets what is noted of the block whose pages these were.
  void forget_stay(Span& span) noexcept {
    if (span.is_short && !span.has_grown_again) end_short_stay();
    span.is_short = span.has_grown_again = false;
  }
  bool give_away(Region& region, PageShard& other) noexcept STRATA_REQUIRES(lock_);
  bool try_adopt(Region& region) noexcept;
  void note(PagePlace& asks) noexcept STRATA_REQUIRES(lock_) {
    if (last_ == &asks || !asks.may_move()) [[likely]]
      return;
    if (last_ != nullptr) asks.note_met();
    last_ = &asks;
  }
  bool keeps_runs_whole() const noexcept STRATA_REQUIRES(lock_);
  void merge_kept() noexcept STRATA_REQUIRES(lock_);
  void merge(const Span& kept) noexcept STRATA_REQUIRES(lock_);
  Region* longest_idle(From from) noexcept STRATA_REQUIRES(lock_) {
    Region* region = idle_.back();
    if (from == From::kAny) return region;
    for (unsigned looks = 0; region != nullptr && region->is_backed_whole(); ++looks)
      region = looks != kLooks ? idle_.previous(*region) : nullptr;
    return region;
  }
  void list(Region& region) noexcept STRATA_REQUIRES(lock_);
  void unlist(Region& region) noexcept STRATA_REQUIRES(lock_);
  void mark_used(Region& region, PageMask mask, PageMask touched) noexcept STRATA_REQUIRES(lock_);
  void mark_free(Region& region, PageMask mask) noexcept STRATA_REQUIRES(lock_);
  std::uint32_t visits() const noexcept { return visits_.load(std::memory_order_relaxed); }
  std::ptrdiff_t idle_bytes() const noexcept {
    return static_cast<std::ptrdiff_t>(idle_pages() * kPageBytes);
  }
  /// Sets the idle pages, which have become more.
  void count_more_idle(std::size_t pages) noexcept STRATA_REQUIRES(lock_) {
    idle_pages_.store(pages, std::memory_order_relaxed);
    tally_.tell(idle_bytes(), said_idle_, kPageBytes);
  }
  /// Sets the idle pages, which have become fewer.
  void count_idle(std::size_t pages) noexcept STRATA_REQUIRES(lock_) {
    idle_pages_.store(pages, std::memory_order_relaxed);
    least_idle_ = std::min(least_idle_, pages);
  }
  void count_used(std::size_t pages) noexcept STRATA_REQUIRES(lock_) {
    used_pages_.store(pages, std::memory_order_relaxed);
  }
  void begin_use(Region& region) noexcept;
  bool try_hold(const Region& region, PageMask touched) noexcept;
  static bool begin_split(Region& region) noexcept;

  // Chosen: with so much room, blocks that grow by half move a third as often as in the tightest
  // run that fits (docs/decisions/0003).
  static constexpr unsigned kRoomTimes = 4;
  // Chosen: from 4 to 32, threads that go on meeting are equally fast; with 32 they take the least
  // memory.
  static constexpr std::uint32_t kVisitsPerPage = 32;
  // Chosen: a request for other pages first merges up to so many runs, some 0.2 ms.
  static constexpr std::size_t kMostKept = 1024;
  // Chosen: which part of the used pages may stay kept while other pages are requested
  // (docs/decisions/0019).
  static constexpr std::size_t kWholeShare = 64;
  // Chosen: so many blocks at a time may keep a page in vain, 60 KiB each at the most. Those that
  // grew again once are not counted any more (docs/decisions/0003).
  static constexpr std::uint32_t kMostShortStays = 4;
  // Chosen: other threads wait while so many regions are examined, below a microsecond.
  static constexpr unsigned kLooks = 16;

  Lock lock_{LockRank::kPageHeap};
  RegionSource& source_;
  IdleTally& tally_;
  const std::uint8_t index_;

  std::uint64_t nonempty_ STRATA_GUARDED_BY(lock_) = 0;  // bit r: by_run_[r] has a region
  // By longest free run.
  IntrusiveList<Region, RunListTag> by_run_[kPagesPerRegion + 1] STRATA_GUARDED_BY(lock_);
  // Regions with idle pages, the latest first.
  IntrusiveList<Region, DirtyListTag> idle_ STRATA_GUARDED_BY(lock_);
  KeptSpans kept_ STRATA_GUARDED_BY(lock_);
  const PagePlace* last_ STRATA_GUARDED_BY(lock_) =
      nullptr;  // the last to ask for pages, of those that may move
  bool has_grown_ STRATA_GUARDED_BY(lock_) = false;
  bool has_others_ STRATA_GUARDED_BY(lock_);  // threads have met, or it would be the only one
  std::size_t decommitted_pages_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t leaving_pages_ STRATA_GUARDED_BY(lock_) = 0;  // on their way to the kernel
  std::size_t least_idle_ STRATA_GUARDED_BY(lock_) = 0;     // since the last decommit_unneeded()
  std::ptrdiff_t said_idle_ STRATA_GUARDED_BY(lock_) = 0;   // bytes, in the tally
  std::atomic<std::size_t> idle_pages_{0};                  // written under lock_, read anywhere
  std::atomic<std::size_t> used_pages_{0};                  // the same
  // Visits not yet deducted. relaxed, read and written without the lock: one more or less does no
  // harm.
  std::atomic<std::uint32_t> visits_{0};
  // Blocks that shrank, keep a page, and did not grow again so far. relaxed: a count.
  std::atomic<std::uint32_t> short_stays_{0};
};

template <typename Free>
void PageShard::free_each_span(Free& free) noexcept {
  for (unsigned run = 0; run < kPagesPerRegion; ++run) {
    // A region whose spans are given back moves to another list, behind the current one.
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
