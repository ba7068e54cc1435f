#include "user_heap/bookkeeping_pages.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fatal.h"

namespace strata {

std::size_t BookkeepingPages::units_of(std::size_t bytes) noexcept {
  return std::bit_ceil((bytes + kUnitBytes - 1) / kUnitBytes);
}

// The first two windows have the same size; each later one is twice as large as the one before.
std::size_t BookkeepingPages::window_of(std::size_t unit) noexcept {
  return static_cast<std::size_t>(std::bit_width(unit / kFirstWindowUnits));
}
std::size_t BookkeepingPages::first_unit_of(std::size_t window) noexcept {
  return window == 0 ? 0 : kFirstWindowUnits << (window - 1);
}

void* BookkeepingPages::map(std::size_t bytes) noexcept {
  if (bytes <= kLargestBytes) {
    LockGuard guard(lock_);
    if (void* const range = take(units_of(bytes))) return range;
  }
  return pages_.map_apart(bytes);
}

bool BookkeepingPages::unmap(void* address, std::size_t bytes) noexcept {
  std::size_t unit;
  {
    LockGuard guard(lock_);
    unit = unit_at(address);
  }
  if (unit == kNone) return pages_.unmap_apart(address, bytes);
  // Memory that is locked (mlockall) stays; it must read as zero for its next owner.
  if (!pages_.decommit(address, bytes)) std::memset(address, 0, bytes);
  LockGuard guard(lock_);
  set_free(unit, units_of(bytes));
  return true;
}

/// \returns  nullptr when out of memory, or of windows
void* BookkeepingPages::take(std::size_t units) noexcept {
  std::size_t unit = find(units);
  if (unit == kNone) unit = open_window();
  if (unit == kNone) return nullptr;
  Window& window = windows_[window_of(unit)];
  const std::size_t place = unit - first_unit_of(window_of(unit));
  const std::size_t end = place + units;
  if (end > window.writable_units) {
    char* const first = window.start + window.writable_units * kUnitBytes;
    if (!pages_.commit(first, (end - window.writable_units) * kUnitBytes)) return nullptr;
    window.writable_units = end;
  }
  free_word(unit / 64) &= ~((~std::uint64_t{0} >> (64 - units)) << unit % 64);
  return window.start + place * kUnitBytes;
}

/// Finds the lowest range of so many free units that is aligned to as many.
std::size_t BookkeepingPages::find(std::size_t units) noexcept {
  const std::size_t words = (unit_count_ + 63) / 64;
  while (first_free_word_ < words && free_word(first_free_word_) == 0) ++first_free_word_;
  // A bit in `units` of them.
  const std::uint64_t aligned = ~std::uint64_t{0} / (~std::uint64_t{0} >> (64 - units));
  for (std::size_t word = first_free_word_; word < words; ++word) {
    std::uint64_t starts = free_word(word);
    for (std::size_t step = 1; step < units; step *= 2) starts &= starts >> step;
    starts &= aligned;
    if (starts != 0) return word * 64 + static_cast<std::size_t>(std::countr_zero(starts));
  }
  return kNone;
}

/// Reserves the next window.
/// \returns  its first unit, kNone when out of addresses
std::size_t BookkeepingPages::open_window() noexcept {
  if (window_count_ == kMostWindows) return kNone;
  const std::size_t first = unit_count_;
  const std::size_t units = std::max(first, kFirstWindowUnits);
  const std::size_t page = os::page_bytes();
  const std::size_t of_bits = units < 64 ? 0 : detail::round_up(units / 8, page);
  const std::size_t bytes = page + of_bits + units * kUnitBytes + page;
  auto* const start = static_cast<char*>(pages_.reserve(bytes));
  if (start == nullptr) return kNone;
  char* const bits = start + page;
  if (of_bits != 0 && !pages_.commit(bits, of_bits)) {
    pages_.unmap(start, bytes);
    return kNone;
  }
  pages_.advise_small(start, bytes);  // a huge page would hold memory that no heap uses
  windows_[window_count_++] = {bits + of_bits, 0,
                               of_bits == 0 ? nullptr : reinterpret_cast<std::uint64_t*>(bits)};
  unit_count_ += units;
  for (std::size_t at = first; at < unit_count_; at += kFirstWindowUnits)
    set_free(at, kFirstWindowUnits);
  return first;
}

/// The bits of 64 units.
std::uint64_t& BookkeepingPages::free_word(std::size_t word) noexcept {
  if (word == 0) return first_free_;
  const std::size_t window = window_of(word * 64);
  return windows_[window].free[word - first_unit_of(window) / 64];
}

void BookkeepingPages::set_free(std::size_t unit, std::size_t units) noexcept {
  const std::uint64_t bits = (~std::uint64_t{0} >> (64 - units)) << unit % 64;
  std::uint64_t& word = free_word(unit / 64);
  STRATA_DCHECK((word & bits) == 0);
  word |= bits;
  first_free_word_ = std::min(first_free_word_, unit / 64);
}

/// \returns  kNone for an address outside the windows
std::size_t BookkeepingPages::unit_at(const void* address) noexcept {
  for (std::size_t i = 0; i < window_count_; ++i) {
    const std::size_t units = i == 0 ? kFirstWindowUnits : first_unit_of(i);
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(address) -
                               reinterpret_cast<std::uintptr_t>(windows_[i].start);
    if (offset < units * kUnitBytes) return first_unit_of(i) + offset / kUnitBytes;
  }
  return kNone;
}

}  // namespace strata
