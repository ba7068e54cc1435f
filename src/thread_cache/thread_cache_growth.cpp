// How a thread's bins grow, and which bin gives way to which.
//
// Each time a bin runs dry or overflows, BinDemand says whether it may ask for room. If so, these
// are tried in turn:
//
//   1. It doubles, out of what the thread's share has left.
//   2. If it has next to nothing, the largest bin is halved for it.
//   3. If its load is lasting, it doubles beyond the share, out of what lasting loads may have.
//   4. If the load presses, all bins that have been idle are halved for it.
//
// If it may not ask, it takes room from an idle bin instead, at one such call in many. A bin of
// some size whose thread only frees the objects, since other threads allocate them, does neither.
//
// A bin is halved when it gives way; when it overflows while its thread holds far more than its
// share; and, if a lasting load has made it grow, when the heap has grown. Then it may ask again.

#include <algorithm>
#include <bit>

#include "thread_cache/thread_cache.h"

namespace strata {
namespace {

// Chosen. A bin has 2^n - 1 objects, so that its slots, including the empty one, are a power of
// two.
constexpr std::size_t kFirstCapacity = 7;
constexpr std::size_t kMaxCapacity = 2047;
// Chosen: what one class of one thread may hold; half of it moves as a batch. Large objects get
// more, since a batch of them is few objects (docs/decisions/0013).
constexpr std::size_t kMaxBinBytes = 96 * 1024;
constexpr std::size_t kMaxBinBytesOfLarge = 256 * 1024;
constexpr std::size_t kLargeFromBytes = 1024;
// Chosen: up to so many objects a bin grows even if its thread only frees them. With 511,
// `handover` takes 0.98 to 1.00 of the memory, with 255 0.94 to 1.00, mostly 0.97.
constexpr std::size_t kMostIfOnlyFreed = 255;
// Chosen: under a lasting load a class may have so many times the bytes, out of what the lasting
// share has left, except for 1/kReservePart of it.
constexpr std::size_t kLastingTimes = 16;
constexpr std::size_t kReservePart = 4;
// Chosen: a thread looks for an idle bin once in so many slow calls of classes that could not grow.
// A look takes as long as such a call. With sixteen times as many looks, bins take turns
// (docs/decisions/0004).
constexpr std::uint8_t kSlowCallsPerLook = 64;
// Chosen: when the heap has grown by this part of itself, and by at least so many pages, memory in
// bins that lasting loads have grown may be of more use elsewhere.
constexpr std::size_t kHeapGrowthPart = 8;
constexpr std::size_t kHeapGrowthPages = (std::size_t{2} << 20) / kPageBytes;
// Chosen: a bin grows to this part of what its thread's share has left, or to kSmallBinBytes while
// anything is left. Otherwise the first bin would take the whole share, and an object of 32 KiB is
// worth less than bins of small ones (docs/decisions/0004).
constexpr std::uint32_t kBinPart = 4;
constexpr std::uint32_t kSmallBinBytes = 1024;
// Chosen: up to this size a class gets a bin if the share has room for one object of it. With all
// sizes, buffers that grow through them (realloc) took 3% more memory.
constexpr std::uint32_t kSurelyCachedBytes = 4096;
// Chosen: the share moves with the heap. A bin that gave way at each change would flush and fill by
// turns.
constexpr std::size_t kShrinkAbove = 2;

std::size_t max_capacity(unsigned size_class, BinDemand::Load load) noexcept {
  const std::size_t bytes = SizeClassMap::bytes_of(size_class);
  const std::size_t usual = bytes < kLargeFromBytes ? kMaxBinBytes : kMaxBinBytesOfLarge;
  const std::size_t most = load == BinDemand::Load::kLasting ? kLastingTimes * usual : usual;
  return std::clamp<std::size_t>(most / bytes, 1, kMaxCapacity);
}

}  // namespace

/// Called when the bin ran dry or overflowed.
/// \returns  whether it has grown
bool ThreadCache::ask_for_room(unsigned size_class, Slow slow) noexcept {
  ran_out_[size_class] = true;
  BinDemand& demand = demands_[size_class];
  const bool has_bin = capacity(size_class) != 0;
  demand.note(slow, has_bin);
  if (demand.only_frees() && capacity(size_class) >= kMostIfOnlyFreed) return false;
  return demand.may_ask(has_bin) ? grow(size_class, budget_->share_bytes())
                                 : take_from_idle(size_class);
}

/// Doubles the bin, as far as its load, its class and the thread's share allow.
/// \returns  false if they do not
bool ThreadCache::grow(unsigned size_class, std::size_t share) noexcept {
  BinDemand& demand = demands_[size_class];
  const Load load = capacity(size_class) != 0 ? load_of(size_class) : Load::kUsual;
  const bool is_lasting = load == Load::kLasting;
  bool has_grown = grow_under(Load::kUsual, size_class, share);
  if (!has_grown) {
    if (!demand.may_look()) return false;
    has_grown = (take_from_largest(size_class) && grow_under(Load::kUsual, size_class, share)) ||
                (is_lasting && grow_under(Load::kLasting, size_class, share)) ||
                (is_lasting && demand.is_pressing() &&
                 capacity(size_class) < max_capacity(size_class, Load::kLasting) && shrink_idle() &&
                 grow_under(Load::kLasting, size_class, share));
  }
  if (has_grown) {
    demand.note_grown(load);
  } else {
    demand.note_refused(load);
  }
  return has_grown;
}

/// Once the heap has grown, shrinks the bins that lasting loads have grown: they may stand in its
/// way. They grow again where the load goes on.
/// \pre  there are some
void ThreadCache::shrink_if_heap_grew() noexcept {
  const std::size_t pages = budget_->heap_pages();
  if (pages < heap_pages_ + std::max(heap_pages_ / kHeapGrowthPart, kHeapGrowthPages)) return;
  heap_pages_ = pages;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    if (has_lasting_[c]) shrink(c);
  }
}

bool ThreadCache::holds_too_much(unsigned size_class, std::size_t share) const noexcept {
  if (has_lasting_[size_class])
    return capacity_bytes_ > kShrinkAbove * budget_->lasting_share_bytes();
  return capacity_bytes_ - lasting_bytes_ > kShrinkAbove * share;
}

/// Halves the bins that neither ran dry nor overflowed since it was last called.
/// \returns  whether there were any
bool ThreadCache::shrink_idle() noexcept {
  const std::size_t before = capacity_bytes_;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = capacity(c) * SizeClassMap::bytes_of(c);
    if (demands_[c].is_idle() && bytes > kSmallBinBytes) shrink(c);
    demands_[c].forget_calls();
  }
  return capacity_bytes_ != before;
}

/// When the share is used up, halves the largest bin for one that has next to nothing. It stays the
/// larger of the two, so that bins do not take turns.
/// \returns  false if none is large enough, the bin is not small, or the objects are not
bool ThreadCache::take_from_largest(unsigned size_class) noexcept {
  const std::size_t now = capacity(size_class);
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class);
  if (now >= kFirstCapacity || object_bytes > kSurelyCachedBytes) return false;
  unsigned largest = 0;
  std::size_t most = 2 * (2 * now + 1) * object_bytes - 1;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t bytes = capacity(c) * SizeClassMap::bytes_of(c);
    if (bytes <= most || has_lasting_[c]) continue;
    most = bytes;
    largest = c;
  }
  if (largest == 0) return false;
  shrink(largest);
  return true;
}

/// Where objects come and go at random, every bin runs dry and overflows now and then. Gives a bin
/// that could not grow room from one that did neither of late: as much of its room as it held
/// objects in, so that all bins together hold no more than before.
/// \returns  whether it has grown
bool ThreadCache::take_from_idle(unsigned size_class) noexcept {
  const std::size_t now = capacity(size_class);
  const std::size_t most = max_capacity(size_class, Load::kUsual);
  if (now == 0 || now >= most) return false;
  if (has_lasting_[size_class] || load_of(size_class) == Load::kLasting) return false;
  if (++slow_calls_ < kSlowCallsPerLook) return false;
  slow_calls_ = 0;
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class);
  const unsigned idle = find_idle(object_bytes);
  ran_out_.reset();
  if (idle == 0) return false;
  const std::size_t gained = spare_bytes(idle) / object_bytes;
  shrink(idle);
  return grow_to(std::min(most, now + gained), size_class);
}

/// The bin with most to spare, at least `bytes`, of those that neither ran dry nor overflowed since
/// the last look; 0 if there is none. Excludes bins that a lasting load has grown, that settle, or
/// that another thread took objects from.
unsigned ThreadCache::find_idle(std::size_t bytes) const noexcept {
  unsigned idle = 0;
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    if (ran_out_[c] || has_lasting_[c] || has_gaps_[c] || settling_[c].is_on()) continue;
    const std::size_t spare = spare_bytes(c);
    if (spare < bytes) continue;
    bytes = spare + 1;
    idle = c;
  }
  return idle;
}

/// How many bytes of room shrink() would take from the bin, but no more than those of the objects
/// that it would flush; 0 if the bin has room for one only.
/// \pre      it has no gaps
std::size_t ThreadCache::spare_bytes(unsigned size_class) const noexcept {
  const std::size_t kept = capacity(size_class) / 2;
  if (kept == 0) return 0;
  const std::size_t left = std::min(held(size_class), kept / 2);
  return std::min(capacity(size_class) - kept, held(size_class) - left) *
         SizeClassMap::bytes_of(size_class);
}

bool ThreadCache::grow_under(Load load, unsigned size_class, std::size_t share) noexcept {
  const std::size_t now = capacity(size_class);
  const std::size_t most = max_capacity(size_class, load);
  if (now >= most) return false;
  const auto left = static_cast<std::uint32_t>(left_of_share(load, share));
  const auto object_bytes = static_cast<std::uint32_t>(SizeClassMap::bytes_of(size_class));
  const std::uint32_t part = load == Load::kLasting
                                 ? left + static_cast<std::uint32_t>(now) * object_bytes
                                 : left / kBinPart;
  // A first object, if it fits at all.
  const bool is_sure = now == 0 && object_bytes <= kSurelyCachedBytes;
  const std::uint32_t least = is_sure ? std::max(kSmallBinBytes, object_bytes) : kSmallBinBytes;
  const std::size_t affordable = std::max(part, std::min(left, least)) / object_bytes;
  if (!grow_to(std::min(most, affordable), size_class)) return false;
  if (load == Load::kLasting && !has_lasting_[size_class]) {
    if (lasting_bytes_ == 0) heap_pages_ = budget_->heap_pages();
    has_lasting_[size_class] = true;
    lasting_bytes_ += now * object_bytes;
  }
  if (has_lasting_[size_class]) lasting_bytes_ += (capacity(size_class) - now) * object_bytes;
  return true;
}

/// Doubles the bin, but not beyond `most` objects.
/// \returns  whether it has grown
bool ThreadCache::grow_to(std::size_t most, unsigned size_class) noexcept {
  const std::size_t now = capacity(size_class);
  const std::size_t wanted = std::min(now == 0 ? kFirstCapacity : 2 * now + 1, most);
  if (wanted <= now) return false;
  if (wanted >= slot_counts_[size_class] && !give_slots(size_class, std::bit_ceil(wanted + 1)))
    return false;
  limits_[size_class] = bases_[size_class] + wanted;
  capacity_bytes_ += (wanted - now) * SizeClassMap::bytes_of(size_class);
  return true;
}

/// By how much bins may grow: within the thread's share, or within what lasting loads may have
/// beside it.
std::size_t ThreadCache::left_of_share(Load load, std::size_t share) const noexcept {
  const auto left = [](std::size_t most, std::size_t now) { return most > now ? most - now : 0; };
  if (load == Load::kUsual && lasting_bytes_ == 0) return left(share, capacity_bytes_);
  const std::size_t lasting = budget_->lasting_share_bytes();
  if (load == Load::kLasting) return left(lasting - lasting / kReservePart, capacity_bytes_);
  return std::min(left(share, capacity_bytes_ - lasting_bytes_), left(lasting, capacity_bytes_));
}

/// Halves the bin, and leaves it at most half full.
void ThreadCache::shrink(unsigned size_class) noexcept {
  close_gaps(size_class);
  const std::size_t kept = capacity(size_class) / 2;
  if (held(size_class) > kept / 2) flush(size_class, held(size_class) - kept / 2);
  set_capacity(size_class, kept);
}

/// \pre  it has no gaps, holds no more, and has the slots
void ThreadCache::set_capacity(unsigned size_class, std::size_t count) noexcept {
  const std::size_t object_bytes = SizeClassMap::bytes_of(size_class);
  const std::size_t bytes = capacity(size_class) * object_bytes;
  demands_[size_class].note_shrunk();
  limits_[size_class] = bases_[size_class] + count;
  capacity_bytes_ += count * object_bytes - bytes;
  if (has_lasting_[size_class]) lasting_bytes_ -= bytes;
  has_lasting_[size_class] = false;
}

}  // namespace strata
