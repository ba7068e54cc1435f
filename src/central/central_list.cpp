#include "central/central_list.h"

#include <algorithm>
#include <bit>

#include "base/fatal.h"

namespace strata {
namespace {

/// The next word with objects to claim, from `word` on. After the last one comes the first, and
/// what lies below the span's first object is like any other from then on.
std::uint32_t next_claimable(Span& span, std::uint32_t word) noexcept {
  while (span.claimable(word) == 0) {
    if (++word != span.bitmap_words()) continue;
    STRATA_DCHECK(span.first_object != 0);
    span.first_object = 0;
    word = 0;
  }
  return word;
}

/// Takes up to `count` objects of the span, the lowest first.
/// \pre      it has so many
/// \returns  the new end
void** take_objects(Span& span, void** end, std::size_t count) noexcept {
  std::uint32_t word_index = span.first_word;
  const std::size_t object_bytes = span.object_bytes;
  while (count != 0) {
    word_index = next_claimable(span, word_index);
    const std::uint64_t below = span.free_bits[word_index] ^ span.claimable(word_index);
    std::uint64_t word = span.claimable(word_index);
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
    span.free_bits[word_index] = word | below;
  }
  span.first_word = word_index;
  return end;
}

/// The same, the other way round: from below the span's first object down, and then from the top.
void** take_highest(Span& span, void** end, std::size_t count) noexcept {
  const std::size_t object_bytes = span.object_bytes;
  const std::uint32_t first = span.first_object;
  std::uint32_t word_index = first / 64;
  std::uint64_t word = span.free_bits[word_index] & detail::low_bits<std::uint64_t>(first % 64);
  for (;;) {
    char* const base = span.start + std::size_t{word_index} * 64 * object_bytes;
    while (word != 0 && count != 0) {
      const auto above = static_cast<unsigned>(std::countl_zero(word));
      const auto run = std::min(static_cast<std::size_t>(std::countl_one(word << above)), count);
      const auto length = static_cast<unsigned>(run);
      const std::uint64_t taken = detail::low_bits<std::uint64_t>(length) << (64 - above - length);
      char* object = base + (63 - above) * object_bytes;
      void** const run_end = end - run;
      do {
        *--end = object;
        object -= object_bytes;
      } while (end != run_end);
      word &= ~taken;
      span.free_bits[word_index] &= ~taken;
      count -= run;
    }
    if (count == 0) return end;
    word_index = (word_index != 0 ? word_index : span.bitmap_words()) - 1;
    word = span.free_bits[word_index];
  }
}

/// Marks those of `count` objects that are fresh.
[[gnu::cold, gnu::noinline]] void mark_fresh(Span& span, void** objects,
                                             std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) objects[i] = span.take_fresh(objects[i]);
}

}  // namespace

std::size_t CentralList::claim(void** end, std::size_t count) noexcept {
  LockGuard guard(lock_);
  return claim_locked(end, count);
}

CentralList::Claimed CentralList::try_claim(void** end, std::size_t count, From from) noexcept {
  if (!lock_.try_lock()) return {0, true};
  const std::size_t claimed = claim_locked(end, count, from);
  lock_.unlock();
  return {claimed, false};
}

std::size_t CentralList::claim_locked(void** end, std::size_t count, From from) noexcept {
  std::size_t claimed = 0;
  std::ptrdiff_t pending = 0;
  while (claimed < count) {
    Span* const span = take_span_with_free_objects();
    if (span == nullptr) break;
    const std::size_t wanted = count - claimed;
    const std::size_t taken = wanted < span->free_count ? wanted : span->free_count;
    end = from == From::kLowest ? take_objects(*span, end, taken) : take_highest(*span, end, taken);
    if (span->fresh_objects != 0) mark_fresh(*span, end, taken);
    count_taken(*span, taken, pending);
    claimed += taken;
  }
  add_pending(pending);
  return claimed;
}

void* CentralList::claim_at_random(std::uint64_t random) noexcept {
  LockGuard guard(lock_);
  std::ptrdiff_t pending = 0;
  Span* const span = take_span_with_free_objects();
  if (span == nullptr) return nullptr;
  const std::size_t words = span->bitmap_words();
  const auto first = static_cast<std::uint32_t>((random >> 32) % span->object_count);
  std::size_t word = first / 64;
  const auto free_in = [span](std::size_t i) {
    const bool has_others = span->free_count > 1;
    return i == 0 && has_others ? span->free_bits[0] & ~std::uint64_t{1} : span->free_bits[i];
  };
  while (free_in(word) == 0) word = word + 1 != words ? word + 1 : 0;
  const auto turn = static_cast<int>(first % 64);
  const int bit = (std::countr_zero(std::rotr(free_in(word), turn)) + turn) % 64;
  span->free_bits[word] &= ~(std::uint64_t{1} << bit);
  count_taken(*span, 1, pending);
  add_pending(pending);
  void* const object =
      span->start + (word * 64 + static_cast<std::size_t>(bit)) * span->object_bytes;
  return span->fresh_objects != 0 ? span->take_fresh(object) : object;
}

/// The fullest span that has a free object, or the first by address, unlisted until count_taken().
Span* CentralList::take_span_with_free_objects() noexcept {
  Span* span = nonempty_ != 0 ? by_free_[std::countr_zero(nonempty_)].front() : kept_.front();
  if (span != nullptr && !spans_.fill_holes(*span)) [[unlikely]]
    span = find_without_holes();
  if (span == nullptr) return nullptr;
  unlist(*span, span->free_count);
  if (span->is_homeward) [[unlikely]]
    spans_.set_homeward(*span, false);
  return span;
}

/// A span with free objects that needs no more memory, for when holes may not be filled. Those that
/// were looked at go to the back, so that the next call looks at others.
[[gnu::cold, gnu::noinline]] Span* CentralList::find_without_holes() noexcept {
  if (!kept_.is_empty()) return kept_.front();
  unsigned looks = kLooksPerHold;
  for (unsigned width = 1; width < kWidths; ++width) {
    for (std::size_t left = listed_[width]; left != 0 && looks != 0; --left, --looks) {
      Span& span = *by_free_[width].front();
      if (span.hole_bytes == 0) return &span;
      by_free_[width].remove(span);
      by_free_[width].push_back(span);
    }
  }
  return nullptr;
}

/// Counts objects whose bits were cleared, and lists the span again.
void CentralList::count_taken(Span& span, std::size_t taken, std::ptrdiff_t& pending) noexcept {
  const std::uint32_t pending_before = span.free_count - span.decommitted_free;
  span.free_count -= static_cast<std::uint32_t>(taken);
  span.decommitted_free = std::min(span.decommitted_free, span.free_count);
  span.seen_free = kNotSeen;
  const std::uint32_t gone = pending_before - (span.free_count - span.decommitted_free);
  pending -= static_cast<std::ptrdiff_t>(std::size_t{gone} * span.object_bytes);
  add_to(free_, std::size_t{0} - taken);
  list(span);
}

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

/// Stops counting an unlisted span.
void CentralList::remove(Span& span) noexcept {
  add_pending(-static_cast<std::ptrdiff_t>(span.pending_bytes()));
  --span_count_;
  add_to(free_, std::size_t{0} - span.free_count);
}

void CentralList::add(Span& span) noexcept {
  LockGuard guard(lock_);
  receive(span);
}

std::size_t CentralList::add_and_claim(Span* const* spans, std::size_t span_count, void** end,
                                       std::size_t count) noexcept {
  LockGuard guard(lock_);
  receive_new(spans, span_count);
  return claim_locked(end, count);
}

CentralList::Claimed CentralList::try_add_and_claim(Span* const* spans, std::size_t span_count,
                                                    void** end, std::size_t count) noexcept {
  if (!lock_.try_lock()) return {0, true};
  receive_new(spans, span_count);
  const std::size_t claimed = claim_locked(end, count);
  lock_.unlock();
  return {claimed, false};
}

/// Takes over spans that are new, the first one to be used first.
void CentralList::receive_new(Span* const* spans, std::size_t span_count) noexcept {
  for (std::size_t i = span_count; i != 0; --i) receive(*spans[i - 1]);
  const std::size_t next = std::min({2 * next_growth(), kMostAhead, 1 + span_count_ / kAheadPart});
  next_growth_.store(next, std::memory_order_relaxed);
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
  ++span_count_;
  add_to(free_, std::size_t{span.free_count});
  add_pending(static_cast<std::ptrdiff_t>(span.pending_bytes()));
  follow(span);
  list(span);
}

Span* CentralList::give(Which which) noexcept {
  Span* span = kept_.front();
  if (span == nullptr && which == Which::kEmptiest && nonempty_ != 0)
    span = by_free_[std::bit_width(nonempty_) - 1].front();
  if (span == nullptr) return nullptr;
  unlist(*span, span->free_count);
  remove(*span);
  return span;
}

std::size_t CentralList::destroy_kept(std::size_t count, Was was) noexcept {
  std::size_t destroyed = 0;
  LockGuard guard(lock_);
  for (; destroyed < count; ++destroyed) {
    Span* const span = kept_.back();
    if (span == nullptr) break;
    next_growth_.store(1, std::memory_order_relaxed);
    unlist(*span, span->free_count);
    remove(*span);
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
  for (auto& list : by_free_) list.forget_all();
  for (std::size_t& listed : listed_) listed = 0;
  kept_.forget_all();
  nonempty_ = 0;
  least_kept_ = span_count_ = returned_ = 0;
  is_compacting_.store(false, std::memory_order_relaxed);
  watched_from_ = worth_compacting(size_class_);
  patience_ = 1;
  pending_.store(0, std::memory_order_relaxed);
  tally_.settle(0, said_);
  kept_count_.store(0, std::memory_order_relaxed);
  next_growth_.store(1, std::memory_order_relaxed);
  free_.store(0, std::memory_order_relaxed);
}

std::size_t CentralList::decommit_holes(Spans which) noexcept {
  std::size_t returned = 0;
  LockGuard guard(lock_);
  HoleBatch holes(spans_);
  unsigned looks = 0;
  unsigned due = 0;
  for (unsigned width = 1; width < kWidths; ++width) {
    // Each span goes to the back once it has been looked at, so that the round is over when as many
    // were looked at as the list had. What others move meanwhile is seen in the next round.
    for (std::size_t left = listed_[width]; left != 0 && !by_free_[width].is_empty(); --left) {
      Span& span = *by_free_[width].front();
      by_free_[width].remove(span);
      by_free_[width].push_back(span);
      ++looks;
      if (is_due(span, which)) {
        ++due;
        add_holes_of(span, holes);
      }
      if (due == kSpansPerHold || looks == kLooksPerHold) {
        looks = due = 0;
        returned += holes.give_back();
        guard.unlock();
        guard.lock();
      }
    }
  }
  return returned + holes.give_back();
}

std::size_t CentralList::add_holes_of(Span& span, HoleBatch& holes) noexcept {
  add_pending(-static_cast<std::ptrdiff_t>(span.pending_bytes()));
  span.decommitted_free = span.free_count;
  return holes.add(span);
}

std::size_t CentralList::decommit_holes_of_emptiest(std::size_t bytes) noexcept {
  LockGuard guard(lock_);
  HoleBatch holes(spans_, HoleBatch::Why::kGrowth);
  std::size_t found = 0;
  const unsigned widest =
      is_compacting() ? kNearlyEmpty : static_cast<unsigned>(std::bit_width(objects_per_span_));
  unsigned looks = kSpansPerHold;
  for (unsigned width = widest; width != 0 && width + 2 >= widest; --width) {
    // From the back: what was used longest ago.
    for (std::size_t left = listed_[width]; left != 0 && looks != 0 && found < bytes; --left) {
      Span& span = *by_free_[width].back();
      by_free_[width].remove(span);
      by_free_[width].push_front(span);
      --looks;
      if (span.pending_bytes() >= span.bytes() / 4) found += add_holes_of(span, holes);
    }
  }
  return holes.give_back();
}

/// True if the span's holes may be larger than they were, and none of its objects is in demand.
bool CentralList::is_due(Span& span, Spans which) noexcept {
  const bool is_unchanged = span.seen_free == span.free_count;
  span.seen_free = span.free_count;
  return (is_unchanged || which == Spans::kAll) && span.decommitted_free != span.free_count;
}

void CentralList::list(Span& span) noexcept {
  if (span.free_count == span.object_count) {
    kept_.push_front(span);
    return add_to(kept_count_, std::size_t{1});
  }
  if (is_compacting()) [[unlikely]]
    return list_in_order(span);
  list_at(static_cast<unsigned>(std::bit_width(span.free_count)), span);
}

/// Unlists a span that was listed when it had `free_count` free objects.
void CentralList::unlist(Span& span, std::uint32_t free_count) noexcept {
  if (free_count == span.object_count) {
    kept_.remove(span);
    add_to(kept_count_, ~std::size_t{0});
    least_kept_ = std::min(least_kept_, kept_spans());
    return;
  }
  const unsigned width = span.place;
  by_free_[width].remove(span);
  --listed_[width];
  if (by_free_[width].is_empty()) nonempty_ &= ~(1u << width);
}

CentralList::Statistics CentralList::statistics() noexcept {
  LockGuard guard(lock_);
  return {span_count_,
          span_count_ * span_pages_of(size_class_),
          span_count_ * objects_per_span_ - free_objects(),
          free_objects(),
          kept_spans(),
          lock_.waits()};
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
        STRATA_INVARIANT(word >= span->first_word || word < span->first_object / 64u ||
                             span->claimable(static_cast<std::uint32_t>(word)) == 0,
                         "a free object stands below a span's first word");
        bits += static_cast<std::size_t>(std::popcount(span->free_bits[word]));
      }
      STRATA_INVARIANT(bits == span->free_count, "a span's bitmap does not match its count");
      STRATA_INVARIANT(place_of(*span) == width && span->place == width,
                       "a span is in the wrong list");
      STRATA_INVARIANT(bits != span->object_count, "a span without a claimed object is not kept");
      STRATA_INVARIANT(span->shard == shard_, "a span of another shard is in the list");
      STRATA_INVARIANT(span->size_class == size_class_, "a span of another class is in the list");
      STRATA_INVARIANT(!span->is_homeward || is_compacting(),
                       "a span is homeward whose list does not compact");
      STRATA_INVARIANT(span->decommitted_free <= span->free_count,
                       "more objects lie in a span's holes than are free");
      STRATA_INVARIANT(span->hole_bytes <= span->bytes(), "a span's holes are larger than itself");
      free += bits;
      ++of_width;
    }
    listed += of_width;
    STRATA_INVARIANT(of_width == listed_[width], "the spans of a list are miscounted");
    STRATA_INVARIANT((width != 0 && !by_free_[width].is_empty()) == ((nonempty_ >> width & 1) != 0),
                     "the summary of the span lists is wrong");
  }
  std::size_t kept = 0;
  for (Span* span = kept_.front(); span != nullptr; span = kept_.next(*span)) {
    STRATA_INVARIANT(span->free_count == span->object_count && span->hole_bytes == 0,
                     "a span is kept that is in use, or not held");
    STRATA_INVARIANT(span->size_class == size_class_ && span->shard == shard_,
                     "a span of another list is kept");
    free += span->free_count;
    ++kept;
  }
  STRATA_INVARIANT(kept == kept_spans() && least_kept_ <= kept, "kept spans are miscounted");
  STRATA_INVARIANT(free == free_objects(), "free objects are miscounted");
  STRATA_INVARIANT(listed + kept == span_count_, "a span is listed twice, or not at all");
}

}  // namespace strata
