#include "central/central_list.h"

#include <algorithm>
#include <bit>

#include "base/fatal.h"

namespace strata {
namespace {

unsigned width_of(const Span& span) noexcept {
  return static_cast<unsigned>(std::bit_width(span.free_count));
}

/// Takes up to `count` objects of the span, the lowest first.
/// \returns  the new end
void** take_objects(Span& span, void** end, std::size_t count) noexcept {
  std::uint32_t word_index = span.first_word;
  const std::size_t object_bytes = span.object_bytes;
  while (count != 0) {
    while (span.free_bits[word_index] == 0) ++word_index;
    std::uint64_t word = span.free_bits[word_index];
    char* const base = span.start + std::size_t{word_index} * 64 * object_bytes;
    do {
      // A run of neighbours, of which there is often the whole word, takes an addition each.
      const auto first = static_cast<unsigned>(std::countr_zero(word));
      const auto run = std::min(static_cast<std::size_t>(std::countr_one(word >> first)), count);
      char* object = base + first * object_bytes;
      void** const run_end = end - run;
      do {
        *--end = object;
        object += object_bytes;
      } while (end != run_end);
      word &= ~(detail::low_bits<std::uint64_t>(static_cast<unsigned>(run)) << first);
      count -= run;
    } while (word != 0 && count != 0);
    span.free_bits[word_index] = word;
  }
  span.first_word = word_index;
  return end;
}

/// Sets the bit of an object that comes back, in its word of the bitmap.
void set_bit(std::uint64_t& word, std::size_t index, const void* object) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << index % 64;
  if ((word & bit) != 0) fatal_pointer("double free of ", object, ": the object is free already");
  word |= bit;
}

bool is_same_page(const void* p, const void* q) noexcept {
  return (reinterpret_cast<std::uintptr_t>(p) ^ reinterpret_cast<std::uintptr_t>(q)) < kPageBytes;
}

}  // namespace

std::size_t CentralList::claim(void** end, std::size_t count) noexcept {
  LockGuard guard(lock_);
  std::size_t claimed = 0;
  std::ptrdiff_t pending = 0;
  while (claimed < count) {
    Span* const span = take_span_with_free_objects(pending);
    if (span == nullptr) break;
    const std::size_t wanted = count - claimed;
    const std::size_t taken = wanted < span->free_count ? wanted : span->free_count;
    end = take_objects(*span, end, taken);
    count_taken(*span, taken, pending);
    claimed += taken;
  }
  spans_.add_pending(pending);
  return claimed;
}

void* CentralList::claim_at_random(std::uint64_t random) noexcept {
  LockGuard guard(lock_);
  std::ptrdiff_t pending = 0;
  Span* const span = take_span_with_free_objects(pending);
  if (span == nullptr) return nullptr;
  const std::size_t words = span->bitmap_words();
  std::size_t word = static_cast<std::size_t>(random >> 32) % words;
  while (span->free_bits[word] == 0) word = word + 1 != words ? word + 1 : 0;
  const auto turn = static_cast<int>(random % 64);
  const int bit = (std::countr_zero(std::rotr(span->free_bits[word], turn)) + turn) % 64;
  span->free_bits[word] &= ~(std::uint64_t{1} << bit);
  count_taken(*span, 1, pending);
  spans_.add_pending(pending);
  return span->start + (word * 64 + static_cast<std::size_t>(bit)) * span->object_bytes;
}

/// The fullest span that has a free object, or a new one; in no list until count_taken().
Span* CentralList::take_span_with_free_objects(std::ptrdiff_t& pending) noexcept {
  if (nonempty_ != 0) {
    const auto width = static_cast<unsigned>(std::countr_zero(nonempty_));
    Span* const span = by_free_[width].front();
    if (!spans_.fill_holes(*span)) return nullptr;
    unfile(*span, width);
    return span;
  }
  Span* const span = spans_.create(size_class_);
  if (span == nullptr) return nullptr;
  ++span_count_;
  free_ += span->object_count;
  pending += static_cast<std::ptrdiff_t>(span->pending_bytes());
  return span;
}

/// Counts objects whose bits were cleared, and files the span again.
void CentralList::count_taken(Span& span, std::size_t taken, std::ptrdiff_t& pending) noexcept {
  pending -= static_cast<std::ptrdiff_t>(span.pending_bytes());
  span.free_count -= static_cast<std::uint32_t>(taken);
  span.returned_free = std::min(span.returned_free, span.free_count);
  span.seen_free = kNotSeen;
  pending += static_cast<std::ptrdiff_t>(span.pending_bytes());
  claimed_ += taken;
  free_ -= taken;
  if (span.free_count != 0) file(span);
}

void CentralList::release(void* const* objects, std::size_t count) noexcept {
  LockGuard guard(lock_);
  auto pending = static_cast<std::ptrdiff_t>(count * SizeClassMap::bytes_of(size_class_));
  claimed_ -= count;
  free_ += count;
  for (void* const* const end = objects + count; objects != end;) {
    Span& span = span_of(*objects);
    const std::uint32_t before = span.free_count;
    const std::size_t index = index_in(span, *objects);
    if (index >= span.object_count) {
      fatal_pointer("invalid free of ", *objects, ": it points into an object, not at its start");
    }
    set_bit(span.free_bits[index / 64], index, *objects);
    span.first_word = std::min(span.first_word, static_cast<std::uint32_t>(index / 64));
    void* const* next = objects + 1;
    if (next != end && is_same_page(*next, *objects)) next = put_neighbours(span, next, end);
    span.free_count += static_cast<std::uint32_t>(next - objects);
    objects = next;
    // What most objects that come back one by one do not change: their span's list.
    const bool has_other_width = (before ^ span.free_count) > before;
    if (has_other_width || span.free_count == span.object_count) refile(span, before, pending);
  }
  spans_.add_pending(pending);
}

/// The span of an object that comes back.
Span& CentralList::span_of(const void* object) const noexcept {
  Span* span = spans_.map().span_of(object);
  if (span == nullptr || span->size_class != size_class_) {
    fatal_pointer("invalid free of ", object,
                  ": the object was freed twice, or deleted with a size that is not its own");
  }
  return *span;
}

/// Sets the bits of the objects from `objects` on that belong to the span: a word of the bitmap is
/// written once for all that follow each other in it.
/// \returns  the first that does not, or `end`
[[gnu::noinline]] void* const* CentralList::put_neighbours(Span& span, void* const* objects,
                                                           void* const* end) const noexcept {
  std::size_t index = index_in(span, *objects);
  while (index < span.object_count) {
    const std::size_t first = index & ~std::size_t{63};
    const std::size_t count = std::min<std::size_t>(span.object_count - first, 64);
    std::uint64_t word = span.free_bits[first / 64];
    do {
      set_bit(word, index, *objects);
      if (++objects == end) {
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

/// Moves a span that had `free_before` free objects to the list for those it has now, or gives it
/// back if it has them all; then nothing of it is pending any more.
[[gnu::noinline]] void CentralList::refile(Span& span, std::uint32_t free_before,
                                           std::ptrdiff_t& pending) noexcept {
  if (free_before != 0) unfile(span, static_cast<unsigned>(std::bit_width(free_before)));
  if (span.free_count != span.object_count) return file(span);
  pending -= static_cast<std::ptrdiff_t>(span.pending_bytes());
  --span_count_;
  free_ -= span.object_count;
  spans_.destroy(span);
}

std::size_t CentralList::release_holes(Spans which) noexcept {
  std::size_t returned = 0;
  std::ptrdiff_t pending = 0;
  for (unsigned width = 1; width < kWidths; ++width) {
    // Each span goes to the back once it has been looked at, so that the round is over when as many
    // were looked at as the list had. What others move meanwhile is seen in the next round.
    LockGuard guard(lock_);
    unsigned looks = 0;
    unsigned due = 0;
    for (std::size_t left = listed_[width]; left != 0 && !by_free_[width].is_empty(); --left) {
      Span& span = *by_free_[width].front();
      by_free_[width].remove(span);
      by_free_[width].push_back(span);
      ++looks;
      if (is_due(span, which)) {
        ++due;
        pending -= static_cast<std::ptrdiff_t>(span.pending_bytes());
        returned += spans_.return_holes(span);
        span.returned_free = span.free_count;
      }
      if (due == kSpansPerHold || looks == kLooksPerHold) {
        looks = due = 0;
        lock_.unlock();
        lock_.lock();
      }
    }
  }
  spans_.add_pending(pending);
  return returned;
}

/// True if the span's holes may be more than they were, and nobody has use for them.
bool CentralList::is_due(Span& span, Spans which) noexcept {
  const bool is_unchanged = span.seen_free == span.free_count;
  span.seen_free = span.free_count;
  return (is_unchanged || which == Spans::kAll) && span.returned_free != span.free_count;
}

void CentralList::file(Span& span) noexcept {
  const unsigned width = width_of(span);
  by_free_[width].push_front(span);
  ++listed_[width];
  nonempty_ |= 1u << width;
}

void CentralList::unfile(Span& span, unsigned width) noexcept {
  by_free_[width].remove(span);
  --listed_[width];
  if (by_free_[width].is_empty()) nonempty_ &= ~(1u << width);
}

CentralList::Statistics CentralList::statistics() noexcept {
  LockGuard guard(lock_);
  return {span_count_, span_count_ * span_pages_of(size_class_), claimed_, free_};
}

void CentralList::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t free = 0;
  std::size_t listed = 0;
  for (unsigned width = 0; width < kWidths; ++width) {
    std::size_t of_width = 0;
    for (Span* span = by_free_[width].front(); span != nullptr;
         span = by_free_[width].next(*span)) {
      std::size_t bits = 0;
      for (std::size_t word = 0; word < span->bitmap_words(); ++word) {
        STRATA_INVARIANT(word >= span->first_word || span->free_bits[word] == 0,
                         "a free object stands below a span's first word");
        bits += static_cast<std::size_t>(std::popcount(span->free_bits[word]));
      }
      STRATA_INVARIANT(bits == span->free_count, "a span's bitmap does not match its count");
      STRATA_INVARIANT(width_of(*span) == width, "a span is in the wrong list");
      STRATA_INVARIANT(span->size_class == size_class_, "a span of another class is in the list");
      STRATA_INVARIANT(span->returned_free <= span->free_count,
                       "more objects lie in a span's holes than are free");
      STRATA_INVARIANT(span->hole_bytes <= span->bytes(), "a span's holes are larger than itself");
      free += bits;
      ++of_width;
    }
    listed += of_width;
    STRATA_INVARIANT(of_width == listed_[width], "the spans of a list are miscounted");
    STRATA_INVARIANT(by_free_[width].is_empty() == ((nonempty_ >> width & 1) == 0),
                     "the summary of the span lists is wrong");
  }
  STRATA_INVARIANT(free == free_, "free objects are miscounted");
  STRATA_INVARIANT(listed <= span_count_, "a span is listed that is not counted");
}

}  // namespace strata
