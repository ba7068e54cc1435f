// How a list regains memory that half-empty spans waste.
//
// A bin hands out the objects freed last. A program that frees two objects of a class for each that
// it allocates keeps every other object of every span: its bins never run dry, so it never claims
// from the fullest span, and as long as frees and allocations alternate, every span stays as empty
// as it is. So while a list compacts, its spans are homeward: the page map sends freed objects of
// these spans to a bin that malloc never pops from, and from there they go to their spans. The bins
// of the class run dry and refill from the spans. The hot path is unchanged.
//
// A span that serves is not homeward until the turn ends: it is to become full. Its freed objects
// go to the class's bin and are reused at once, so objects that come and go take the slow path once
// a turn.
//
// Meanwhile the span at the lowest address serves first, roughly, and nearly empty spans last: the
// longest-lived objects keep gathering at the same addresses, and the spans at the other end become
// empty. The fullest span would be a poor choice: it is often one that has just begun to empty, and
// would be filled with objects of another age.
//
// The slow path is worth it if spans become empty for it, or if the class shrinks. A class that is
// about to grow again fills its free objects by itself. So a list is judged turn by turn, and one
// that gained nothing waits longer before it compacts again: a program that always has much free
// takes the slow path for a small part of its frees.

#include <algorithm>

#include "central/central_list.h"

namespace strata {
namespace {

// Chosen: compacting begins where a sixteenth of the objects are free, and ends where half as many
// are.
constexpr std::size_t kBeginShare = 16;
constexpr std::size_t kEndShare = 32;
// Chosen: where so much is free, compacting goes on in any case.
constexpr std::size_t kAlwaysShare = 3;
// Chosen: compacting begins when this share of the objects has come back while much was free; two
// rounds of the scavenger count as much. What a batch leaves free for a moment is in the transfer
// cache.
constexpr std::size_t kReturnedShare = 64;
// Chosen: a turn lasts until this share of the objects has come back. It was worth it if at most
// kWorth of them came back for each object of the spans that became nearly empty; objects of spans
// that became empty count twice. If not, and the class did not shrink, kPatience times as many have
// to come back before compacting begins again, up to kMostPatience.
constexpr std::size_t kTurnShare = 8;
constexpr std::size_t kWorth = 8;
constexpr std::uint32_t kPatience = 8;
constexpr std::uint32_t kMostPatience = 512;

}  // namespace

/// Free objects in spans that have claimed ones.
std::size_t CentralList::free_in_use() const noexcept {
  return free_objects() - kept_spans() * objects_per_span_;
}

/// All objects of those spans.
std::size_t CentralList::objects_in_use() const noexcept {
  return (span_count() - kept_spans()) * objects_per_span_;
}

bool CentralList::has_free(std::size_t share) const noexcept {
  return free_in_use() * share >= objects_in_use();
}

bool CentralList::has_much_free() const noexcept {
  const std::size_t free = free_in_use();
  return free >= worth_compacting(size_class_) && has_free(kBeginShare) &&
         free * SizeClassMap::bytes_of(size_class_) >= spans_.used_bytes() / kWasteShare;
}

bool CentralList::has_little_free() const noexcept {
  return !has_free(kEndShare) || free_in_use() < worth_compacting(size_class_) / 2;
}

/// Twice the spans in use, less those that are nearly empty while the list compacts. Holes of
/// those may be on their way to the kernel.
std::size_t CentralList::used_spans() const noexcept {
  return 2 * (span_count() - kept_spans()) - listed_[kNearlyEmpty] - nearly_empty_away_;
}

/// Counts returned objects, and starts or ends compacting accordingly.
void CentralList::count_returned(std::size_t count) noexcept {
  if (lists_anew()) list_some_anew();
  const bool have_followed = !lists_anew();
  if (is_compacting()) {
    returned_ += count;
    if (have_followed && (has_little_free() || returned_ * kTurnShare >= objects_in_use())) judge();
  } else if (have_followed && has_much_free()) {
    returned_ += count;
    const std::size_t patience = has_free(kAlwaysShare) ? 1 : patience_;
    if (returned_ * kReturnedShare >= objects_in_use() * patience) compact(true);
  }
}

/// Ends compacting if little is free or it was not worth it. Otherwise begins another turn, in
/// which all spans are homeward again.
void CentralList::judge() noexcept {
  const std::size_t used = used_spans();
  const bool has_gained =
      used < began_ && (began_ - used) * objects_per_span_ * kWorth >= returned_;
  const bool has_shrunk = objects_in_use() - free_in_use() < began_claimed_;
  if (has_gained) {
    patience_ = 1;
  } else if (!has_shrunk) {
    patience_ = std::min(patience_ * kPatience, kMostPatience);
  }
  const bool is_worth_it = has_gained || has_shrunk || has_free(kAlwaysShare);
  compact(is_worth_it && !has_little_free());
}

void CentralList::begin_turn() noexcept {
  began_ = used_spans();
  began_claimed_ = objects_in_use() - free_in_use();
  returned_ = 0;
}

void CentralList::look() noexcept {
  LockGuard guard(lock_);
  while (lists_anew()) {
    list_some_anew();
    guard.unlock();
    guard.lock();
  }
  if (!is_compacting()) {
    count_returned(objects_in_use() / (2 * kReturnedShare) + 1);
  } else if (has_little_free()) {
    judge();
  }
}

/// Begins a turn, compacting or not. The order of the spans, and whether they are homeward, is
/// brought up to date for some spans at a time, since other threads wait for the list.
void CentralList::compact(bool is_on) noexcept {
  if (!spans_.has_homeward()) return;
  is_compacting_.store(is_on, std::memory_order_relaxed);
  watched_from_ = 0;
  begin_turn();
  ++turn_;
  anew_at_ = 0;
  anew_left_ = listed_[0];
  if (next_lowest_ <= next_highest_) {
    lowest_ = next_lowest_;
    address_step_ = (next_highest_ - next_lowest_) / (kNearlyEmpty - 1) + 1;
  }
  next_lowest_ = ~std::uintptr_t{0};
  next_highest_ = 0;
  list_some_anew();
}

/// Updates a span of an earlier turn that is about to be listed. If it was nearly empty when this
/// turn began, it has not become so in this turn.
void CentralList::follow_turn(Span& span, std::uint32_t free_before) noexcept {
  follow(span);
  if (is_compacting() && span.place != kNearlyEmpty && free_before >= nearly_empty_from()) --began_;
}

/// Puts some spans in the turn's order. Each is visited once, those used longest ago first, so that
/// they end up at the back. Spans that other threads move meanwhile are in the turn's order
/// already, or stay as they are until the next turn.
void CentralList::list_some_anew() noexcept {
  for (unsigned looks = 0; looks != kLooksPerHold; ++looks) {
    while (anew_left_ == 0 || by_place_[anew_at_].is_empty()) {
      if (++anew_at_ == kPlaces) {
        if (!is_compacting()) watched_from_ = worth_compacting(size_class_);
        return;
      }
      anew_left_ = listed_[anew_at_];
    }
    --anew_left_;
    Span& span = *by_place_[anew_at_].back();
    note_place(span);
    if (span.turn != turn_) {
      unlist(span, span.free_count);
      follow_turn(span, span.free_count);
      list(span);
    } else {
      by_place_[anew_at_].move_to_front(span);
    }
  }
}

/// The place of a span while the list compacts: that of its part of the addresses, unless
/// it is full or nearly empty. Spans that came since the turn began may lie beyond the range known
/// then.
unsigned CentralList::place_in_order(const Span& span) const noexcept {
  if (span.free_count == 0) return 0;
  if (span.free_count >= nearly_empty_from()) return kNearlyEmpty;
  const auto start = reinterpret_cast<std::uintptr_t>(span.start);
  const std::uintptr_t part = start > lowest_ ? (start - lowest_) / address_step_ : 0;
  return 1 + static_cast<unsigned>(std::min<std::uintptr_t>(part, kNearlyEmpty - 2));
}

/// A tail call of list(), which therefore saves no registers.
void CentralList::list_in_order(Span& span) noexcept { list_at(place_in_order(span), span); }

}  // namespace strata
