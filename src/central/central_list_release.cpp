// How the objects of a batch come back to their spans.

#include <algorithm>
#include <bit>

#include "base/fatal.h"
#include "central/central_list.h"

namespace strata {
namespace {

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

/// The spans that a batch comes back to, by the pages of its objects. What is freed in no order
/// comes back to few spans again and again: each is looked up and listed once for many objects.
/// \threads  Under the list's lock. Not analysed: whose lock it is the analysis cannot see.
class CentralList::Returns {
 public:
  explicit Returns(CentralList& list) noexcept : list_(list) {}

  /// Where to count what comes back to the span that `object` belongs to.
  /// \returns  nullptr if it is another shard's
  Return* find(const void* object) noexcept {
    const std::uintptr_t page = reinterpret_cast<std::uintptr_t>(object) >> kPageShift;
    const std::size_t place = page % kPlaces;
    if (pages_[place] == page) [[likely]]
      return &returns_[place];
    return look_up(object, page, place);
  }

  /// Counts what came back, and lists the spans as they are now.
  void settle() noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    for (std::uint32_t left = used_; left != 0; left &= left - 1)
      list_.settle(returns_[std::countr_zero(left)]);
  }

 private:
  // Chosen: half a MiB of pages in a row. More would take longer to clear than a small batch does.
  static constexpr std::size_t kPlaces = 8;

  [[gnu::noinline]] Return* look_up(const void* object, std::uintptr_t page,
                                    std::size_t place) noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS {
    Span& span = list_.span_of(object);
    if (span.shard != list_.shard_) return nullptr;
    if ((used_ >> place & 1) != 0) list_.settle(returns_[place]);
    used_ |= 1u << place;
    pages_[place] = page;
    returns_[place] = {&span, 0};
    return &returns_[place];
  }

  CentralList& list_;
  std::uint32_t used_ = 0;
  std::uintptr_t pages_[kPlaces] = {};  // no object is on page 0
  Return returns_[kPlaces];
};

/// In both of its callers: without caches every free comes here.
/// \returns  how many are another shard's
[[gnu::always_inline]] inline std::size_t CentralList::release_locked(void** objects,
                                                                      std::size_t count) noexcept {
  if (Span::tracks_fresh(SizeClassMap::bytes_of(size_class_))) take_back_marks(objects, count);
  Returns returns(*this);
  void** others = objects;
  void** const first = objects;
  for (void** const end = objects + count; objects != end;) {
    Return* const place = returns.find(*objects);
    if (place == nullptr) {
      *others++ = *objects++;
      continue;
    }
    Span& span = *place->span;
    const std::size_t index = index_in(span, *objects);
    if (index >= span.object_count) {
      fatal_pointer("invalid free of ", *objects, ": it points into an object, not at its start");
    }
    set_bit(span.free_bits[index / 64], index, *objects);
    span.first_word = std::min(span.first_word, static_cast<std::uint32_t>(index / 64));
    void** next = objects + 1;
    if (next != end && is_same_page(*next, *objects)) next = put_neighbours(span, next, end);
    place->count += static_cast<std::uint32_t>(next - objects);
    objects = next;
  }
  returns.settle();
  const auto left = static_cast<std::size_t>(others - first);
  add_to(free_, count - left);
  add_pending(static_cast<std::ptrdiff_t>((count - left) * SizeClassMap::bytes_of(size_class_)));
  if (free_objects() >= watched_from_) [[unlikely]]
    count_returned(count - left);
  return left;
}

std::size_t CentralList::release(void** objects, std::size_t count) noexcept {
  LockGuard guard(lock_);
  return release_locked(objects, count);
}

CentralList::Released CentralList::try_release(void** objects, std::size_t count) noexcept {
  if (!lock_.try_lock()) return {count, true};
  const std::size_t left = release_locked(objects, count);
  lock_.unlock();
  return {left, false};
}

/// Counts objects whose bits were set, and lists their span by what it has now.
void CentralList::settle(const Return& returned) noexcept {
  Span& span = *returned.span;
  const std::uint32_t before = span.free_count;
  span.free_count += returned.count;
  if (span.is_homeward) [[unlikely]]
    return settle_in_order(span, before);
  const bool has_other_width = (before ^ span.free_count) > before;
  if (has_other_width || span.free_count == span.object_count) relist(span, before);
}

/// Moves the marks of fresh objects to the spans that they come back to.
void CentralList::take_back_marks(void** objects, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const FreeObject object(objects[i]);
    if (!object.is_fresh()) continue;
    Span& span = span_of(object.address());
    if (span.shard != shard_) continue;
    span.fresh_objects |= std::uint32_t{1} << span.index_of(object.address());
    objects[i] = object.address();
  }
}

/// The span of an object that comes back.
Span& CentralList::span_of(const void* object) const noexcept {
  Span* span = spans_.map().span_of(object);
  if (span == nullptr || span->use != use_) die_of_wrong_class(spans_, object);
  return *span;
}

void CentralList::die_of_wrong_class(const SpanSource& spans, const void* object) noexcept {
  spans.die_if_of_another_heap("free", object);
  fatal_pointer("invalid free of ", object,
                ": the object was freed twice, or deleted with a size that is not its own");
}

/// Sets the bits of the objects from `objects` on that belong to the span: a word of the bitmap is
/// written once for all that follow each other in it.
/// \returns  the first that does not, or `end`
[[gnu::noinline]] void** CentralList::put_neighbours(Span& span, void** objects,
                                                     void** end) const noexcept {
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

/// Moves a span that had `free_before` free objects to the list for those it has now.
[[gnu::noinline]] void CentralList::relist(Span& span, std::uint32_t free_before) noexcept {
  unlist(span, free_before);
  if (span.free_count == span.object_count && span.hole_bytes != 0) {
    remove(span);  // a part of it is decommitted: the rest is of more use to the page heap
    spans_.destroy(span);
  } else {
    list(span);
  }
}

}  // namespace strata
