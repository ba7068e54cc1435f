#include "span/page_shard.h"

#include <algorithm>
#include <bit>

#include "base/fatal.h"

namespace strata {
namespace {

/// The positions at which `count` set bits in a row begin.
PageMask run_starts(PageMask mask, unsigned count) noexcept {
  unsigned covered = 1;
  while (covered < count && mask != 0) {
    const unsigned step = std::min(covered, count - covered);
    mask &= mask >> step;
    covered += step;
  }
  return mask;
}

unsigned longest_run(PageMask mask) noexcept {
  if (mask == 0) return 0;
  // Where runs of 1, 2, 4, … begin, as long as there are any; then each length once more, downward.
  PageMask starts[std::bit_width(kPagesPerRegion)] = {mask};
  unsigned power = 0;
  while (const PageMask twice = starts[power] & starts[power] >> (1u << power)) {
    starts[++power] = twice;
    if (1u << power == kPagesPerRegion) return kPagesPerRegion;
  }
  unsigned length = 1u << power;
  for (PageMask longest = starts[power]; power-- != 0;) {
    const PageMask longer = longest & starts[power] >> length;
    if (longer == 0) continue;
    longest = longer;
    length += 1u << power;
  }
  return length;
}

/// Bits whose index is a multiple of `alignment`, a power of two.
PageMask aligned_positions(unsigned alignment) noexcept {
  PageMask mask = 1;
  for (unsigned step = alignment; step < kPagesPerRegion; step *= 2) mask |= mask << step;
  return mask;
}

/// The pages that will hold memory once the program touches `mask`.
PageMask pages_touched_with(const Region& region, PageMask mask) noexcept {
  return region.is_backed_whole() ? ~PageMask{0} : mask;
}

}  // namespace

PageShard::Taken PageShard::allocate(const PageRequest& request, PageShard& user, Growth growth,
                                     PagePlace* asks) noexcept {
  // A heap that grows asks for idle pages first: where there are none, without the lock.
  if (request.pages == PageRequest::Pages::kIdle && idle_pages() < request.page_count) return {};
  const PageMask positions = aligned_positions(request.alignment_pages);
  LockGuard guard(lock_);
  if (asks != nullptr) note(*asks);
  if (!kept_.is_empty() && !keeps_runs_whole()) merge_kept();
  Region* region = find_region(request, positions);
  const bool may_grow = growth == Growth::kAny || (growth == Growth::kFirst && !has_grown_);
  if (region == nullptr && may_grow && request.pages == PageRequest::Pages::kAny) region = grow();
  if (region == nullptr) return {};
  if (&user != this && region->is_free() && give_away(*region, user)) return {.was_given = true};
  return take_span(*region, request.page_count, positions);
}

PageShard::Taken PageShard::allocate_to_grow(unsigned page_count, PageRequest::Pages pages,
                                             PageShard& user, PagePlace* asks) noexcept {
  const bool is_any = pages == PageRequest::Pages::kAny;
  const unsigned room = room_for(page_count);
  if (!is_any && idle_pages() < room) return {};
  LockGuard guard(lock_);
  if (asks != nullptr) note(*asks);
  const PageRequest request{room, 1, pages};
  Region* region = find_region(request, ~PageMask{0});
  if (region == nullptr && !kept_.is_empty()) {
    merge_kept();
    region = find_region(request, ~PageMask{0});
  }
  if (region == nullptr && is_any && !has_grown_) region = grow();
  if (region == nullptr) return {};
  if (&user != this && region->is_free() && give_away(*region, user)) return {.was_given = true};
  const PageMask free = is_any ? region->free_pages : region->idle_pages();
  const auto first = static_cast<unsigned>(std::countr_zero(run_starts(free, room)));
  const auto length = static_cast<unsigned>(std::countr_one(free >> first));
  const bool is_shared = first != 0 && region->head_of_page[first - 1] != Region::kNoSpan &&
                         source_.map().class_of(region->start + (first - 1) * kPageBytes) == 0;
  const unsigned skipped = is_shared ? (length - page_count) / 2 : 0;
  return take_span(*region, page_count, PageMask{1} << (first + skipped));
}

/// Starts to use a region. If the hard limit leaves no room for a huge page, small ones may fit.
void PageShard::begin_use(Region& region) noexcept {
  if (source_.limit().has_room(kRegionBytes)) {
    source_.begin_use(region);
  } else if (begin_split(region)) {
    source_.advise_small(region);
  }
}

/// Counts those pages as held that are not yet. Fails if the limit forbids it.
bool PageShard::try_hold(const Region& region, PageMask touched) noexcept {
  const std::size_t growth = count_pages(touched & ~region.dirty_pages) * kPageBytes;
  if (!source_.limit().try_hold(growth)) return false;
  if (growth != 0) source_.count_growth(growth);
  return true;
}

/// Takes a span from an unlisted region, and lists the region.
/// \pre  it has a run that long that begins at one of `positions`
PageShard::Taken PageShard::take_span(Region& region, unsigned page_count,
                                      PageMask positions) noexcept {
  PageMask starts = run_starts(region.idle_pages(), page_count) & positions;
  if (starts == 0) starts = run_starts(region.free_pages, page_count) & positions;
  STRATA_DCHECK(starts != 0);
  const auto first = static_cast<unsigned>(std::countr_zero(starts));
  const PageMask mask = page_range(first, page_count);
  if (region.dirty_pages == 0) begin_use(region);
  const PageMask touched = pages_touched_with(region, mask);
  if (!try_hold(region, touched)) {
    list(region);
    return {.is_refused = true};
  }

  Span& span = region.spans[first];
  span.start = region.start + first * kPageBytes;
  span.free_bits = nullptr;
  span.records = nullptr;
  span.use = span_use(source_.number(), 0);
  span.size_class = 0;
  span.first_page = static_cast<std::uint8_t>(first);
  span.page_count = static_cast<std::uint8_t>(page_count);
  span.is_zero = (region.dirty_pages & mask) == 0;
  mark_used(region, mask, touched);
  region.set_heads(first, page_count, first);
  return {.span = &span, .awaits_touch = region.awaits_touch && region.is_backed_whole()};
}

Region* PageShard::grow() noexcept {
  // The first region of a shard beside others does not make the heap a large one.
  Region* const region = source_.make(index_ != 0 && !has_grown_);
  if (region == nullptr) return nullptr;
  has_grown_ = true;
  region->shard.store(index_, std::memory_order_relaxed);
  return region;
}

/// Gives an unlisted free region to the other shard, unless another thread has that one's lock.
bool PageShard::give_away(Region& region, PageShard& other) noexcept {
  // From then on another thread may use it.
  const unsigned idle = count_pages(region.idle_pages());
  if (!other.try_adopt(region)) return false;
  count_idle(idle_pages() - idle);
  return true;
}

/// \threads  under the lock of the shard that it was in
bool PageShard::try_adopt(Region& region) noexcept {
  if (!lock_.try_lock()) return false;
  region.shard.store(index_, std::memory_order_relaxed);
  count_more_idle(idle_pages() + count_pages(region.idle_pages()));
  list(region);
  lock_.unlock();
  return true;
}

void PageShard::deallocate(Span& span, bool is_clean, Was was) noexcept {
  LockGuard guard(lock_);
  Region& region = source_.region_of(span);
  STRATA_DCHECK(region.shard.load(std::memory_order_relaxed) == index_);
  forget_stay(span);
  const PageMask mask = page_range(span.first_page, span.page_count);
  region.set_heads(span.first_page, span.page_count, Region::kNoSpan);
  unlist(region);
  if (is_clean) {
    STRATA_DCHECK(region.is_split || !region.is_huge);
    region.dirty_pages &= ~mask;
  }
  const std::size_t idle_before = idle_pages();
  mark_free(region, mask);
  if (was == Was::kIdle) least_idle_ += idle_pages() - idle_before;
}

bool PageShard::resize(Span& span, unsigned page_count) noexcept {
  LockGuard guard(lock_);
  Region& region = source_.region_of(span);
  if (page_count > span.page_count) merge_kept();
  const PageMask now = page_range(span.first_page, span.page_count);
  const PageMask wanted = page_range(span.first_page, page_count);
  const PageMask more = wanted & ~now;
  const PageMask less = now & ~wanted;
  if ((region.free_pages & more) != more) return false;
  const PageMask touched = more != 0 ? pages_touched_with(region, more) : 0;
  if (!try_hold(region, touched)) return false;
  unlist(region);
  if (more != 0) {
    mark_used(region, more, touched);
    region.set_heads(span.first_page, page_count, span.first_page);
  } else if (less != 0) {
    region.set_heads(span.first_page + page_count, span.page_count - page_count, Region::kNoSpan);
    mark_free(region, less);
  } else {
    list(region);
  }
  span.page_count = static_cast<std::uint8_t>(page_count);
  return true;
}

Span* PageShard::allocate_kept(unsigned page_count, PagePlace& asks) noexcept {
  LockGuard guard(lock_);
  note(asks);
  Span* const span = kept_.take(page_count);
  if (span == nullptr) return nullptr;
  span->is_zero = false;
  source_.region_of(*span).set_heads(span->first_page, page_count, span->first_page);
  count_idle(idle_pages() - page_count);
  count_used(used_pages() + page_count);
  return span;
}

const Span* PageShard::keep(Region& region, Span& span) noexcept {
  LockGuard guard(lock_);
  // Meanwhile another thread may have freed it, and its pages may be those of a class by now, or
  // its region another shard's.
  if (region.shard.load(std::memory_order_relaxed) != index_ ||
      region.head_of_page[span.first_page] != span.first_page || span.size_class != 0)
    return &span;
  forget_stay(span);
  const unsigned page_count = span.page_count;
  if (kept_.count() == kMostKept) [[unlikely]]
    merge(*kept_.take_any());
  kept_.add(span);
  region.set_heads(span.first_page, page_count, Region::kNoSpan);
  count_more_idle(idle_pages() + page_count);
  count_used(used_pages() - page_count);
  return nullptr;
}

/// Whether kept runs stay whole while other pages are requested or pages go back in exchange for
/// growth: if they are those of blocks that threads replace all the time.
[[gnu::cold, gnu::noinline]] bool PageShard::keeps_runs_whole() const noexcept {
  return has_others_ && kept_.count() <= used_pages() / kWholeShare &&
         kept_.pages() <= used_pages() / kWholeShare;
}

bool PageShard::merge_kept_runs() noexcept {
  LockGuard guard(lock_);
  const bool has_kept = !kept_.is_empty();
  merge_kept();
  return has_kept;
}

/// Merges all kept runs into their regions' free pages; they counted as idle already.
[[gnu::noinline]] void PageShard::merge_kept() noexcept {
  while (const Span* const span = kept_.take_any()) merge(*span);
}

[[gnu::noinline]] void PageShard::merge(const Span& kept) noexcept {
  Region& region = source_.region_of(kept);
  unlist(region);
  region.free_pages |= page_range(kept.first_page, kept.page_count);
  list(region);
}

/// Finds the tightest region with such pages, and unlists it.
Region* PageShard::find_region(const PageRequest& request, PageMask positions) noexcept {
  if (request.pages == PageRequest::Pages::kIdle)
    return find_idle_region(request.page_count, positions);
  // A run this long holds an aligned one wherever it begins; a whole region is aligned itself.
  const unsigned run = std::min(request.page_count + request.alignment_pages - 1, kPagesPerRegion);
  const std::uint64_t runs = nonempty_ >> run << run;
  if (runs == 0) return nullptr;
  Region* const region = by_run_[std::countr_zero(runs)].front();
  unlist(*region);
  return region;
}

/// Finds a region with a run of `count` idle pages that begins at one of `positions`, and unlists
/// it: the one with the tightest free run, so that others become whole.
Region* PageShard::find_idle_region(unsigned count, PageMask positions) noexcept {
  unsigned looks = 0;
  for (std::uint64_t runs = nonempty_ >> count << count; runs != 0; runs &= runs - 1) {
    auto& regions = by_run_[std::countr_zero(runs)];
    // Those with idle pages come first. The free run may be of clean ones all the same.
    for (Region& region : regions) {
      if (region.idle_pages() == 0) break;
      if ((run_starts(region.idle_pages(), count) & positions) != 0) {
        unlist(region);
        return &region;
      }
      if (++looks == kLooks) return find_latest_idle_region(count, positions);
    }
  }
  return nullptr;
}

/// The same, but one of the latest regions: pages were just freed there.
/// \pre  at least kLooks regions have idle pages
Region* PageShard::find_latest_idle_region(unsigned count, PageMask positions) noexcept {
  Region* region = idle_.front();
  for (unsigned looks = 0; looks < kLooks; ++looks, region = idle_.next(*region)) {
    if ((run_starts(region->idle_pages(), count) & positions) != 0) {
      unlist(*region);
      return region;
    }
  }
  return nullptr;
}

void PageShard::list(Region& region) noexcept {
  const unsigned run = longest_run(region.free_pages);
  region.longest_free_run = static_cast<std::uint8_t>(run);
  // What holds memory already is used first.
  if (region.idle_pages() != 0) {
    by_run_[run].push_front(region);
  } else {
    by_run_[run].push_back(region);
  }
  if (run != 0) nonempty_ |= std::uint64_t{1} << run;
  if (region.idle_pages() != 0) idle_.push_front(region);
}

void PageShard::unlist(Region& region) noexcept {
  auto& list = by_run_[region.longest_free_run];
  list.remove(region);
  if (list.is_empty()) nonempty_ &= ~(std::uint64_t{1} << region.longest_free_run);
  if (static_cast<ListLink<DirtyListTag>&>(region).is_linked) idle_.remove(region);
}

/// Marks the free pages `mask` of an unlisted region as used and `touched`, used or not, as holding
/// memory, and lists the region.
void PageShard::mark_used(Region& region, PageMask mask, PageMask touched) noexcept {
  const unsigned idle_before = count_pages(region.idle_pages());
  region.free_pages &= ~mask;
  region.dirty_pages |= touched;
  count_idle(idle_pages() + count_pages(region.idle_pages()) - idle_before);
  count_used(used_pages() + count_pages(mask));
  list(region);
}

/// Marks used pages of an unlisted region as free, and lists the region.
void PageShard::mark_free(Region& region, PageMask mask) noexcept {
  const unsigned idle_before = count_pages(region.idle_pages());
  STRATA_DCHECK((region.free_pages & mask) == 0);
  region.free_pages |= mask;
  count_more_idle(idle_pages() + count_pages(region.idle_pages()) - idle_before);
  count_used(used_pages() - count_pages(mask));
  list(region);
}

void PageShard::discard() noexcept {
  LockGuard guard(lock_);
  merge_kept();
  for (auto& regions : by_run_) {
    while (Region* const region = regions.front()) {
      unlist(*region);
      source_.give_back(*region);
    }
  }
  has_grown_ = false;
  decommitted_pages_ = leaving_pages_ = least_idle_ = 0;
  idle_pages_.store(0, std::memory_order_relaxed);
  tally_.settle(0, said_idle_);
  used_pages_.store(0, std::memory_order_relaxed);
  visits_.store(0, std::memory_order_relaxed);
  short_stays_.store(0, std::memory_order_relaxed);
}

std::size_t PageShard::check_invariants() noexcept {
  std::size_t regions = 0;
  std::size_t used = 0;
  std::size_t idle = 0;
  std::size_t of_no_span = 0;
  kept_.check_invariants();
  for (unsigned run = 0; run <= kPagesPerRegion; ++run) {
    for (const Region& region : by_run_[run]) {
      ++regions;
      used += kPagesPerRegion - count_pages(region.free_pages);
      idle += count_pages(region.idle_pages());
      STRATA_INVARIANT(longest_run(region.free_pages) == run, "a region is in the wrong list");
      STRATA_INVARIANT(region.shard.load(std::memory_order_relaxed) == index_,
                       "a region is in the wrong shard");
      STRATA_INVARIANT(source_.map().region_of(region.start) == &region,
                       "the page map does not know a region");
      STRATA_INVARIANT(static_cast<const ListLink<DirtyListTag>&>(region).is_linked ==
                           (region.idle_pages() != 0),
                       "the idle list does not match a region's pages");
      for (unsigned page = 0; page < kPagesPerRegion;) {
        const std::uint8_t head = region.head_of_page[page];
        const bool is_free = (region.free_pages >> page & 1) != 0;
        const bool has_span = head != Region::kNoSpan;
        STRATA_INVARIANT(!is_free || !has_span, "a free page has a span");
        if (!is_free && !has_span) ++of_no_span;
        const unsigned length = has_span ? region.spans[page].page_count : 1;
        if (has_span) {
          STRATA_INVARIANT(head == page, "a span does not begin where its pages say");
          for (unsigned i = 1; i < length; ++i) {
            STRATA_INVARIANT(region.head_of_page[page + i] == page,
                             "a page of a span belongs to another");
          }
        }
        page += length;
      }
    }
    STRATA_INVARIANT(run == 0 || by_run_[run].is_empty() == ((nonempty_ >> run & 1) == 0),
                     "the summary of the region lists is wrong");
  }
  // As many pages are in no span as kept spans have, each of which has none of another one's, and
  // as are on their way to the kernel.
  std::size_t in_kept_spans = 0;
  kept_.for_each([&](const Span& span) {
    in_kept_spans += span.page_count;
    const Region& region = source_.region_of(span);
    const PageMask mask = page_range(span.first_page, span.page_count);
    STRATA_INVARIANT((region.free_pages & mask) == 0, "a kept page is free");
    STRATA_INVARIANT((region.dirty_pages & mask) == mask, "a kept page is clean");
    for (unsigned i = 0; i < span.page_count; ++i) {
      STRATA_INVARIANT(region.head_of_page[span.first_page + i] == Region::kNoSpan,
                       "a kept page has a span");
    }
  });
  STRATA_INVARIANT(of_no_span == in_kept_spans + leaving_pages_, "a used page has no span");
  used -= in_kept_spans;
  idle += in_kept_spans;
  STRATA_INVARIANT(used == used_pages(), "used pages are miscounted");
  STRATA_INVARIANT(idle == idle_pages(), "idle pages are miscounted");
  STRATA_INVARIANT(least_idle_ <= idle, "the least idle pages exceed the idle pages");
  return regions;
}

}  // namespace strata
