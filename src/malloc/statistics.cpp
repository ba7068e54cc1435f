#include "malloc/statistics.h"

#include <algorithm>
#include <cstdint>

namespace strata {

namespace {

/// A class's objects outside its spans. A busy thread may be counted late, but never as more than
/// left the spans.
struct Cached {
  Cached(std::size_t claimed, std::size_t threads, std::size_t transfer,
         std::size_t waiting) noexcept
      : in_threads(std::min(threads, claimed)),
        in_transfer(std::min(transfer, claimed - in_threads)),
        quarantined(std::min(waiting, claimed - in_threads - in_transfer)) {}

  std::size_t in_threads;
  std::size_t in_transfer;
  std::size_t quarantined;
  std::size_t sum() const noexcept { return in_threads + in_transfer + quarantined; }
};

}  // namespace

Statistics collect_statistics(MallocInstance& malloc) noexcept {
  Statistics out{};
  out.name = "malloc";
  if (must_not_wait()) return out;  // nothing can be counted now
  malloc.count_from_now_on();
  // Bytes must not move from one sum to another meanwhile.
  LockGuard guard(malloc.round_lock());
  Engine& engine = malloc.engine();
  ThreadRegistry::Counts in_threads;
  engine.registry().count_objects(in_threads);
  std::size_t small_pages = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = SizeClassMap::bytes_of(c);
    const std::size_t waiting =
        malloc.has_full_checks() ? malloc.checked().objects().quarantined_objects(c) : 0;
    const Central::ClassStatistics from = engine.central().statistics(c);
    Statistics::Class& entry = out.classes[c];
    entry.spans = from.spans.spans;
    const std::size_t claimed = from.spans.claimed_objects;
    const Cached cached(claimed, in_threads[c], from.in_transfer, waiting);
    entry.cached_objects = cached.sum();
    entry.live_objects = claimed - cached.sum();
    entry.free_objects = from.spans.free_objects;
    const CentralList::Statistics watched = engine.watched().statistics(c).spans;
    const std::size_t kept = from.spans.kept_spans + watched.kept_spans;
    entry.kept_spans = static_cast<std::uint32_t>(kept);
    entry.waits = static_cast<std::uint32_t>(from.spans.waits + watched.waits);
    entry.transfer_waits = static_cast<std::uint32_t>(from.transfer_waits);
    out.waits.central += from.spans.waits + watched.waits + from.transfer_waits;
    out.kept_spans += kept * span_pages_of(c) * kPageBytes;
    entry.spans += watched.spans;
    entry.live_objects += watched.claimed_objects;
    entry.free_objects += watched.free_objects;
    const std::size_t pages = from.spans.pages + watched.pages;
    small_pages += pages;
    out.live += entry.live_objects * bytes;
    out.cached += entry.cached_objects * bytes;
    out.in_threads += cached.in_threads * bytes;
    out.quarantined += cached.quarantined * bytes;
    out.in_spans += entry.free_objects * bytes;
    out.tails +=
        pages * kPageBytes - (claimed + watched.claimed_objects + entry.free_objects) * bytes;
  }
  const PageHeap::Statistics pages = engine.page_heap().statistics();
  const HugeHeap::Statistics huge = engine.huge().statistics();
  out.small_spans = small_pages * kPageBytes;
  // Spans that went away since their class was looked at are counted as they were seen there, even
  // if their pages were seen again in another class.
  const std::size_t used_pages = std::max(pages.used_pages, small_pages);
  const std::size_t all_pages = std::max(pages.regions * kPagesPerRegion, used_pages);
  const std::size_t idle_pages = std::min(pages.idle_pages, all_pages - used_pages);
  out.large_blocks = (used_pages - small_pages) * kPageBytes;
  out.huge_live = huge.live_bytes;
  out.huge_kept = huge.kept_bytes;
  out.guards = malloc.guards().statistics();
  out.empties = malloc.empties().reserved_bytes();
  out.live += out.large_blocks + huge.live_bytes + out.guards.live_bytes;
  const std::size_t holes = engine.spans().hole_bytes() + engine.watched_spans().hole_bytes();
  out.holes = std::min(holes, out.in_spans + out.tails);
  out.idle = idle_pages * kPageBytes + huge.kept_bytes;
  out.clean =
      (all_pages - used_pages - idle_pages) * kPageBytes + pages.reserved_bytes + huge.stuck_bytes;
  out.metadata = engine.metadata().mapped_bytes();
  out.page_map = engine.map().reserved_bytes();
  out.mapped = all_pages * kPageBytes + pages.reserved_bytes + huge.live_bytes + huge.kept_bytes +
               huge.stuck_bytes + out.metadata + out.empties + out.guards.reserved_bytes;
  out.given_back =
      pages.decommitted_pages * kPageBytes + huge.unmapped_bytes + engine.decommitted_in_spans();
  out.threads = engine.registry().live_threads();
  out.regions = pages.regions;
  out.huge_regions = pages.huge_regions;
  out.huge_blocks = huge.live_blocks;
  out.shards = engine.central().shard_count();
  out.verifies_frees = malloc.verifies_frees();
  out.verified_frees = malloc.verified_frees();
  out.state_bytes = engine.state_bytes();
  out.waits.thread_registry = engine.registry().lock_waits();
  out.waits.huge_heap = engine.huge().lock().waits();
  out.waits.page_heap = engine.page_heap().waits();
  out.waits.metadata = engine.metadata().lock().waits();
  out.limit = engine.limit().statistics();
  out.scavenger = malloc.scavenger().statistics();
  return out;
}

void print_statistics(MallocInstance& malloc) noexcept {
  const Statistics now = collect_statistics(malloc);
  FileSink sink(malloc.options().stats_file);
  write_statistics(now, sink);
}

}  // namespace strata
