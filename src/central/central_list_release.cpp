// How the objects of a batch return to their spans.

#include <algorithm>
#include <atomic>

#include "base/fatal.h"
#include "central/central_list.h"

namespace strata {
namespace {

/// Sets the bit of a returned object in its word of the bitmap.
void set_bit(std::uint64_t& word, std::size_t index, const void* object) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << index % 64;
  if ((word & bit) != 0) fatal_pointer("double free of ", object, ": the object is free already");
  word |= bit;
}

// Chosen: rows of objects are compared and put back so many at a time.
constexpr std::size_t kRow = 8;

/// How many of the objects follow each other in memory at distance `step`: a multiple of kRow.
std::size_t count_in_a_row(void* const* objects, std::size_t most, std::uintptr_t step) noexcept {
  std::uintptr_t expected = reinterpret_cast<std::uintptr_t>(*objects);
  std::size_t count = 0;
  for (; count + kRow <= most; count += kRow) {
    std::uintptr_t differences = 0;
    for (std::size_t i = 0; i < kRow; ++i, expected += step)
      differences |= reinterpret_cast<std::uintptr_t>(objects[count + i]) ^ expected;
    if (differences != 0) break;
  }
  return count;
}

/// Sets the bits of a row of objects, upwards or downwards in memory, in their word.
/// \param at    the place of the first in the word
/// \param last  the last place that an object may have there
/// \returns     how many; 0 if fewer than kRow, or if one of them is free already
std::size_t set_row(std::uint64_t& word, unsigned at, unsigned last, void* const* objects,
                    std::size_t count, std::size_t bytes) noexcept {
  if (count < kRow) return 0;
  const std::uintptr_t step =
      reinterpret_cast<std::uintptr_t>(objects[1]) - reinterpret_cast<std::uintptr_t>(objects[0]);
  if (step != bytes && step + bytes != 0) return 0;
  const bool is_up = step == bytes;
  const std::size_t most = is_up ? last - at + 1 : at + 1;
  const std::size_t row = count_in_a_row(objects, std::min(most, count), step);
  if (row == 0) return 0;
  const std::uint64_t bits = ~std::uint64_t{0} >> (64 - row) << (is_up ? at : at + 1 - row);
  if ((word & bits) != 0) return 0;
  word |= bits;
  return row;
}

bool is_same_page(const void* p, const void* q) noexcept {
  return (reinterpret_cast<std::uintptr_t>(p) ^ reinterpret_cast<std::uintptr_t>(q)) < kPageBytes;
}

}  // namespace

/// The span of a returned object; nullptr if it is another shard's or, under kAny, another class's.
/// Otherwise another class's is fatal.
inline Span* CentralList::own_span_of(const void* object, Classes classes) const noexcept {
  Span* const span = spans_.map().span_of(object);
  if (span == nullptr || span->use != use_) [[unlikely]] {
    if (span != nullptr && classes == Classes::kAny) return nullptr;
    die_of_wrong_class(spans_, object);
  }
  // Under the lock a span of this shard stays one, and none becomes one; others may move meanwhile.
  const auto shard = std::atomic_ref<std::uint8_t>(span->shard).load(std::memory_order_relaxed);
  return shard == shard_ ? span : nullptr;
}

/// Inlined in its callers: without caches every free comes here.
/// \returns  how many are another shard's
[[gnu::always_inline]] inline std::size_t CentralList::release_locked(void** objects,
                                                                      std::size_t count,
                                                                      Classes classes) noexcept {
  if (Span::tracks_fresh(SizeClassMap::bytes_of(size_class_)))
    take_back_marks(objects, count, classes);
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class_);
  // Before a span of them is destroyed, which takes all that it has off.
  add_to(free_, count);
  add_pending(static_cast<std::ptrdiff_t>(count * object_bytes));
  void** others = objects;
  void** const first = objects;
  for (void** const end = objects + count; objects != end;) {
    Span* const span = own_span_of(*objects, classes);
    if (span == nullptr) {
      *others++ = *objects++;
      continue;
    }
    const std::size_t index = index_in(*span, *objects);
    if (index >= span->object_count) {
      fatal_pointer("invalid free of ", *objects, ": it points into an object, not at its start");
    }
    set_bit(span->free_bits[index / 64], index, *objects);
    span->first_word = std::min(span->first_word, static_cast<std::uint32_t>(index / 64));
    void** next = objects + 1;
    if (next != end && is_same_page(*next, *objects)) next = put_neighbours(*span, next, end);
    const std::uint32_t before = span->free_count;
    span->free_count += static_cast<std::uint32_t>(next - objects);
    if (span->free_count >= span->relist_at) [[unlikely]]
      relist(*span, before);
    objects = next;
  }
  const auto left = static_cast<std::size_t>(others - first);
  if (left != 0) {
    add_to(free_, std::size_t{0} - left);
    add_pending(-static_cast<std::ptrdiff_t>(left * object_bytes));
  }
  if (free_objects() >= watched_from_) [[unlikely]]
    count_returned(count - left);
  return left;
}

std::size_t CentralList::release(void** objects, std::size_t count, Classes classes) noexcept {
  LockGuard guard(lock_);
  return release_locked(objects, count, classes);
}

/// Counts each object as seen in its span, if all other free ones there were: then seen_free equals
/// free_count once the batch is back.
std::size_t CentralList::release_idle(void** objects, std::size_t count, Classes classes) noexcept {
  LockGuard guard(lock_);
  for (std::size_t i = 0; i < count; ++i) {
    Span* const span = own_span_of(FreeObject(objects[i]).address(), classes);
    if (span == nullptr) continue;
    if (span->seen_free > span->free_count && span->seen_free != kNotSeen) {
      ++span->seen_free;
    } else if (span->free_count == 0 || span->seen_free == span->free_count) {
      span->seen_free = span->free_count + 1;
    }
  }
  return release_locked(objects, count, classes);
}

CentralList::Released CentralList::try_release(void** objects, std::size_t count) noexcept {
  if (!lock_.try_lock()) return {count, true};
  const std::size_t left = release_locked(objects, count, Classes::kOne);
  lock_.unlock();
  return {left, false};
}

/// Moves the marks of fresh objects to the spans that they come back to.
void CentralList::take_back_marks(void** objects, std::size_t count, Classes classes) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const FreeObject object(objects[i]);
    if (!object.is_fresh()) continue;
    Span* const span = own_span_of(object.address(), classes);
    if (span == nullptr) continue;
    span->fresh_objects |= std::uint32_t{1} << span->index_of(object.address());
    objects[i] = object.address();
  }
}

bool CentralList::has(const void* object) noexcept {
  LockGuard guard(lock_);
  const Span* const span = own_span_of(object, Classes::kOne);
  if (span == nullptr) return false;
  const std::size_t index = index_in(*span, object);
  return (span->free_bits[index / 64] >> index % 64 & 1) != 0;
}

void CentralList::die_of_wrong_class(const SpanSource& spans, const void* object) noexcept {
  spans.die_if_of_another_heap("free", object);
  fatal_pointer("invalid free of ", object,
                ": the object was freed twice, or deleted with a size that is not its own");
}

/// Sets the bits of the objects from `objects` on that belong to the span. Writes a bitmap word
/// once for all that follow each other in it; a row of neighbours is one OR.
/// \returns  the first that does not, or `end`
[[gnu::noinline]] void** CentralList::put_neighbours(Span& span, void** objects,
                                                     void** end) const noexcept {
  const std::size_t bytes = SizeClassMap::bytes_of(size_class_);
  std::size_t index = index_in(span, *objects);
  while (index < span.object_count) {
    const std::size_t first = index & ~std::size_t{63};
    const std::size_t count = std::min<std::size_t>(span.object_count - first, 64);
    const auto last = static_cast<unsigned>(count - 1);
    std::uint64_t word = span.free_bits[first / 64];
    do {
      const std::size_t row = set_row(word, static_cast<unsigned>(index - first), last, objects,
                                      static_cast<std::size_t>(end - objects), bytes);
      if (row == 0) set_bit(word, index, *objects);
      objects += std::max(row, std::size_t{1});
      if (objects == end) {
        index = span.object_count;
        break;
      }
      index = index_in(span, *objects);
    } while (index - first < count);
    span.free_bits[first / 64] = word;
    span.first_word = std::min(span.first_word, static_cast<std::uint32_t>(first / 64));
  }
  return objects;
}

/// Moves a span that had `free_before` free objects to the list for those it has now.
[[gnu::noinline]] void CentralList::relist(Span& span, std::uint32_t free_before) noexcept {
  unlist(span, free_before);
  put_back(span, free_before);
}

/// Lists an unlisted span that had `free_before` free objects, or destroys it.
/// \returns  whether it is listed as a span in use
bool CentralList::put_back(Span& span, std::uint32_t free_before) noexcept {
  const bool is_empty = span.free_count == span.object_count;
  const bool is_idle = span.seen_free == span.free_count;
  if (is_empty && (span.hole_bytes != 0 || is_idle)) {
    // Nobody needed any of it, or a part is decommitted: the page heap has more use for the rest.
    uncount(span);
    spans_.destroy(span, is_idle ? Was::kIdle : Was::kInUse);
    return false;
  }
  if (span.turn != turn_) [[unlikely]]
    follow_turn(span, free_before);
  list(span);
  return !is_empty;
}

}  // namespace strata
