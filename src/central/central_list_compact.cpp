// How a list gets back what its spans hold in vain.
//
// A bin hands out what was freed last. A program that frees two objects of a class for each that it
// allocates keeps every other object of every span, since its bins never run dry and so never come
// to the fullest span; and as long as it frees and allocates by turns, every span stays as empty as
// it is. So while a list compacts, its spans are homeward: the page map sends what is freed of them
// to a bin that malloc never pops from, and from there it goes to its span. The bins of the class
// run dry, and what they get comes from the spans. The hot path is what it was.
//
// A span that serves is not homeward until the turn ends: it is one of those that are to be full.
// What is freed of it goes to a bin and is used again at once, so that objects that come and go
// take the slow way once a turn.
//
// Meanwhile the span at the lowest address serves first, roughly, and those that are nearly empty
// last: where what lives longest ends up does not change then, and the spans at the other end
// become empty. The fullest one is often one that has just begun to become empty, and would go on
// with objects of another age.
//
// The slow way is worth it where spans become empty for it, or the class shrinks. One that is about
// to grow again fills what it has free by itself. So a list is judged by turns, and one that has
// gained nothing waits longer before it begins again: a program that always has much free takes the
// slow way for a small part of what it frees.

#include <algorithm>

#include "central/central_list.h"

namespace strata {
namespace {

// Chosen: it begins where a sixteenth of the objects are free, and ends where half as much are.
constexpr std::size_t kBeginShare = 16;
constexpr std::size_t kEndShare = 32;
// Chosen: where so much is free, it goes on in any case.
constexpr std::size_t kAlwaysShare = 3;
// Chosen: it begins when so much has come back meanwhile, a share of the objects; two rounds of the
// scavenger count as much. What a batch leaves free for a moment the transfer cache has.
constexpr std::size_t kReturnedShare = 64;
// Chosen: a turn is this share of the objects that come back. It was worth it if for so many of
// them there is one in a span that became nearly empty or, half of that, empty. If not, and the
// class did not shrink, so many times as much has to come back before it begins again, up to the
// most.
constexpr std::size_t kTurnShare = 8;
constexpr std::size_t kWorth = 8;
constexpr std::uint32_t kPatience = 8;
constexpr std::uint32_t kMostPatience = 512;

}  // namespace

/// Free objects of spans that have others.
std::size_t CentralList::free_in_use() const noexcept {
  return free_objects() - kept_spans() * objects_per_span_;
}

/// All objects of these spans.
std::size_t CentralList::objects_in_use() const noexcept {
  return (span_count_ - kept_spans()) * objects_per_span_;
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

/// Twice the spans in use, less those that are nearly empty while the list compacts.
std::size_t CentralList::used_spans() const noexcept {
  return 2 * (span_count_ - kept_spans()) - listed_[kNearlyEmpty];
}

/// Begins to compact, or ends it, after so many objects came back.
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

/// Ends to compact where little is free, or where it is not worth it; otherwise another turn
/// begins, and all spans are homeward again.
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

/// Begins a turn. How spans are listed, and whether they are homeward, follows some at a time:
/// other threads wait for the list meanwhile.
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

/// An unlisted span of an earlier turn, which had so many free objects when this one began, is
/// about to be listed. If it was nearly empty already, it has not become so in this turn.
void CentralList::follow_turn(Span& span, std::uint32_t free_before) noexcept {
  follow(span);
  if (is_compacting() && span.place != kNearlyEmpty && free_before >= nearly_empty_from()) --began_;
}

/// Each span is looked at once, those used longest ago first, so that they come to lie at the back.
/// What others move meanwhile is in the order of the turn already, or is left as it was until the
/// next one.
void CentralList::list_some_anew() noexcept {
  for (unsigned looks = 0; looks != kLooksPerHold; ++looks) {
    while (anew_left_ == 0 || by_free_[anew_at_].is_empty()) {
      if (++anew_at_ == kWidths) {
        if (!is_compacting()) watched_from_ = worth_compacting(size_class_);
        return;
      }
      anew_left_ = listed_[anew_at_];
    }
    --anew_left_;
    Span& span = *by_free_[anew_at_].back();
    note_place(span);
    if (span.turn != turn_) {
      unlist(span, span.free_count);
      follow_turn(span, span.free_count);
      list(span);
    } else {
      by_free_[anew_at_].remove(span);
      by_free_[anew_at_].push_front(span);
    }
  }
}

/// Which list a span in use is in while the list compacts: the one for its part of the addresses,
/// unless it is full or nearly empty. Spans that came since it began may lie beyond those that it
/// had.
unsigned CentralList::place_in_order(const Span& span) const noexcept {
  if (span.free_count == 0) return 0;
  if (span.free_count >= nearly_empty_from()) return kNearlyEmpty;
  const auto start = reinterpret_cast<std::uintptr_t>(span.start);
  const std::uintptr_t part = start > lowest_ ? (start - lowest_) / address_step_ : 0;
  return 1 + static_cast<unsigned>(std::min<std::uintptr_t>(part, kNearlyEmpty - 2));
}

void CentralList::list_in_order(Span& span) noexcept { list_at(place_in_order(span), span); }

}  // namespace strata
