#include "malloc/engine.h"

#include <algorithm>

#include "base/fatal.h"
#include "base/random.h"
#include "base/text_writer.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/resources.h"
#include "span/heap_addresses.h"

namespace strata {
namespace {

// Chosen: the largest part of a limited address space that a chunk of the heap may take, so that
// there is room for the next one, for bookkeeping, stacks and libraries.
constexpr std::size_t kChunkShare = 16;
// Chosen: in a smaller address space, a span for each class above 16 KiB, together 3 MiB, is too
// much.
constexpr std::size_t kTightAddressSpace = std::size_t{64} << 20;
constexpr std::size_t kMostBytesWhereTight = std::size_t{16} << 10;
// Chosen: two running threads then seldom share a shard, even if there are more threads than
// processors and any of them may be running.
constexpr unsigned kShardsPerProcessor = 4;

/// Dies over a pointer into no region of the heap and no huge block.
[[noreturn, gnu::cold]] void die_of_foreign(const char* action, const void* p) noexcept {
  os::Mapping mapping;
  os::find_mapping(p, mapping);
  TextWriter reason;
  switch (mapping.kind) {
    case os::Mapping::Kind::kUnknown:
      reason.text(": Strata did not allocate it, or it was freed before");
      break;
    case os::Mapping::Kind::kNothing:
      reason.text(": nothing is mapped there: it was freed before, or never allocated");
      break;
    case os::Mapping::Kind::kAnonymous:
      reason.text(": Strata did not allocate it, or it was freed before: ")
          .text("it lies in an anonymous mapping");
      break;
    case os::Mapping::Kind::kNamed:
      reason.text(": Strata did not allocate it: it lies in ").name(mapping.name);
      break;
  }
  fatal_call(action, p, reason.view());
}

}  // namespace

bool Engine::start(const Options& options, std::uint64_t seed, std::size_t address_space) noexcept {
  registry_.budget().set_most_bytes(options.cache_bytes);
  const unsigned processors = os::processor_count();
  // In a small heap each shard's spans get regions of their own: too much where addresses are few.
  // Under full checks every object passes one list.
  if (options.checks != Options::Checks::kFull && address_space > kTightAddressSpace)
    page_heap_.set_most_shards(processors);
  central_.set_most_shards(
      options.checks == Options::Checks::kFull ? 1 : kShardsPerProcessor * processors, processors);
  // A heap says beforehand how large its objects are.
  if (!options.compares_frees() && lives_for_ever()) central_.round_up_first_objects();
  if (options.checks == Options::Checks::kFull) spans_.keep_records();
  spans_.keep_states(options.verifies_frees());
  huge_.configure(options.huge_pages);
  has_all_addresses_.store(address_space == SIZE_MAX, std::memory_order_relaxed);
  if (address_space <= kTightAddressSpace)
    most_class_.store(SizeClassMap::class_of(kMostBytesWhereTight), std::memory_order_relaxed);
  const std::uint64_t place_seed = options.random == Options::kRandomOff ? 0 : seed;
  spans_.set_seed(place_seed != 0 ? random_word(place_seed, 1) : 0);
  if (shares_map_) {
    page_heap_.configure(HeapAddresses::kNone, options.huge_pages, kRegionBytes);
    return true;
  }
  if (!place_heap(options, place_seed, address_space)) return false;
  limit().configure(options.soft_limit, options.hard_limit);
  return true;
}

bool Engine::place_heap(const Options& options, std::uint64_t seed,
                        std::size_t address_space) noexcept {
  return HeapAddresses::choose(
      map_, pages_, HeapAddresses::kUsual, address_space, seed, [&](std::uintptr_t first) {
        page_heap_.configure(first, options.huge_pages, address_space / kChunkShare,
                             seed != 0 ? random_word(seed, 2) : 0);
        if (first == HeapAddresses::kNone) return true;  // the kernel chooses
        // One page, taken and given back, shows whether the kernel gives addresses below the limit.
        Span* const span = page_heap_.allocate(1);
        if (span != nullptr) give_back_untouched(*span);
        return span != nullptr;
      });
}

/// Gives pages back as clean, so that the next block on them knows that it reads as zero.
void Engine::give_back_untouched(Span& span) noexcept {
  const bool is_clean = !map_.region_of(span.start)->is_huge;
  if (is_clean) limit().let_go(span.bytes());
  page_heap_.deallocate(span, is_clean);
}

Engine::Block Engine::allocate_object(unsigned size_class) noexcept {
  void* object = nullptr;
  central_.claim(size_class, &object + 1, 1);
  return as_block(object);
}

Engine::Block Engine::allocate_watched(unsigned size_class) noexcept {
  void* object = nullptr;
  watched_.claim(size_class, &object + 1, 1);
  return as_block(object);
}

std::uint64_t* Engine::record_of(const void* p) const noexcept {
  const Span* span = map_.span_of(p);
  if (span == nullptr || span->records == nullptr) return nullptr;
  const std::uint32_t index = span->index_of(p);
  return index < span->object_count ? &span->records[index] : nullptr;
}

/// Allocates pages for one block. Before the heap holds more, empty spans become pages again;
/// unless the page heap gives clean pages so that threads do not meet.
[[gnu::always_inline]] inline Span* Engine::allocate_pages(unsigned page_count,
                                                           unsigned alignment_pages,
                                                           PagePlace& place) noexcept {
  Span* const span =
      page_heap_.allocate(page_count, alignment_pages, PageHeap::Pages::kIdle, place);
  if (span != nullptr) [[likely]]
    return span;
  return allocate_more_pages(page_count, alignment_pages, place);
}

[[gnu::noinline]] Span* Engine::allocate_more_pages(unsigned page_count, unsigned alignment_pages,
                                                    PagePlace& place) noexcept {
  while (central_.destroy_kept(page_count * kPageBytes) != 0) {
    Span* const span =
        page_heap_.allocate(page_count, alignment_pages, PageHeap::Pages::kIdle, place);
    if (span != nullptr) return span;
  }
  Span* const span = page_heap_.allocate(page_count, alignment_pages, PageHeap::Pages::kAny, place);
  central_.exchange_holes();
  return span;
}

Engine::Block Engine::allocate_large(std::size_t bytes, std::size_t alignment,
                                     PagePlace& place) noexcept {
  if (bytes > kMaxBytes) return {nullptr, false};
  if (bytes == 0) bytes = 1;  // a block of its own, like any other
  if (bytes <= kMaxLargeBytes && alignment <= kRegionBytes) {
    const std::size_t alignment_pages = alignment <= kPageBytes ? 1 : alignment / kPageBytes;
    Span* const span =
        allocate_pages(pages_for(bytes), static_cast<unsigned>(alignment_pages), place);
    if (span != nullptr) return {span->start, span->is_zero};
    // Where addresses were few the page map ends before they do, if there are more now.
    if (has_all_addresses() || !limit().has_room_everywhere(bytes)) return {nullptr, false};
  }
  if (huge_.kept_bytes() < bytes) central_.destroy_kept(bytes);
  return huge_.allocate(bytes, alignment);
}

void Engine::deallocate_large(void* p) noexcept {
  Region* const region = map_.region_of(p);
  Span* const pages = pages_of(p, region);
  if (pages != nullptr) return deallocate_pages(*region, *pages);
  if (!owns_region_of(p)) {
    if (huge_.deallocate(p)) return;
    die_of_huge("free", p);
  }
  Span* span = map_.span_of(p);
  if (span == nullptr) die_of_no_object(p, "free");
  if (reinterpret_cast<std::uintptr_t>(p) % SizeClassMap::kGrain != 0)
    fatal_call("free", p, ": it is misaligned, no allocation starts there");
  if (span->records != nullptr) {
    watched_.release_to_spans(span->size_class, &p, 1);
    return;
  }
  fatal_call("free", p, ": it points into an allocation, not at its start");
}

[[gnu::cold]] void Engine::die_of_no_object(const void* p, const char* action) const noexcept {
  fatal_call(action, p,
             map_.span_of(p) == nullptr ? ": it was freed before, or never allocated"
                                        : ": it points into an object, not at its start");
}

std::size_t Engine::usable_bytes(const void* p, const char* action) noexcept {
  expect_own_region(action, p);
  if (std::size_t size_class = map_.class_of(p)) {
    if (size_class == SizeClassMap::kHomeward) size_class = map_.span_of(p)->size_class;
    return object_bytes(p, size_class, action);
  }
  if (owns_region_of(p)) {
    const Span* span = map_.span_of(p);
    if (span == nullptr) die_of_no_object(p, action);
    if (record_of(p) != nullptr) {
      if (watched_.has(span->size_class, p)) fatal_call(action, p, ": the object is free already");
      return span->object_bytes;
    }
    if (span->start != p) fatal_call(action, p, ": it points into an allocation, not at its start");
    return span->bytes();
  }
  const std::size_t bytes = huge_.usable_bytes(p);
  if (bytes == 0) die_of_huge(action, p);
  return bytes;
}

/// Whether a block of `bytes` stays on pages instead of becoming an object. Notes if it is short.
[[gnu::noinline]] bool Engine::may_stay_on(Span& pages, std::size_t bytes) noexcept {
  if (bytes < kShortStaysFrom) return false;
  const bool is_short = bytes < kPagesStayFrom;
  return is_short == pages.is_short || page_heap_.try_set_short(pages, is_short);
}

void* Engine::resize_large(void* p, std::size_t bytes) noexcept {
  if (record_of(p) != nullptr)
    return stays_in_place(map_.span_of(p)->object_bytes, bytes) ? p : nullptr;
  if (bytes > kMaxBytes) return nullptr;
  if (map_.region_of(p) != nullptr) {
    if (bytes < kShortStaysFrom || bytes > kMaxLargeBytes) return nullptr;
    Span& pages = *map_.span_of(p);
    const unsigned needed = pages_for(bytes);
    const bool is_longer = needed > pages.page_count;
    if (!is_longer && !may_stay_on(pages, bytes)) return nullptr;
    if (!page_heap_.resize(pages, needed)) return nullptr;
    if (is_longer) may_stay_on(pages, bytes);  // it is short no longer
    return p;
  }
  return bytes >= kMappingsStayFrom ? huge_.reallocate(p, bytes) : nullptr;
}

std::size_t Engine::release_all() noexcept {
  registry_.flush_all();
  std::size_t returned = central_.release_all();
  returned += watched_.release_all();
  returned += page_heap_.decommit(~std::size_t{0}) * kPageBytes;
  return returned + huge_.release_all();
}

bool Engine::make_room_for_bookkeeping(std::size_t bytes) noexcept {
  return !lies_in_own_pages_ && limit_.has_room_everywhere(kRegionBytes) &&
         page_heap_.unmap(1, std::max(bytes, kRegionBytes)) != 0;
}

bool Engine::begin_relief() noexcept {
  const bool is_above = limit().is_above_soft();
  registry_.budget().set_pressure(is_above);
  return is_above && limit().wants_release(idle_hint()) &&
         !is_relieving_.exchange(true, std::memory_order_relaxed);
}

bool Engine::has_idle(std::size_t bytes) noexcept {
  // Chosen: a look costs some microseconds.
  constexpr std::uint64_t kOftenNs = 1'000'000;
  if (huge_.kept_bytes() >= bytes && drop_untouched() && !may_have_idle(bytes)) return false;
  if (settle_idle_hint() >= bytes) return true;
  const std::uint64_t now = os::monotonic_ns();
  return now - vain_look_ns_.exchange(now, std::memory_order_relaxed) < kOftenNs;
}

/// Unmaps free blocks that were hardly touched. They take next to no memory, so no scavenger is
/// needed for them.
/// \returns  whether there were any
bool Engine::drop_untouched() noexcept {
  // Chosen: who frees such a block again and again keeps its mapping after all.
  constexpr std::uint32_t kMostDrops = 16;
  if (drops_.load(std::memory_order_relaxed) >= kMostDrops || huge_.release_untouched() == 0)
    return false;
  drops_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Engine::end_relief() noexcept {
  const std::size_t returned = release_all();
  limit().note_pass(returned, settle_idle_hint());
  is_relieving_.store(false, std::memory_order_relaxed);
}

std::size_t Engine::release_unneeded() noexcept {
  forget_peak();
  const std::size_t before = decommitted_in_spans();
  registry_.flush_unneeded();
  central_.release_unneeded();
  watched_.release_unneeded();
  const std::size_t in_spans = decommitted_in_spans() - before;
  return in_spans + page_heap_.decommit_unneeded() * kPageBytes + huge_.release_unneeded();
}

/// Called before anything goes back: what is taken now is about the peak since the last round.
/// Lowers marks above twice that, which no longer decide what may be idle; blocks that come and go
/// stay below.
void Engine::forget_peak() noexcept {
  const std::size_t most = 2 * std::max(taken_bytes(), kGatherStep);
  for (std::atomic<std::size_t>* mark : {&seen_taken_, &next_look_, &next_gathering_}) {
    if (mark->load(std::memory_order_relaxed) > most) mark->store(most, std::memory_order_relaxed);
  }
}

/// Gives back as much as the heap grew by since the last look. The next look is due above what is
/// taken now: a heap that rises and falls below its peak keeps its idle memory. A small heap with
/// one page shard and no huge block, live or kept, may grow by a step beyond what is left, and by a
/// part of its growth. (Without that part, blocks that find no idle run of their length would fault
/// in new pages for ever.) Any heap may grow by no more than a step where kept mappings pay for it
/// and hardly a block takes one: the program has gone on to smaller blocks. Steps do not count live
/// huge blocks, which may be untouched.
void Engine::look_at_growth(ThreadCache* own) noexcept {
  const std::size_t taken = taken_bytes();
  const HugeHeap::Statistics huge = huge_.statistics();
  const std::size_t heap = taken - std::min(taken, huge.live_bytes);
  const std::size_t next = taken + std::max(heap / kLookGrowth, kLookStep);
  if (next_look_.exchange(next, std::memory_order_relaxed) > taken) return;  // another was here
  if (taken >= next_gathering_.load(std::memory_order_relaxed)) {
    next_gathering_.store(taken + std::max(heap / kGatherGrowth, kGatherStep),
                          std::memory_order_relaxed);
    if (central_.free_bytes() >= heap / kGatherShare) {
      // The classes whose spans any other use can take over.
      if (own != nullptr) own->flush_all(kOnePageClasses);
      central_.flush_transfer(kOnePageClasses);
    }
  }
  const std::size_t given =
      huge.given_bytes - seen_given_.exchange(huge.given_bytes, std::memory_order_relaxed);
  const std::size_t before = seen_taken_.load(std::memory_order_relaxed);
  const std::size_t growth = taken > before ? taken - before : 0;
  if (growth != 0) huge_.exchange_idle_for(growth, PageHeap::From::kNotWhole);
  std::size_t seen = taken_bytes();
  if (growth <= kBoundSteps * kLookStep && keeps_its_bound(taken)) {
    seen = std::max(seen, before + growth / kLookGrowth);
    next_look_.store(seen + kLookStep, std::memory_order_relaxed);
  } else if (growth != 0 && growth <= huge.kept_bytes && given <= growth / kGivenPart) {
    next_look_.store(seen + std::max(heap / kLookGrowth, kLookStep), std::memory_order_relaxed);
  }
  seen_taken_.store(seen, std::memory_order_relaxed);
}

std::size_t Engine::make_room_for_others(std::size_t bytes) noexcept {
  const std::size_t returned = huge_.exchange_idle_for(bytes, PageHeap::From::kNotWhole);
  for (std::atomic<std::size_t>* mark : {&seen_taken_, &next_look_}) {
    const std::size_t before = mark->load(std::memory_order_relaxed);
    mark->store(before - std::min(before, returned), std::memory_order_relaxed);
  }
  return returned;
}

/// Whether the memory that went back does not raise the bound of a heap that has taken so much.
bool Engine::keeps_its_bound(std::size_t taken) noexcept {
  if (taken > kSmallHeap || !page_heap_.has_one_shard()) return false;
  const HugeHeap::Statistics huge = huge_.statistics();
  return huge.live_blocks == 0 && huge.kept_bytes == 0;
}

/// Dies over a pointer into no region of ours, at which no huge block starts.
[[gnu::cold]] void Engine::die_of_huge(const char* action, const void* p) noexcept {
  switch (huge_.place_of(p)) {
    case HugeHeap::Place::kInside:
      fatal_call(action, p, ": it points into an allocation, not at its start");
    case HugeHeap::Place::kFreed:
      fatal_call(action, p, ": the block is free already", true);
    case HugeHeap::Place::kKept:
      fatal_call(action, p, ": it was freed before, or never allocated");
    case HugeHeap::Place::kElsewhere:
      spans_.die_if_of_another_heap(action, p);
      die_of_foreign(action, p);
  }
  __builtin_unreachable();
}

void Engine::forget_all() noexcept {
  registry_.forget_objects();
  central_.forget_spans();
  watched_.forget_spans();
  page_heap_.free_each_span([this](Span& span) {
    if (span.free_bits == nullptr) return page_heap_.deallocate(span);
    static_cast<ListLink<>&>(span) = ListLink<>{};
    span.free_count = span.object_count;
    (watched_spans_.owns(span) ? watched_spans_ : spans_).destroy(span);
  });
  registry_.budget().look_at_heap();
  huge_.discard();
}

void Engine::discard() noexcept {
  page_heap_.discard();
  huge_.discard();
  metadata_.discard();
  limit().let_go(limit().held_bytes());  // of the page heap
}

void Engine::check_invariants() noexcept {
  central_.check_invariants();
  watched_.check_invariants();
  page_heap_.check_invariants();
  huge_.check_invariants();
}

std::size_t Engine::count_held() noexcept {
  const std::size_t pages = page_heap_.used_pages() + page_heap_.idle_pages();
  const HugeHeap::Statistics huge = huge_.statistics();
  return pages * kPageBytes - spans_.hole_bytes() - watched_spans_.hole_bytes() + huge.live_bytes +
         huge.kept_bytes + metadata_.mapped_bytes();
}

void Engine::hold_locks_for_fork() noexcept {
  registry_.hold_locks_for_fork();
  watched_.hold_locks_for_fork();
  central_.hold_locks_for_fork();
  LocksInFork::hold(huge_.lock());
  page_heap_.hold_locks_for_fork();
  LocksInFork::hold(metadata_.lock());
  if (!shares_map_) LocksInFork::hold(map_.lock());
}

void Engine::keep_only(ThreadCache* own) noexcept {
  registry_.keep_only(own);
  is_relieving_.store(false, std::memory_order_relaxed);
}

}  // namespace strata
