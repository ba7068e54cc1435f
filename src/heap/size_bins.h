#pragma once

#include <bit>
#include <cstdint>

namespace strata {

/// The two levels of segregated fit as one number: sizes below 64 granules have a bin each, and from
/// there every power of two is cut into 32 bins of equal width. Neighbouring sizes have neighbouring
/// bins, so "the next larger bin that is not empty" is a search in one bitmap.
///
///   granules   0 .. 63   64,65  66,67 .. 126,127   128..131 .. 252..255   ...
///   bin        0 .. 63     64     65  ..    95         96   ..    127     ...
struct SizeBins {
  static constexpr unsigned kSubBinBits = 5;
  static constexpr std::uint32_t kLinear = 2u << kSubBinBits;

  /// The bin that holds free blocks of this size.
  static constexpr std::uint32_t bin_of(std::uint32_t granules) noexcept {
    const unsigned shift = shift_of(granules);
    return (shift << kSubBinBits) + (granules >> shift);
  }

  /// The smallest size of the bin that holds `granules`, or of the next one if it is no smallest.
  static constexpr std::uint32_t round_up(std::uint32_t granules) noexcept {
    const std::uint32_t step = 1u << shift_of(granules);
    return (granules + step - 1) & ~(step - 1);
  }

  /// The lowest bin whose blocks are all at least this large.
  static constexpr std::uint32_t bin_for(std::uint32_t granules) noexcept {
    const unsigned shift = shift_of(granules);
    return bin_of(granules + (1u << shift) - 1);
  }

 private:
  static constexpr unsigned shift_of(std::uint32_t granules) noexcept {
    return static_cast<unsigned>(std::bit_width(granules | (kLinear - 1))) - (kSubBinBits + 1);
  }
};

}  // namespace strata
