#include "central/central_list.h"

#include <algorithm>
#include <bit>

#include "base/fatal.h"

namespace strata {
namespace {

unsigned width_of(const Span& span) noexcept {
  return static_cast<unsigned>(std::bit_width(span.free_count));
}

/// Takes up to `count` objects of the span, the lowest first. \returns the new end
void** take_objects(Span& span, void** end, std::size_t count) noexcept {
  std::uint32_t word_index = span.first_word;
  while (count != 0) {
    while (span.free_bits[word_index] == 0) ++word_index;
    std::uint64_t word = span.free_bits[word_index];
    char* const base = span.start + std::size_t{word_index} * 64 * span.object_bytes;
    for (; word != 0 && count != 0; word &= word - 1, --count) {
      *--end = base + static_cast<std::size_t>(std::countr_zero(word)) * span.object_bytes;
    }
    span.free_bits[word_index] = word;
  }
  span.first_word = word_index;
  return end;
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
  std::ptrdiff_t pending = 0;
  for (void* const* const end = objects + count; objects != end;) {
    Span& span = span_of(*objects);
    objects = put_objects(span, objects, end, pending);
  }
  claimed_ -= count;
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

/// Puts back the objects from `objects` on that belong to the span: neighbours were often freed
/// together, and what concerns the whole span is done once. Adds to `pending` what the span's
/// pending bytes grow by. \returns the first object of another span, or `end`
void* const* CentralList::put_objects(Span& span, void* const* objects, void* const* end,
                                      std::ptrdiff_t& pending) noexcept {
  const unsigned width_before = width_of(span);
  pending -= static_cast<std::ptrdiff_t>(span.pending_bytes());
  const std::size_t span_bytes = span.bytes();
  std::uint32_t first_word = span.first_word;
  void* const* next = objects;
  do {
    void* const object = *next;
    const std::uint32_t index = span.index_of(object);
    if (index == span.object_count) {
      fatal_pointer("invalid free of ", object, ": it points into an object, not at its start");
    }
    std::uint64_t& word = span.free_bits[index / 64];
    const std::uint64_t bit = std::uint64_t{1} << index % 64;
    if ((word & bit) != 0) fatal_pointer("double free of ", object, ": the object is free already");
    word |= bit;
    first_word = std::min(first_word, index / 64);
    ++next;
  } while (next != end &&
           static_cast<std::size_t>(static_cast<char*>(*next) - span.start) < span_bytes);

  const auto put = static_cast<std::uint32_t>(next - objects);
  span.first_word = first_word;
  span.free_count += put;
  free_ += put;
  if (span.free_count == span.object_count) {
    if (width_before != 0) unfile(span, width_before);
    --span_count_;
    free_ -= span.object_count;
    spans_.destroy(span);
    return next;
  }
  pending += static_cast<std::ptrdiff_t>(span.pending_bytes());
  if (width_of(span) != width_before) {
    if (width_before != 0) unfile(span, width_before);
    file(span);
  }
  return next;
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
