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
  while (claimed < count) {
    Span* span;
    if (nonempty_ != 0) {
      const auto width = static_cast<unsigned>(std::countr_zero(nonempty_));
      span = by_free_[width].front();
      unfile(*span, width);
    } else {
      span = spans_.create(size_class_);
      if (span == nullptr) break;
      ++span_count_;
      free_ += span->object_count;
    }
    const std::size_t wanted = count - claimed;
    const std::size_t taken = wanted < span->free_count ? wanted : span->free_count;
    end = take_objects(*span, end, taken);
    span->free_count -= static_cast<std::uint32_t>(taken);
    claimed += taken;
    if (span->free_count != 0) file(*span);
  }
  claimed_ += claimed;
  free_ -= claimed;
  return claimed;
}

void CentralList::release(void* const* objects, std::size_t count) noexcept {
  LockGuard guard(lock_);
  for (void* const* const end = objects + count; objects != end;) {
    Span& span = span_of(*objects);
    objects = put_objects(span, objects, end);
  }
  claimed_ -= count;
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
/// together, and what concerns the whole span is done once. \returns the first object of another
/// span, or `end`
void* const* CentralList::put_objects(Span& span, void* const* objects, void* const* end) noexcept {
  const unsigned width_before = width_of(span);
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
  } else if (width_of(span) != width_before) {
    if (width_before != 0) unfile(span, width_before);
    file(span);
  }
  return next;
}

std::size_t CentralList::release_unneeded() noexcept {
  std::size_t returned = 0;
  for (unsigned width = 1; width < kWidths; ++width) {
    // Each span goes to the back once it has been looked at, so that the round is over when as many
    // were looked at as the list had. What others move meanwhile is seen in the next round.
    LockGuard guard(lock_);
    std::size_t left = 0;
    for (Span* span = by_free_[width].front(); span != nullptr; span = by_free_[width].next(*span))
      ++left;
    for (int held = 0; left != 0 && !by_free_[width].is_empty(); --left) {
      Span& span = *by_free_[width].front();
      by_free_[width].remove(span);
      by_free_[width].push_back(span);
      if (!is_quiet(span)) continue;
      returned += spans_.return_holes(span);
      if (++held % kSpansPerHold == 0) {
        lock_.unlock();
        lock_.lock();
      }
    }
  }
  return returned;
}

/// True once for each time that the span's free objects have stayed the same for a round.
bool CentralList::is_quiet(Span& span) noexcept {
  const bool is_unchanged = span.seen_free == span.free_count;
  span.seen_free = span.free_count;
  if (!is_unchanged || span.returned_free == span.free_count) return false;
  span.returned_free = span.free_count;
  return true;
}

void CentralList::file(Span& span) noexcept {
  const unsigned width = width_of(span);
  by_free_[width].push_front(span);
  nonempty_ |= 1u << width;
}

void CentralList::unfile(Span& span, unsigned width) noexcept {
  by_free_[width].remove(span);
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
      free += bits;
      ++listed;
    }
    STRATA_INVARIANT(by_free_[width].is_empty() == ((nonempty_ >> width & 1) == 0),
                     "the summary of the span lists is wrong");
  }
  STRATA_INVARIANT(free == free_, "free objects are miscounted");
  STRATA_INVARIANT(listed <= span_count_, "a span is listed that is not counted");
}

}  // namespace strata
