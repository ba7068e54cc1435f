#include "span/kept_ranges.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/fatal.h"
#include "os/page_source.h"

namespace strata {

bool KeptRanges::make_room() noexcept {
  if (ranges_ == nullptr)
    ranges_ = static_cast<Kept*>(metadata_.allocate_forever((kMost + 1) * sizeof(Kept)));
  return ranges_ != nullptr;
}

/// The first range that begins at the address or above it; the end if there is none.
[[gnu::always_inline]] inline KeptRanges::Kept* KeptRanges::first_from(
    std::uintptr_t address) const noexcept {
  return std::lower_bound(ranges_, ranges_ + count_, address,
                          [](const Kept& a, std::uintptr_t b) { return a.address < b; });
}

/// The range of which a measure, &Kept::bytes or &Kept::room, is largest; nullptr if there is none.
template <typename Measure>
KeptRanges::Kept* KeptRanges::with_most(Measure measure) const noexcept {
  Kept* most = nullptr;
  for (Kept* range = ranges_; range != ranges_ + count_; ++range) {
    if (most == nullptr || std::invoke(measure, *range) > std::invoke(measure, *most)) most = range;
  }
  return most;
}

[[gnu::always_inline]] inline void KeptRanges::cut_front(Kept& range, std::size_t bytes) noexcept {
  range.address += bytes;
  range.bytes -= bytes;
  if (range.bytes == 0) forget(range);
  set_bytes(this->bytes() - bytes);
}

bool KeptRanges::take(Range range) noexcept {
  Kept* const found = first_from(range.address);
  if (found == ranges_ + count_ || found->address != range.address || found->bytes != range.bytes)
    return false;
  forget(*found);
  set_bytes(bytes() - range.bytes);
  return true;
}

bool KeptRanges::take_fitting(std::size_t bytes, std::size_t alignment, Range& out) noexcept {
  Kept* best = nullptr;
  for (std::size_t i = 0; i < count_; ++i) {
    Kept& range = ranges_[i];
    if (range.bytes >= bytes && range.address % alignment == 0 &&
        (best == nullptr || range.bytes < best->bytes)) {
      best = &range;
    }
  }
  if (best == nullptr) return false;
  out = {best->address, bytes};
  best->is_behind_a_grower = false;
  cut_front(*best, bytes);
  return true;
}

bool KeptRanges::take_roomiest(std::size_t bytes, Range& out) noexcept {
  Kept* range = with_most(&Kept::room);
  if (range == nullptr) return false;
  if (range->room() < bytes) range = with_most(&Kept::bytes);  // nothing is left to others then
  if (range->bytes < bytes) return false;
  const std::size_t left = detail::round_down(range->bytes - range->room(), os::page_bytes());
  if (left != 0 && range->room() >= bytes && count_ < kMost) range = split(*range, left);
  out = {range->address, bytes};
  range->is_behind_a_grower = true;
  cut_front(*range, bytes);
  return true;
}

/// Splits a range behind its first `bytes`. The two parts touch until the caller has taken the
/// front of the second one.
/// \pre      count() < kMost
/// \returns  the second one
KeptRanges::Kept* KeptRanges::split(Kept& range, std::size_t bytes) noexcept {
  Kept& rest = *(&range + 1);
  std::memmove(&rest, &range, static_cast<std::size_t>(ranges_ + count_ - &range) * sizeof(Kept));
  ++count_;
  range.bytes = bytes;
  rest.address += bytes;
  rest.bytes -= bytes;
  return &rest;
}

bool KeptRanges::take_front(Range front) noexcept {
  Kept* const range = first_from(front.address);
  if (range == ranges_ + count_ || range->address != front.address || range->bytes < front.bytes)
    return false;
  cut_front(*range, front.bytes);
  return true;
}

void KeptRanges::leave_nothing_at(std::uintptr_t address) noexcept {
  Kept* const range = first_from(address);
  if (range != ranges_ + count_ && range->address == address) range->is_behind_a_grower = false;
}

bool KeptRanges::take_extendable(std::size_t bytes, Range& out) noexcept {
  Kept* const range = with_most(&Kept::bytes);
  if (range == nullptr || range->bytes < bytes / kExtendShare) return false;
  out = {range->address, range->bytes};
  forget(*range);
  set_bytes(this->bytes() - out.bytes);
  return true;
}

KeptRanges::Range KeptRanges::take_oldest(std::size_t most_bytes) noexcept {
  Kept& oldest = *std::min_element(ranges_, ranges_ + count_, [](const Kept& a, const Kept& b) {
    return a.added_at < b.added_at;
  });
  const std::size_t taken = std::min(most_bytes, oldest.bytes);
  oldest.bytes -= taken;
  const Range range{oldest.end(), taken};
  if (oldest.bytes == 0) forget(oldest);
  set_bytes(bytes() - taken);
  return range;
}

void KeptRanges::add(Range range) noexcept {
  set_bytes(bytes() + range.bytes);
  Kept* const end = ranges_ + count_;
  Kept* next = first_from(range.address);
  Kept* previous = next != ranges_ && (next - 1)->end() == range.address ? next - 1 : nullptr;
  const bool joins_next = next != end && range.address + range.bytes == next->address;
  ++additions_;
  if (previous != nullptr) {
    previous->bytes += range.bytes + (joins_next ? next->bytes : 0);
    previous->added_at = additions_;
    if (joins_next) forget(*next);
  } else if (joins_next) {
    *next = {range.address, range.bytes + next->bytes, additions_, false};
  } else {
    std::memmove(next + 1, next, static_cast<std::size_t>(end - next) * sizeof(Kept));
    *next = {range.address, range.bytes, additions_, false};
    ++count_;
  }
}

std::size_t KeptRanges::draw_unneeded() noexcept {
  const std::size_t unneeded = least_bytes_;
  least_bytes_ = bytes() - unneeded;
  return unneeded;
}

void KeptRanges::forget(Kept& range) noexcept {
  std::memmove(&range, &range + 1,
               static_cast<std::size_t>(ranges_ + count_ - (&range + 1)) * sizeof(Kept));
  --count_;
}

void KeptRanges::set_bytes(std::size_t bytes) noexcept {
  bytes_.store(bytes, std::memory_order_relaxed);
  least_bytes_ = std::min(least_bytes_, bytes);
}

bool KeptRanges::overlaps(Range range) const noexcept {
  const Kept* const next = first_from(range.address);
  return (next != ranges_ + count_ && next->address < range.address + range.bytes) ||
         (next != ranges_ && (next - 1)->end() > range.address);
}

bool KeptRanges::leaves_some_at(std::uintptr_t address) const noexcept {
  const Kept* const range = first_from(address);
  return range != ranges_ + count_ && range->address == address && range->is_behind_a_grower;
}

std::size_t KeptRanges::count_left() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      ranges_, ranges_ + count_, [](const Kept& range) { return range.is_behind_a_grower; }));
}

void KeptRanges::check_invariants() const noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    kept += ranges_[i].bytes;
    STRATA_INVARIANT(i == 0 || ranges_[i - 1].end() < ranges_[i].address,
                     "kept ranges touch or are out of order");
  }
  STRATA_INVARIANT(kept == bytes(), "kept bytes are miscounted");
}

}  // namespace strata
