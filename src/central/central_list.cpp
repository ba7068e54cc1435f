#include "central/central_list.h"

#include <algorithm>
#include <bit>

#include "base/fatal.h"

namespace strata {

void CentralList::add_pending(std::ptrdiff_t bytes) noexcept {
  add_to(pending_, bytes);
  const auto object_bytes = static_cast<std::ptrdiff_t>(SizeClassMap::bytes_of(size_class_));
  const std::ptrdiff_t step =
      std::clamp(kSaidAboveObjects * object_bytes, kSaidAbove, kSaidAboveAtMost);
  tally_.tell(pending_.load(std::memory_order_relaxed), said_, step);
}

void CentralList::tell_tally() noexcept {
  LockGuard guard(lock_);
  tally_.settle(pending_.load(std::memory_order_relaxed), said_);
}

/// Subtracts an unlisted span from the counts.
void CentralList::uncount(Span& span) noexcept {
  add_pending(-static_cast<std::ptrdiff_t>(span.pending_bytes()));
  add_to(span_count_, ~std::size_t{0});
  add_to(free_, std::size_t{0} - span.free_count);
}

void CentralList::add(Span& span) noexcept {
  LockGuard guard(lock_);
  receive(span);
}

std::size_t CentralList::add_and_claim(Span& span, void** end, std::size_t count) noexcept {
  LockGuard guard(lock_);
  receive(span);
  return claim_locked(end, count);
}

std::size_t CentralList::claim_from(CentralList& other, Which which, void** end,
                                    std::size_t count) noexcept {
  // The second lock is not waited for, so that two lists that take from each other do not wait for
  // each other.
  LockGuard guard(lock_);
  if (!other.lock_.try_lock()) return 0;
  std::size_t spans = (other.kept_spans() + 1) / 2;
  Span* span = other.give(which);
  while (span != nullptr) {
    receive(*span);
    span = spans > 1 || free_objects() < count ? other.give(Which::kKept) : nullptr;
    if (spans != 0) --spans;
  }
  other.lock_.unlock();
  return claim_locked(end, count);
}

/// Counts and lists a span that is in no list.
void CentralList::receive(Span& span) noexcept {
  // release: anyone who frees an object reads it without the lock, and finds this list there; what
  // was read is checked under the lock.
  std::atomic_ref<std::uint8_t>(span.shard).store(shard_, std::memory_order_release);
  add_to(span_count_, std::size_t{1});
  add_to(free_, std::size_t{span.free_count});
  add_pending(static_cast<std::ptrdiff_t>(span.pending_bytes()));
  note_place(span);
  follow(span);
  list(span);
}

Span* CentralList::give(Which which) noexcept {
  Span* span = kept_.front();
  if (span == nullptr && which == Which::kEmptiest && nonempty_ != 0)
    span = by_place_[std::bit_width(nonempty_) - 1].front();
  if (span == nullptr) return nullptr;
  unlist(*span, span->free_count);
  uncount(*span);
  return span;
}

std::size_t CentralList::destroy_kept(std::size_t count, Was was) noexcept {
  std::size_t destroyed = 0;
  LockGuard guard(lock_);
  for (; destroyed < count; ++destroyed) {
    Span* const span = kept_.back();
    if (span == nullptr) break;
    unlist(*span, span->free_count);
    uncount(*span);
    guard.unlock();
    spans_.destroy(*span, was);
    guard.lock();
  }
  return destroyed;
}

std::size_t CentralList::destroy_unneeded() noexcept {
  std::size_t unneeded;
  {
    LockGuard guard(lock_);
    unneeded = least_kept_;
    least_kept_ = kept_spans() - unneeded;
  }
  return unneeded != 0 ? destroy_kept(unneeded, Was::kIdle) : 0;
}

void CentralList::forget_spans() noexcept {
  LockGuard guard(lock_);
  for (auto& list : by_place_) list.forget_all();
  for (std::uint32_t& listed : listed_) listed = 0;
  kept_.forget_all();
  nonempty_ = 0;
  least_kept_ = returned_ = away_ = nearly_empty_away_ = 0;
  span_count_.store(0, std::memory_order_relaxed);
  is_compacting_.store(false, std::memory_order_relaxed);
  watched_from_ = worth_compacting(size_class_);
  anew_at_ = kPlaces;
  patience_ = 1;
  pending_.store(0, std::memory_order_relaxed);
  tally_.settle(0, said_);
  kept_count_.store(0, std::memory_order_relaxed);
  free_.store(0, std::memory_order_relaxed);
}

std::size_t CentralList::decommit_holes(Spans which) noexcept {
  std::size_t returned = 0;
  LockGuard turns(holes_lock_);
  LockGuard guard(lock_);
  HoleBatch holes(spans_);
  unsigned looks = 0;
  for (unsigned place = 1; place < kPlaces; ++place) {
    // Each span goes to the back once it has been looked at, so that the round is over when as many
    // were looked at as the list had. What others move meanwhile is seen in the next round.
    for (std::size_t left = listed_[place]; left != 0 && !by_place_[place].is_empty(); --left) {
      Span& span = *by_place_[place].front();
      by_place_[place].move_to_back(span);
      ++looks;
      if (is_due(span, which)) add_holes_of(span, holes);
      if (holes.is_full() || looks == kLooksPerHold) {
        looks = 0;
        if (holes.is_empty()) lock_.give_way();  // no system call gives others time to take it
        returned += give_back(holes, Comes::kLast);
        guard.unlock();
        holes_lock_.give_way();
        guard.lock();
      }
    }
  }
  return returned + give_back(holes, Comes::kLast);
}

std::size_t CentralList::add_holes_of(Span& span, HoleBatch& holes) noexcept {
  add_pending(-static_cast<std::ptrdiff_t>(span.pending_bytes()));
  span.decommitted_free = span.free_count;
  return holes.add(span);
}

/// Decommits holes with the lock released. Meanwhile their spans are in no list, so no object of
/// theirs is claimed, and one that is released does not list them.
std::size_t CentralList::give_back(HoleBatch& holes, Comes comes) noexcept {
  for (Span* const span : holes.spans()) {
    unlist(*span, span->free_count);
    span->relist_at = kNever;
    ++away_;
    if (span->place == kNearlyEmpty) ++nearly_empty_away_;
  }
  lock_.unlock();
  if (!holes.is_empty()) holes.decommit();
  lock_.lock();
  const std::size_t returned = holes.settle();
  for (Span* const span : holes.spans()) {
    --away_;
    if (span->place == kNearlyEmpty) --nearly_empty_away_;
    if (put_back(*span, span->free_count) && comes == Comes::kLast)
      by_place_[span->place].move_to_back(*span);
  }
  holes.clear();
  return returned;
}

std::size_t CentralList::decommit_holes_of_emptiest(std::size_t bytes) noexcept {
  if (!holes_lock_.try_lock()) return 0;
  lock_.lock();
  HoleBatch holes(spans_, HoleBatch::Why::kGrowth);
  std::size_t found = 0;
  const unsigned emptiest =
      is_compacting() ? kNearlyEmpty : static_cast<unsigned>(std::bit_width(objects_per_span_));
  std::size_t looks = HoleBatch::kMostSpans;
  for (unsigned place = emptiest; place != 0 && place + 2 >= emptiest; --place) {
    // From the back: what was used longest ago.
    for (std::size_t left = listed_[place];
         left != 0 && looks != 0 && found < bytes && !holes.is_full(); --left) {
      Span& span = *by_place_[place].back();
      by_place_[place].move_to_front(span);
      --looks;
      if (span.pending_bytes() >= span.bytes() / 4) found += add_holes_of(span, holes);
    }
  }
  const std::size_t returned = give_back(holes, Comes::kFirst);
  lock_.unlock();
  holes_lock_.unlock();
  return returned;
}

/// Whether the span's holes may have grown, and none of its objects is in demand. Holes that the
/// kernel refused are retried only for kAll: each takes a system call.
bool CentralList::is_due(Span& span, Spans which) noexcept {
  const bool is_unchanged = span.seen_free == span.free_count;
  span.seen_free = span.free_count;
  if (which == Spans::kAll && span.has_left_holes) return true;
  return (is_unchanged || which == Spans::kAll) && span.decommitted_free != span.free_count;
}

void CentralList::list(Span& span) noexcept {
  if (span.free_count == span.object_count) {
    kept_.push_front(span);
    return add_to(kept_count_, std::uint32_t{1});
  }
  if (is_compacting()) [[unlikely]]
    return list_in_order(span);
  list_at(static_cast<unsigned>(std::bit_width(span.free_count)), span);
}

/// Unlists a span that had `free_count` free objects when it was listed.
void CentralList::unlist(Span& span, std::uint32_t free_count) noexcept {
  if (free_count == span.object_count) {
    kept_.remove(span);
    add_to(kept_count_, ~std::uint32_t{0});
    least_kept_ = std::min(least_kept_, kept_spans());
    return;
  }
  const unsigned place = span.place;
  by_place_[place].remove(span);
  --listed_[place];
  if (by_place_[place].is_empty()) nonempty_ &= ~(1u << place);
}

CentralList::Statistics CentralList::statistics() noexcept {
  LockGuard guard(lock_);
  return {span_count(),
          span_count() * span_pages_of(size_class_),
          span_count() * objects_per_span_ - free_objects(),
          free_objects(),
          kept_spans(),
          lock_.waits() + holes_lock_.waits()};
}

void CentralList::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t free = 0;
  std::size_t listed = 0;
  for (unsigned place = 0; place < kPlaces; ++place) {
    std::size_t of_place = 0;
    for (const Span& span : by_place_[place]) {
      std::size_t bits = 0;
      for (std::size_t word = 0; word < span.bitmap_words(); ++word) {
        STRATA_INVARIANT(word >= span.first_word || word < span.first_object / 64u ||
                             span.claimable(static_cast<std::uint32_t>(word)) == 0,
                         "a free object stands below a span's first word");
        bits += static_cast<std::size_t>(std::popcount(span.free_bits[word]));
      }
      STRATA_INVARIANT(bits == span.free_count, "a span's bitmap does not match its count");
      STRATA_INVARIANT(span.place == place && (place == 0) == (bits == 0),
                       "a span is in the wrong list");
      // Those of an earlier turn are put in order later.
      const bool is_in_order = span.turn == turn_;
      STRATA_INVARIANT(!is_in_order || place_of(span) == place, "a span is in the wrong list");
      STRATA_INVARIANT(
          (!is_in_order || span.relist_at == relist_at(place)) && bits < span.relist_at,
          "a span does not know when to be in another list");
      STRATA_INVARIANT(bits != span.object_count, "a span without a claimed object is not kept");
      STRATA_INVARIANT(span.shard == shard_, "a span of another shard is in the list");
      STRATA_INVARIANT(span.size_class == size_class_, "a span of another class is in the list");
      STRATA_INVARIANT(!span.is_homeward || is_compacting() || !is_in_order,
                       "a span is homeward whose list does not compact");
      STRATA_INVARIANT(span.decommitted_free <= span.free_count,
                       "more objects lie in a span's holes than are free");
      STRATA_INVARIANT(span.hole_bytes <= span.bytes(), "a span's holes are larger than itself");
      free += bits;
      ++of_place;
    }
    listed += of_place;
    STRATA_INVARIANT(of_place == listed_[place], "the spans of a list are miscounted");
    STRATA_INVARIANT(
        (place != 0 && !by_place_[place].is_empty()) == ((nonempty_ >> place & 1) != 0),
        "the summary of the span lists is wrong");
  }
  std::size_t kept = 0;
  for (const Span& span : kept_) {
    STRATA_INVARIANT(span.free_count == span.object_count && span.hole_bytes == 0,
                     "a span is kept that is in use, or not held");
    STRATA_INVARIANT(span.size_class == size_class_ && span.shard == shard_,
                     "a span of another list is kept");
    free += span.free_count;
    ++kept;
  }
  STRATA_INVARIANT(kept == kept_spans() && least_kept_ <= kept, "kept spans are miscounted");
  STRATA_INVARIANT(away_ != 0 || free == free_objects(), "free objects are miscounted");
  STRATA_INVARIANT(listed + kept + away_ == span_count(), "a span is listed twice, or not at all");
}

}  // namespace strata
