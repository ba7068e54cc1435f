#include "span/page_heap.h"

#include <algorithm>
#include <new>

#include "base/fatal.h"
#include "os/clock.h"

namespace strata {

void PageHeap::set_most_shards(unsigned most) noexcept {
  most_ = std::clamp(most, 1u, kMostShards);
}

Span* PageHeap::allocate(unsigned page_count, unsigned alignment_pages, Pages which,
                         PagePlace& place) noexcept {
  STRATA_DCHECK(page_count >= 1 && page_count <= kPagesPerRegion);
  PageShard* const keeper = alignment_pages == 1 ? keeper_of(page_count, place) : nullptr;
  if (keeper != nullptr) {
    if (Span* const kept = allocate_kept(*keeper, page_count, place)) return kept;
  }
  const PageRequest request{page_count, alignment_pages, which};
  PageShard::Taken taken = take(request, place);
  if (taken.span == nullptr && which == Pages::kAny && !has_one_shard() && merge_kept())
    taken = take({page_count, alignment_pages, Pages::kIdle}, place);
  look_after(taken, place);
  return taken.span;
}

PageShard::Taken PageHeap::take(const PageRequest& request, PagePlace& place) noexcept {
  using Growth = PageShard::Growth;
  PageShard& own = shard_for(place);
  const bool grows_first = has_one_shard() || (place.is_apart() && is_small());
  PageShard::Taken taken =
      own.allocate(request, own, grows_first ? Growth::kAny : Growth::kNone, &place);
  if (!taken.is_settled() && !has_one_shard()) [[unlikely]] {
    taken = take_beside_own(request, own, place);
    if (!taken.is_settled() && !grows_first)
      taken = own.allocate(request, own, Growth::kAny, nullptr);
  }
  return taken;
}

/// Merges all kept runs, for a request that is refused without.
/// \returns  whether there were any
[[gnu::cold, gnu::noinline]] bool PageHeap::merge_kept() noexcept {
  bool has_merged = false;
  for_each_shard([&](PageShard& shard) { has_merged |= shard.merge_kept_runs(); });
  return has_merged;
}

/// Allocates when the own shard has no such pages. Idle pages of any shard come before the heap
/// holds more. A block gets clean pages of its own shard sooner if that shard may grow (may_grow),
/// or if other threads have the locks of shards with idle pages and busy_others() passes these by.
[[gnu::cold, gnu::noinline]] PageShard::Taken PageHeap::take_beside_own(const PageRequest& request,
                                                                        PageShard& own,
                                                                        PagePlace& place) noexcept {
  using Growth = PageShard::Growth;
  const bool is_block = !place.is_apart();
  const auto take_clean = [&](Growth growth) {
    const PageRequest any{request.page_count, request.alignment_pages};
    return own.allocate(any, own, growth, &place);
  };
  if (is_block && may_grow(own, request.page_count)) {
    const PageShard::Taken clean = take_clean(Growth::kAny);
    own.pay_for(request.page_count);
    if (clean.is_settled()) return clean;
  }
  const std::size_t idle = request.pages == Pages::kIdle ? request.page_count : 0;
  const auto take_of = [&](PageShard& shard) {
    return shard.allocate(request, own, Growth::kNone, nullptr);
  };
  PageShard::Taken taken = take_from_others(own, idle, busy_others(), take_of);
  if (!taken.is_settled() && taken.was_busy) {
    if (is_block) {
      const PageShard::Taken clean = take_clean(Growth::kFirst);
      if (clean.is_settled()) return clean;
    }
    taken = take_from_others(own, idle, Busy::kWaitedFor, take_of);
  }
  const bool is_visit = taken.span != nullptr && !taken.was_given;
  if (is_block && is_visit && pays_for_pages()) own.note_visit();
  return taken;
}

/// Whether a block may have so many clean pages of its shard although other shards have idle ones:
/// if the shard's threads often got pages of other shards, and few pages are idle.
bool PageHeap::may_grow(const PageShard& own, unsigned page_count) const noexcept {
  return own.can_pay_for(page_count) && pays_for_pages() &&
         idle_pages() < used_pages() / kMostIdleShare;
}

Span* PageHeap::allocate_to_grow(unsigned page_count, PagePlace& place) noexcept {
  PageShard& own = shard_for(place);
  PageShard::Taken taken = own.allocate_to_grow(page_count, Pages::kIdle, own, &place);
  if (!taken.is_settled() && !has_one_shard()) [[unlikely]]
    taken = take_to_grow_beside_own(page_count, own, place);
  look_after(taken, place);
  return taken.span;
}

[[gnu::cold, gnu::noinline]] PageShard::Taken PageHeap::take_to_grow_beside_own(
    unsigned page_count, PageShard& own, PagePlace& place) noexcept {
  const std::size_t idle = PageShard::room_for(page_count);
  const PageShard::Taken taken = take_from_others(own, idle, busy_others(), [&](PageShard& shard) {
    return shard.allocate_to_grow(page_count, Pages::kIdle, own, nullptr);
  });
  return taken.was_busy ? own.allocate_to_grow(page_count, Pages::kAny, own, &place) : taken;
}

/// Takes from the other shards, one after the other. A region that one of them gives away becomes
/// `own`'s.
/// \param idle  skips shards with fewer idle pages
template <typename Take>
PageShard::Taken PageHeap::take_from_others(PageShard& own, std::size_t idle, Busy busy,
                                            Take take) noexcept {
  const unsigned count = shard_count();
  unsigned i = own.index();
  bool was_busy = false;
  for (unsigned left = count - 1; left != 0; --left) {
    i = i + 1 < count ? i + 1 : 0;
    PageShard& other = *shards_[i];
    if (other.idle_pages() < idle) continue;
    if (busy == Busy::kPassedBy && other.is_busy()) {
      was_busy = true;
      continue;
    }
    PageShard::Taken taken = take(other);
    if (taken.was_given) {
      taken = take(own);
      taken.was_given = true;
    }
    if (taken.is_settled()) return taken;
  }
  return {.was_busy = was_busy};
}

inline void PageHeap::look_after(const PageShard::Taken& taken, PagePlace& place) noexcept {
  if (taken.awaits_touch) [[unlikely]]
    touch_huge_page(*taken.span);
  if (place.has_met_enough()) [[unlikely]]
    move_on(place);
}

/// Moves the thread to the next shard in turn, so that shards soon have equally many threads.
void PageHeap::move_on(PagePlace& place) noexcept {
  place.move_to(next_.fetch_add(1, std::memory_order_relaxed) % most_);
  make_shard_for(place);
}

/// \returns  the first shard if none can be made
PageShard& PageHeap::make_shard_for(const PagePlace& place) noexcept {
  const unsigned index = place.shard() % most_;
  if (index < shard_count()) return *shards_[index];
  first_.note_others();
  LockGuard guard(making_);
  unsigned count = count_.load(std::memory_order_relaxed);
  for (; count <= index; ++count) {
    void* const memory = source_.metadata().allocate_forever(sizeof(PageShard));
    if (memory == nullptr) return first_;
    shards_[count] = new (memory) PageShard(source_, tally_, count);
    count_.store(count + 1, std::memory_order_release);
  }
  return *shards_[index];
}

/// Has the kernel back a region by a huge page, unless another thread did, and measures how long
/// that takes.
/// \pre  the span lies in that region, and is the caller's
[[gnu::noinline]] void PageHeap::touch_huge_page(const Span& span) noexcept {
  const std::uint64_t ns = source_.pages().touch(span.start);
  Region& region = source_.region_of(span);
  shard_of(region).note_touch(region);
  source_.note_first_touch(ns);
}

std::size_t PageHeap::decommit(std::size_t max_pages, From from) noexcept {
  std::size_t idle_left = idle_pages();
  std::size_t wanted = std::min(max_pages, idle_left);
  std::size_t decommitted = 0;
  for_each_shard([&](PageShard& shard) {
    const std::size_t idle = std::min(shard.idle_pages(), idle_left);
    if (wanted == 0 || idle == 0) return;
    const std::size_t share = (wanted * idle + idle_left - 1) / idle_left;
    decommitted += shard.decommit(share, from);
    wanted -= share;
    idle_left -= idle;
  });
  return decommitted;
}

std::size_t PageHeap::decommit_unneeded() noexcept {
  std::size_t decommitted = 0;
  for_each_shard([&](PageShard& shard) { decommitted += shard.decommit_unneeded(); });
  return decommitted;
}

std::size_t PageHeap::unmap(std::size_t max_bytes, std::size_t requested) noexcept {
  const std::uint64_t began = os::monotonic_ns();
  if (unmapping_backoff_.is_on(began)) {
    const std::size_t wanted = std::max(max_bytes, requested);
    const std::size_t then = vain_free_bytes_.load(std::memory_order_relaxed);
    if (wanted >= vain_bytes_.load(std::memory_order_relaxed) && free_bytes() < then + wanted)
      return 0;
  }
  // What is in no heap goes first, then what was not begun.
  std::size_t unmapped = source_.pages().unmap_waiting(max_bytes);
  if (unmapped < max_bytes) unmapped += source_.unmap_fresh(max_bytes - unmapped);
  for_each_shard([&](PageShard& shard) {
    if (unmapped < max_bytes) unmapped += shard.unmap(max_bytes - unmapped);
  });
  if (unmapped != 0)
    unmapping_ns_.fetch_add(os::monotonic_ns() - began + 1, std::memory_order_relaxed);
  return unmapped;
}

void PageHeap::note_refusal(std::size_t bytes) noexcept {
  if (unmapping_ns_.load(std::memory_order_relaxed) == 0) return;
  const std::uint64_t ns = unmapping_ns_.exchange(0, std::memory_order_relaxed);
  vain_bytes_.store(bytes, std::memory_order_relaxed);
  vain_free_bytes_.store(free_bytes(), std::memory_order_relaxed);
  unmapping_backoff_.begin(os::monotonic_ns(), ns);
}

std::size_t PageHeap::free_bytes() noexcept {
  const std::size_t pages = source_.statistics().regions * kPagesPerRegion;
  return (pages - std::min(pages, used_pages())) * kPageBytes;
}

PageHeap::Statistics PageHeap::statistics() noexcept {
  const RegionSource::Statistics regions = source_.statistics();
  std::size_t decommitted = 0;
  for_each_shard([&](PageShard& shard) { decommitted += shard.decommitted_pages(); });
  return {regions.regions, used_pages(),         idle_pages(),
          decommitted,     regions.huge_regions, regions.reserved_bytes};
}

std::size_t PageHeap::waits() noexcept {
  std::size_t waits = source_.lock().waits();
  for_each_shard([&](PageShard& shard) { waits += shard.lock().waits(); });
  return waits;
}

void PageHeap::check_invariants() noexcept {
  // A free region may move from one shard to another meanwhile.
  LockGuard guard(making_);
  const unsigned count = shard_count();
  for (unsigned i = 0; i < count; ++i) shards_[i]->lock().lock();
  std::size_t regions = 0;
  for (unsigned i = 0; i < count; ++i) regions += shards_[i]->check_invariants();
  STRATA_INVARIANT(regions == source_.statistics().regions, "a region is lost");
  for (unsigned i = 0; i < count; ++i) shards_[i]->lock().unlock();
}

void PageHeap::hold_locks_for_fork() noexcept {
  LocksInFork::hold(making_);
  for_each_shard([](PageShard& shard) { LocksInFork::hold(shard.lock()); });
  LocksInFork::hold(source_.lock());
}

}  // namespace strata
