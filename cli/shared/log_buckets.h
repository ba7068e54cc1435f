#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace strata::cell {

/// A logarithmic scale of a few thousand buckets, linear within each power of two. It covers
/// picoseconds to minutes; each bucket is narrower than 1% of its values.
///
///   value   0 … 255     256 257 | 258 259 | …  510 511    512 … 515 | …
///   bucket  0 … 255         256       257            383        384
/// \source  Gil Tene's HdrHistogram.
struct LogBuckets {
  static constexpr unsigned kLinearBits = 7;  ///< 128 buckets in each power of two: 0.8% wide
  /// Of picoseconds: up to 18 minutes; larger values are clamped.
  static constexpr unsigned kValueBits = 50;
  static constexpr std::uint64_t kPerOctave = std::uint64_t{1} << kLinearBits;
  static constexpr std::uint64_t kLargest = (std::uint64_t{1} << kValueBits) - 1;

  static constexpr std::size_t index_of(std::uint64_t value) noexcept {
    if (value > kLargest) value = kLargest;
    if (value < 2 * kPerOctave) return static_cast<std::size_t>(value);
    unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kLinearBits - 1;
    return static_cast<std::size_t>(shift * kPerOctave + (value >> shift));
  }
  /// The smallest value of a bucket. It ends where the next one begins.
  static constexpr std::uint64_t lower_of(std::size_t index) noexcept {
    if (index < 2 * kPerOctave) return index;
    std::size_t shift = index / kPerOctave - 1;
    return (index - shift * kPerOctave) << shift;
  }

  static constexpr std::size_t kCount = (kValueBits - kLinearBits + 1) * kPerOctave;
};
static_assert(LogBuckets::index_of(LogBuckets::kLargest) + 1 == LogBuckets::kCount,
              "the largest value lies in the last bucket");
static_assert(LogBuckets::kPerOctave > 100, "a bucket is narrower than 1% of its values");

}  // namespace strata::cell
