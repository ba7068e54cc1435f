#pragma once

#include <array>
#include <bit>
#include <cstddef>
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

/// Sizes up to 8 KiB, those of most requests, are in a table.
constexpr std::uint32_t kTableSizes = 512;
inline constexpr std::array<std::uint8_t, kTableSizes> kBinOf = [] {
  std::array<std::uint8_t, kTableSizes> table{};
  for (std::uint32_t g = 0; g < kTableSizes; ++g) {
    table[g] = static_cast<std::uint8_t>(compute_bin(g));
  }
  return table;
}();
}  // namespace detail

constexpr std::uint32_t kLargestTabled = detail::kTableSizes - 1;

constexpr std::uint32_t bin_of(std::uint32_t granules) noexcept {
  return granules < detail::kTableSizes ? detail::kBinOf[granules] : detail::compute_bin(granules);
}

/// bin_of() a size that is in the table.
constexpr std::uint32_t tabled_bin_of(std::uint32_t granules) noexcept {
  return detail::kBinOf[granules];
}

/// The lowest bin whose blocks are all at least this large.
constexpr std::uint32_t bin_for(std::uint32_t granules) noexcept {
  return detail::compute_bin_for(granules);
}

constexpr std::uint32_t smallest_of(std::uint32_t bin) noexcept {
  if (bin < kLinear) return bin;
  const std::uint32_t shift = (bin >> kSubBinBits) - 1;
  return (bin - (shift << kSubBinBits)) << shift;
}

/// The last bin whose blocks serve a request of `bin` whole, without a split: five further, and
/// fewer among the small, so that at most 3/11 of a block are given away and a request of one of
/// the smallest sizes gets exactly that. Blocks of a page and more are cut more closely: their
/// user's work with them is worth many splits.
constexpr std::uint32_t last_whole(std::uint32_t bin) noexcept {
  constexpr std::uint32_t kOfAPage = 80;
  static_assert(smallest_of(kOfAPage) == 4096 / 16, "the bin of blocks of 4 KiB");
  return bin + (bin < 24 ? bin / 8 : bin < kOfAPage ? 5 : 1);
}

/// The bins that serve a request of some size.
template <typename Size, typename Bin>
struct RequestOf {
  Size smallest;  ///< the size that it is rounded up to, the smallest of `bin`
  Bin bin;        ///< the lowest whose blocks all serve it
  Bin last;       ///< the last whose blocks serve it without a split
};

constexpr RequestOf<std::uint32_t, std::uint32_t> request_for(std::uint32_t granules) noexcept {
  const std::uint32_t bin = bin_for(granules);
  return {smallest_of(bin), bin, last_whole(bin)};
}

/// The same for sizes below 512 granules, four bytes each; less than the smallest block is that.
constexpr std::uint32_t kSmallest = 2;
inline constexpr auto kRequests = [] {
  std::array<RequestOf<std::uint16_t, std::uint8_t>, detail::kTableSizes> table{};
  for (std::uint32_t g = 0; g < detail::kTableSizes; ++g) {
    const auto request = request_for(g < kSmallest ? kSmallest : g);
    table[g] = {static_cast<std::uint16_t>(request.smallest),
                static_cast<std::uint8_t>(request.bin), static_cast<std::uint8_t>(request.last)};
  }
  return table;
}();
static_assert(request_for(detail::kTableSizes - 1).last <= UINT8_MAX,
              "the bins of tabled sizes fit one byte");

/// Requests up to here are in the table, with their tag.
constexpr std::size_t kMaxTabledBytes = 8000;

}  // namespace size_bins

}  // namespace strata
