#include "span/span_source.h"

#include <algorithm>
#include <cstring>

#include "base/fatal.h"
#include "base/random.h"

namespace strata {

Span* SpanSource::create(unsigned size_class, PageHeap::Pages which, PagePlace place) noexcept {
  Span* const span = page_heap_.allocate(span_pages_of(size_class), 1, which, place);
  return span != nullptr && begin(*span, size_class) ? span : nullptr;
}

/// Cuts new pages into objects.
/// \returns  false when out of memory; the pages are given back
bool SpanSource::begin(Span& span, unsigned size_class) noexcept {
  const auto object_bytes = static_cast<std::uint32_t>(SizeClassMap::bytes_of(size_class));
  span.object_bytes = object_bytes;
  span.reciprocal =
      static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + object_bytes - 1) / object_bytes);
  span.object_count = static_cast<std::uint32_t>(span.bytes() / object_bytes);
  span.free_count = span.object_count;
  span.seen_free = 0;
  // What the kernel has just cleared holds no memory: nothing is pending.
  span.decommitted_free = span.is_zero ? span.object_count : 0;
  span.hole_bytes = 0;
  span.hole_bytes_for_growth = 0;
  span.first_object = static_cast<std::uint16_t>(choose_first(span));
  span.first_word = span.first_object / 64u;
  const bool is_fresh = span.is_zero && Span::tracks_fresh(object_bytes);
  span.fresh_objects =
      is_fresh ? static_cast<std::uint32_t>((std::uint64_t{1} << span.object_count) - 1) : 0;
  span.use = use_of(size_class);
  span.size_class = static_cast<std::uint8_t>(size_class);
  span.shard = 0;
  span.is_homeward = false;
  span.has_left_holes = false;
  if (!give_bitmap(span) || (has_records() && !give_records(span)) ||
      (has_state_places_ && !give_states(span))) {
    give_up(span, /* is_clean= */ false, Was::kInUse);
    return false;
  }
  if (use_ == Use::kSmall) map_.set_class(span, size_class);
  return true;
}

/// \returns  False when out of memory; so do the next two.
bool SpanSource::give_bitmap(Span& span) noexcept {
  const std::size_t words = span.bitmap_words();
  auto* const bits =
      words == 1 ? &span.bitmap_word
                 : static_cast<std::uint64_t*>(metadata_.allocate(words * sizeof(std::uint64_t)));
  if (bits == nullptr) return false;
  std::memset(bits, 0xff, words * sizeof(std::uint64_t));
  if (span.object_count % 64 != 0)
    bits[words - 1] = (std::uint64_t{1} << span.object_count % 64) - 1;
  span.free_bits = bits;
  return true;
}

/// release after all are 0: in the child of a fork at this moment, a heap that is emptied reads
/// them.
bool SpanSource::give_records(Span& span) noexcept {
  const std::size_t bytes = span.object_count * sizeof(std::uint64_t);
  auto* const records = static_cast<std::uint64_t*>(metadata_.allocate(bytes));
  if (records == nullptr) return false;
  std::memset(records, 0, bytes);
  std::atomic_ref(span.records).store(records, std::memory_order_release);
  return true;
}

/// Chooses the object that is handed out first: the first on its OS page, since a span of which
/// little is used would otherwise take a page more.
std::uint32_t SpanSource::choose_first(const Span& span) noexcept {
  if (seed_ == 0 || has_records()) return 0;
  const std::uint64_t draw = draws_.load(std::memory_order_relaxed);
  draws_.store(draw + 1, std::memory_order_relaxed);
  const std::uint64_t chance = random_word(seed_, draw);
  const std::size_t os_page = os::page_bytes();
  if (span.object_bytes >= os_page) return chance % span.object_count;
  const std::size_t page = chance % (span.bytes() / os_page);
  return std::min(
      static_cast<std::uint32_t>((page * os_page + span.object_bytes - 1) / span.object_bytes),
      span.object_count - 1);
}

void SpanSource::destroy(Span& span, Was was) noexcept {
  STRATA_DCHECK(span.free_count == span.object_count);
  const bool is_clean = span.hole_bytes != 0 && !close_holes(span, was);
  if (use_ == Use::kSmall) map_.set_class(span, 0);
  give_up(span, is_clean, was);
}

/// Gives back the pages, and then whatever else the span got: as long as the page heap has the
/// span, whoever visits all spans may use it. In the child of a fork between the two it is lost.
void SpanSource::give_up(Span& span, bool is_clean, Was was) noexcept {
  const bool has_bitmap = span.free_bits != nullptr && span.free_bits != &span.bitmap_word;
  const Part parts[] = {
      {has_bitmap ? span.free_bits : nullptr, span.bitmap_words() * sizeof(std::uint64_t)},
      {span.records, span.object_count * sizeof(std::uint64_t)},
      take_states(span)};
  page_heap_.deallocate(span, is_clean, was);
  for (const Part& part : parts) {
    if (part.memory != nullptr) metadata_.deallocate(part.memory, part.bytes);
  }
}

/// Called when the span's pages, including holes, are about to be idle. Counts the holes as held
/// again. If the limit forbids that, or the rest was idle already, decommits all of it instead.
/// \returns  false if decommitted: the pages hold no memory
bool SpanSource::close_holes(Span& span, Was was) noexcept {
  MemoryLimit& limit = page_heap_.limit();
  const std::size_t rest = span.bytes() - span.hole_bytes;
  bool is_held = was == Was::kInUse && limit.try_hold_unasked(span.hole_bytes);
  if (!is_held && pages_.decommit(span.start, span.bytes())) {
    limit.let_go(rest);
    decommitted_bytes_.fetch_add(rest, std::memory_order_relaxed);
  } else if (!is_held) {
    limit.hold(span.hole_bytes);  // the kernel refuses; accepted
    is_held = true;
  }
  if (is_held) page_heap_.count_growth(span.hole_bytes);
  forget_holes(span);
  return is_held;
}

bool SpanSource::take_back_holes(Span& span) noexcept {
  // Others may serve instead. Where none can, a new span is asked for.
  if (!page_heap_.limit().try_hold_unasked(span.hole_bytes)) return false;
  page_heap_.count_growth(span.hole_bytes);
  refilled_bytes_.fetch_add(span.hole_bytes_for_growth, std::memory_order_relaxed);
  forget_holes(span);
  return true;
}

namespace {

void set_states(const PageMap& map, const Span& span, ObjectStates::Place place) noexcept {
  Region& region = *map.region_of(span.start);
  for (unsigned i = 0; i < span.page_count; ++i)
    region.states_of_page[span.first_page + i].store(place, std::memory_order_relaxed);
}

std::size_t bytes_of_states(const Span& span) noexcept {
  return span.page_count * ObjectStates::slots_of_page(span.size_class);
}

}  // namespace

bool SpanSource::give_states(Span& span) noexcept {
  if (!keeps_states()) {
    set_states(map_, span, ObjectStates::nowhere());
    return true;
  }
  void* const memory = metadata_.allocate(bytes_of_states(span));
  if (memory == nullptr) return false;
  std::memset(memory, ObjectStates::kNever, bytes_of_states(span));
  state_bytes_.fetch_add(bytes_of_states(span), std::memory_order_relaxed);
  auto* const states = static_cast<ObjectStates::State*>(memory);
  set_states(map_, span, ObjectStates::place(states, span.start, span.size_class));
  return true;
}

SpanSource::Part SpanSource::take_states(Span& span) noexcept {
  const ObjectStates::Place place =
      has_state_places_ ? map_.states_of(span.start) : ObjectStates::kNoPlace;
  if (place == ObjectStates::kNoPlace) return {};
  set_states(map_, span, ObjectStates::kNoPlace);
  if (place == ObjectStates::nowhere()) return {};
  state_bytes_.fetch_sub(bytes_of_states(span), std::memory_order_relaxed);
  return {&ObjectStates::at(place, span.start), bytes_of_states(span)};
}

/// Whether holes of so many bytes are worth the huge page they lie in.
bool SpanSource::is_worth_holes(const Span& span, std::size_t bytes) const noexcept {
  return bytes >= kLeastHolesInHugePage || !map_.region_of(span.start)->is_huge;
}

/// Records that so many bytes of the span are decommitted, including earlier holes.
/// \returns  how many more than before
std::size_t SpanSource::open_holes(Span& span, std::size_t bytes) noexcept {
  if (bytes <= span.hole_bytes) return 0;
  const std::size_t opened = bytes - span.hole_bytes;
  span.hole_bytes = static_cast<std::uint32_t>(bytes);
  hole_bytes_.fetch_add(opened, std::memory_order_relaxed);
  decommitted_bytes_.fetch_add(opened, std::memory_order_relaxed);
  page_heap_.limit().let_go(opened);
  return opened;
}

}  // namespace strata
