// How a list hands out the objects of its spans.

#include <algorithm>
#include <bit>

#include "base/fatal.h"
#include "central/central_list.h"

namespace strata {
namespace {

/// The next word with objects to claim, from `word` on. After the last word it wraps to the first;
/// from then on, the objects below the span's first one are like any other.
std::uint32_t next_claimable(Span& span, std::uint32_t word) noexcept {
  while (span.claimable(word) == 0) {
    if (++word != span.bitmap_words()) continue;
    STRATA_DCHECK(span.first_object != 0);
    span.first_object = 0;
    word = 0;
  }
  return word;
}

// Chosen: from so many neighbours on, each address is an addition. A shorter row is not worth the
// branch that ends it, which no processor predicts where objects came back in no order.
constexpr std::size_t kLeastRow = 32;

/// Takes up to `count` objects whose bits are set in `word`, the lowest first. `base` is the
/// address of bit 0's object.
/// \pre      word != 0
/// \returns  the bits that are left
[[gnu::always_inline]] inline std::uint64_t take_up(std::uint64_t word, char* base,
                                                    std::size_t object_bytes, void**& end,
                                                    std::size_t& count) noexcept {
  const auto first = static_cast<unsigned>(std::countr_zero(word));
  const auto row = std::min(static_cast<std::size_t>(std::countr_one(word >> first)), count);
  if (row >= kLeastRow) {
    char* object = base + first * object_bytes;
    void** const row_end = end - row;
    do {
      *--end = object;
      object += object_bytes;
    } while (end != row_end);
    word ^= detail::low_bits<std::uint64_t>(static_cast<unsigned>(row)) << first;
    count -= row;
  }
  for (; word != 0 && count != 0; --count, word &= word - 1)
    *--end = base + static_cast<unsigned>(std::countr_zero(word)) * object_bytes;
  return word;
}

/// The same, the highest first.
[[gnu::always_inline]] inline std::uint64_t take_down(std::uint64_t word, char* base,
                                                      std::size_t object_bytes, void**& end,
                                                      std::size_t& count) noexcept {
  const auto above = static_cast<unsigned>(std::countl_zero(word));
  const auto row = std::min(static_cast<std::size_t>(std::countl_one(word << above)), count);
  if (row >= kLeastRow) {
    char* object = base + (63 - above) * object_bytes;
    void** const row_end = end - row;
    do {
      *--end = object;
      object -= object_bytes;
    } while (end != row_end);
    const auto length = static_cast<unsigned>(row);
    word ^= detail::low_bits<std::uint64_t>(length) << (64 - above - length);
    count -= row;
  }
  for (; word != 0 && count != 0; --count) {
    const auto bit = static_cast<unsigned>(63 - std::countl_zero(word));
    *--end = base + bit * object_bytes;
    word ^= std::uint64_t{1} << bit;
  }
  return word;
}

char* base_of_word(const Span& span, std::uint32_t word) noexcept {
  return span.start + std::size_t{word} * 64 * span.object_bytes;
}

/// Takes up to `count` objects of the span, the lowest first.
/// \pre      it has so many
/// \returns  the new end
void** take_lowest(Span& span, void** end, std::size_t count) noexcept {
  const std::size_t object_bytes = span.object_bytes;
  std::uint32_t word_index = span.first_word;
  while (count != 0) {
    word_index = next_claimable(span, word_index);
    const std::uint64_t word = span.claimable(word_index);
    const std::uint64_t below = span.free_bits[word_index] ^ word;
    char* const base = base_of_word(span, word_index);
    span.free_bits[word_index] = below | take_up(word, base, object_bytes, end, count);
  }
  span.first_word = word_index;
  return end;
}

/// The same from the other end: from below the span's first object down, and then from the top.
[[gnu::noinline]] void** take_highest(Span& span, void** end, std::size_t count) noexcept {
  const std::size_t object_bytes = span.object_bytes;
  std::uint32_t word_index = span.first_object / 64u;
  std::uint64_t word =
      span.free_bits[word_index] & detail::low_bits<std::uint64_t>(span.first_object % 64u);
  for (;;) {
    if (word != 0) {
      char* const base = base_of_word(span, word_index);
      span.free_bits[word_index] ^= word ^ take_down(word, base, object_bytes, end, count);
    }
    if (count == 0) return end;
    word_index = (word_index != 0 ? word_index : span.bitmap_words()) - 1;
    word = span.free_bits[word_index];
  }
}

/// The bytes of the word whose bits are all set.
constexpr std::uint64_t whole_bytes(std::uint64_t word) noexcept {
  word &= word >> 4;
  word &= word >> 2;
  word &= word >> 1;
  return (word & 0x0101'0101'0101'0101u) * 0xFF;
}

// Eight neighbours, whose bits are a byte of the bitmap, fill lines of memory.
constexpr std::uint32_t kNeighboursInLines = 8;
static_assert(kNeighboursInLines * SizeClassMap::kGrain % detail::kCacheLineBytes == 0);

/// Takes up to `count` objects of the span in lines where nobody has an object, from the end
/// `from`.
/// \returns  the new end
[[gnu::noinline]] void** take_whole_lines(Span& span, void** end, std::size_t count,
                                          CentralList::From from) noexcept {
  const bool is_up = from == CentralList::From::kLowest;
  const std::size_t object_bytes = span.object_bytes;
  const std::uint32_t words = span.bitmap_words();
  std::uint32_t word_index = is_up ? span.first_word : span.first_object / 64u;
  for (std::uint32_t left = words; left != 0 && count != 0; --left) {
    if (!is_up) word_index = (word_index != 0 ? word_index : words) - 1;
    const std::uint64_t word = whole_bytes(span.claimable(word_index));
    if (word != 0) {
      char* const base = base_of_word(span, word_index);
      span.free_bits[word_index] ^=
          word ^ (is_up ? take_up(word, base, object_bytes, end, count)
                        : take_down(word, base, object_bytes, end, count));
    }
    if (is_up) word_index = word_index + 1 != words ? word_index + 1 : 0;
  }
  return end;
}

/// Marks those of `count` objects that are fresh.
[[gnu::cold, gnu::noinline]] void mark_fresh(Span& span, void** objects,
                                             std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) objects[i] = span.take_fresh(objects[i]);
}

}  // namespace

std::size_t CentralList::claim(void** end, std::size_t count) noexcept {
  {
    LockGuard guard(lock_);
    const std::size_t claimed = claim_locked(end, count);
    if (claimed != 0 || away_ == 0) return claimed;
  }
  LockGuard turn(holes_lock_);
  LockGuard guard(lock_);
  return claim_locked(end, count);
}

Tried CentralList::try_claim(void** end, std::size_t count, From from, First first) noexcept {
  if (!lock_.try_lock()) return {0, true};
  const std::size_t claimed = claim_locked(end, count, from, first);
  lock_.unlock();
  return {claimed, false};
}

std::size_t CentralList::claim_locked(void** end, std::size_t count, From from,
                                      First first) noexcept {
  std::size_t claimed = 0;
  std::ptrdiff_t pending = 0;
  while (claimed < count) {
    Span* const span = take_span_with_free_objects();
    if (span == nullptr) break;
    const std::size_t wanted = count - claimed;
    const std::size_t taken = wanted < span->free_count ? wanted : span->free_count;
    void** const span_end = end - taken;
    if (first == First::kWholeLines && span->free_count >= kNeighboursInLines)
      end = take_whole_lines(*span, end, taken, from);
    const auto left = static_cast<std::size_t>(end - span_end);
    if (left != 0)
      end = from == From::kLowest ? take_lowest(*span, end, left) : take_highest(*span, end, left);
    if (span->fresh_objects != 0) mark_fresh(*span, end, taken);
    pending -= count_taken(*span, taken);
    claimed += taken;
  }
  add_pending(pending);
  return claimed;
}

void* CentralList::claim_at_random(std::uint64_t random) noexcept {
  LockGuard guard(lock_);
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
  add_pending(-count_taken(*span, 1));
  void* const object =
      span->start + (word * 64 + static_cast<std::size_t>(bit)) * span->object_bytes;
  return span->fresh_objects != 0 ? span->take_fresh(object) : object;
}

/// The fullest span with a free object, or the first by address while the list compacts. It is
/// unlisted until count_taken().
Span* CentralList::take_span_with_free_objects() noexcept {
  Span* span = nonempty_ != 0 ? by_place_[std::countr_zero(nonempty_)].front() : kept_.front();
  if (span != nullptr && !spans_.fill_holes(*span)) [[unlikely]]
    span = find_without_holes();
  if (span == nullptr) return nullptr;
  unlist(*span, span->free_count);
  if (span->is_homeward) [[unlikely]] {
    spans_.set_homeward(*span, false);
    if (lists_anew()) list_some_anew();
  }
  return span;
}

/// A span with free objects and no holes, for when the limit forbids filling holes. Spans that were
/// examined go to the back of their list, so that the next call examines others.
[[gnu::cold, gnu::noinline]] Span* CentralList::find_without_holes() noexcept {
  if (!kept_.is_empty()) return kept_.front();
  for (unsigned place = 1; place < kPlaces; ++place) {
    std::size_t looks = std::min<std::size_t>(listed_[place], kLooksPerHold);
    for (; looks != 0; --looks) {
      Span& span = *by_place_[place].front();
      if (span.hole_bytes == 0) return &span;
      by_place_[place].move_to_back(span);
    }
  }
  return nullptr;
}

/// Accounts for claimed objects, and lists the span again.
/// \returns  how many of its pending bytes they were
std::ptrdiff_t CentralList::count_taken(Span& span, std::size_t taken) noexcept {
  const std::uint32_t pending_before = span.free_count - span.decommitted_free;
  span.free_count -= static_cast<std::uint32_t>(taken);
  span.decommitted_free = std::min(span.decommitted_free, span.free_count);
  span.seen_free = kNotSeen;
  const std::uint32_t gone = pending_before - (span.free_count - span.decommitted_free);
  add_to(free_, std::size_t{0} - taken);
  list(span);
  return static_cast<std::ptrdiff_t>(std::size_t{gone} * span.object_bytes);
}

}  // namespace strata
