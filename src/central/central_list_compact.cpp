// How a list gets back what its spans hold in vain.
//
// A bin hands out what was freed last. A program that frees two objects of a class for each that it
// allocates keeps every other object of every span, since its bins never run dry and so never come
// to the fullest span; and as long as it frees and allocates by turns, every span stays as empty as
// it is. So while a list compacts, its spans are homeward: the page map sends what is freed of them
// to a bin that malloc never pops from, and from there it goes to its span. The bins of the class
// run dry, and what they get comes from the fullest spans; those that are nearly empty become empty
// as their objects are replaced. The hot path is what it was.

// Meanwhile the span at the lowest address serves first, roughly: where what lives longest ends up
// does not change then, and the spans at the other end become empty. The fullest one is often one
// that has just begun to become empty, and would go on with objects of another age.

#include <algorithm>

#include "central/central_list.h"

namespace strata {
namespace {

// Chosen: it begins where an eighth of the objects are free, and ends where a sixteenth are.
constexpr std::size_t kBeginShare = 8;
constexpr std::size_t kEndShare = 16;
// Chosen: it begins when so much has come back meanwhile, a share of the objects, or a round of the
// scavenger has passed. What a batch leaves free for a moment the transfer cache has.
constexpr std::size_t kReturnedShare = 16;
// Chosen: a span with fewer objects than this share serves last.
constexpr std::uint32_t kNearlyEmptyShare = 8;

}  // namespace

/// Free objects of spans that have others.
std::size_t CentralList::free_in_use() const noexcept {
  return free_objects() - kept_spans() * objects_per_span_;
}

/// All objects of these spans.
std::size_t CentralList::objects_in_use() const noexcept {
  return (span_count_ - kept_spans()) * objects_per_span_;
}

bool CentralList::has_much_free() const noexcept {
  const std::size_t free = free_in_use();
  if (free < worth_compacting(size_class_)) return false;
  if (free * kBeginShare < objects_in_use()) return false;
  return free * SizeClassMap::bytes_of(size_class_) >= spans_.used_bytes() / kWasteShare;
}

bool CentralList::has_little_free() const noexcept {
  const std::size_t free = free_in_use();
  return free * kEndShare < objects_in_use() || free < worth_compacting(size_class_) / 2;
}

/// Begins to compact, or ends it, after so many objects came back.
void CentralList::count_returned(std::size_t count) noexcept {
  if (is_compacting()) {
    if (has_little_free()) compact(false);
  } else if (!has_much_free()) {
    returned_ = 0;
  } else {
    returned_ += count;
    if (returned_ * kReturnedShare >= objects_in_use()) compact(true);
  }
}

void CentralList::look() noexcept {
  LockGuard guard(lock_);
  const bool has_much = has_much_free();
  if (is_compacting()) {
    if (has_little_free()) compact(false);
  } else if (has_much && had_much_free_) {
    compact(true);
  }
  had_much_free_ = has_much;
}

void CentralList::compact(bool is_on) noexcept {
  if (!spans_.has_homeward()) return;
  list_as_compacting(is_on);
  watched_from_ = is_on ? 0 : worth_compacting(size_class_);
  returned_ = 0;
  for (Span* span = kept_.front(); span != nullptr; span = kept_.next(*span)) follow(*span);
}

/// Lists all spans in use as they are listed from now on, those used last still at the front.
void CentralList::list_as_compacting(bool is_on) noexcept {
  IntrusiveList<Span> all;  // those used last at the back
  std::uintptr_t lowest = ~std::uintptr_t{0};
  std::uintptr_t highest = 0;
  for (unsigned width = 0; width < kWidths; ++width) {
    while (Span* const span = by_free_[width].back()) {
      by_free_[width].remove(*span);
      all.push_back(*span);
      const auto start = reinterpret_cast<std::uintptr_t>(span->start);
      lowest = std::min(lowest, start);
      highest = std::max(highest, start);
    }
    listed_[width] = 0;
  }
  nonempty_ = 0;
  is_compacting_.store(is_on, std::memory_order_relaxed);
  if (lowest <= highest) {
    lowest_ = lowest;
    address_step_ = (highest - lowest) / (kNearlyEmpty - 1) + 1;
  }
  while (Span* const span = all.pop_front()) {
    follow(*span);
    list(*span);
  }
}

/// Which list a span in use is in while the list compacts: the one for its part of the addresses,
/// unless it is full or nearly empty. Spans that came since it began may lie beyond those that it
/// had.
unsigned CentralList::place_in_order(const Span& span) const noexcept {
  if (span.free_count == 0) return 0;
  const std::uint32_t claimed = objects_per_span_ - span.free_count;
  if (claimed <= objects_per_span_ / kNearlyEmptyShare) return kNearlyEmpty;
  const auto start = reinterpret_cast<std::uintptr_t>(span.start);
  const std::uintptr_t part = start > lowest_ ? (start - lowest_) / address_step_ : 0;
  return 1 + static_cast<unsigned>(std::min<std::uintptr_t>(part, kNearlyEmpty - 2));
}

void CentralList::list_in_order(Span& span) noexcept { list_at(place_in_order(span), span); }

/// Lists a span, to which objects came back, where it belongs now.
void CentralList::settle_in_order(Span& span, std::uint32_t free_before) noexcept {
  if (span.free_count == span.object_count || place_in_order(span) != span.place)
    relist(span, free_before);
}

}  // namespace strata
