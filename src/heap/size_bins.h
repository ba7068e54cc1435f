#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace strata {

/// The two levels of segregated fit as one number: sizes below 32 granules have a bin each, and
/// from there every power of two is cut into 16 bins of equal width. Neighbouring sizes have
/// neighbouring bins, so "the next larger bin that is not empty" is a search in one bitmap.
///
///   granules   0 .. 31   32,33  34,35 .. 62,63   64..67 .. 124..127   ...
///   bin        0 .. 31     32     33  ..   47       48  ..    63      ...
///
/// A request is rounded up to the smallest size of a bin, so that every block of that bin serves it
/// and blocks of one bin are interchangeable. That, and not the search, is what makes the heap
/// fast: a block that fits as it is needs no split now and leaves no crumb to merge later.
namespace size_bins {
/// 16 bins per power of two lose 2.3% to rounding on average and 6% at most; 32 lose half of it,
/// but a bin is twice as often empty, and then a block must be split (docs/heaps.md).
constexpr unsigned kSubBinBits = 4;
constexpr std::uint32_t kLinear = 2u << kSubBinBits;

namespace detail {
constexpr unsigned shift_of(std::uint32_t granules) noexcept {
  return static_cast<unsigned>(std::bit_width(granules | (kLinear - 1))) - (kSubBinBits + 1);
}
constexpr std::uint32_t compute_bin(std::uint32_t granules) noexcept {
  const unsigned shift = shift_of(granules);
  return (shift << kSubBinBits) + (granules >> shift);
}

constexpr std::uint32_t compute_bin_for(std::uint32_t granules) noexcept {
  return compute_bin(granules + (1u << shift_of(granules)) - 1);
}

/// Sizes up to 8 KiB, which most requests have, are looked up; one byte each.
constexpr std::uint32_t kTableSizes = 512;
inline constexpr std::array<std::uint8_t, kTableSizes> kBinOf = [] {
  std::array<std::uint8_t, kTableSizes> table{};
  for (std::uint32_t g = 0; g < kTableSizes; ++g) {
    table[g] = static_cast<std::uint8_t>(compute_bin(g));
  }
  return table;
}();
inline constexpr std::array<std::uint8_t, kTableSizes> kBinFor = [] {
  std::array<std::uint8_t, kTableSizes> table{};
  for (std::uint32_t g = 0; g < kTableSizes; ++g) {
    table[g] = static_cast<std::uint8_t>(compute_bin_for(g));
  }
  return table;
}();
}  // namespace detail

/// The bin that holds free blocks of this size.
constexpr std::uint32_t bin_of(std::uint32_t granules) noexcept {
  return granules < detail::kTableSizes ? detail::kBinOf[granules] : detail::compute_bin(granules);
}

/// The lowest bin whose blocks are all at least this large.
constexpr std::uint32_t bin_for(std::uint32_t granules) noexcept {
  return granules < detail::kTableSizes ? detail::kBinFor[granules]
                                        : detail::compute_bin_for(granules);
}

/// The smallest size of a bin.
constexpr std::uint32_t smallest_of(std::uint32_t bin) noexcept {
  if (bin < kLinear) return bin;
  const std::uint32_t shift = (bin >> kSubBinBits) - 1;
  return (bin - (shift << kSubBinBits)) << shift;
}

/// The last bin whose blocks serve a request of `bin` whole, without a split: three further, and
/// fewer among the small, so that at most a fifth of a block is given away and a request of one
/// of the smallest sizes gets exactly that.
constexpr std::uint32_t last_whole(std::uint32_t bin) noexcept {
  return bin + (bin < 24 ? bin / 8 : 3);
}

}  // namespace size_bins

}  // namespace strata
