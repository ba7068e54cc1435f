#pragma once

#include <strata/detail/bits.hpp>

#include <cstddef>
#include <cstdint>

namespace strata {

/// Where one thread, task or interrupt handler looks first in one pool: the word of the bitmap that
/// last had a block for it. It is only a hint, never shared, and any value is safe; different
/// values for different threads are what lets them work without waiting for each other.
class BitmapPoolCursor {
 public:
  constexpr BitmapPoolCursor() noexcept = default;

  /// The start for seat 0, 1, 2 … of a pool with `leaf_count` words. The first n seats of n words
  /// are all different where n is a power of two, and nearly so elsewhere; two processes whose
  /// `process` numbers differ start in different words while both have few threads.
  static constexpr BitmapPoolCursor for_seat(std::uint32_t seat, std::size_t leaf_count,
                                             std::uint32_t process = 0) noexcept {
    // As fractions of 2^32: a seat is 0, 1/2, 1/4, 3/4, 1/8 …; the process shifts it by 0, 1/8,
    // 1/16, 3/16 …, into the gaps that four seats leave.
    const std::uint32_t fraction =
        detail::reverse_bits(seat) + (detail::reverse_bits(process) >> 2);
    BitmapPoolCursor cursor;
    cursor.leaf_ = static_cast<std::size_t>((std::uint64_t{fraction} * leaf_count) >> 32);
    return cursor;
  }

  /// The word it points to.
  constexpr std::size_t leaf() const noexcept { return leaf_; }
  constexpr std::size_t& leaf() noexcept { return leaf_; }

 private:
  std::size_t leaf_ = 0;
};

}  // namespace strata
