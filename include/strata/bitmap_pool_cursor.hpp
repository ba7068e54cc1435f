#pragma once

#include <strata/detail/bits.hpp>

#include <cstddef>
#include <cstdint>

namespace strata {

/// Where one thread, task or interrupt handler searches first in one pool: the word of the bitmap
/// that last had a block for it, then the one in which it last freed a block. Only a hint, never
/// shared; any value is safe. Different values keep threads from waiting for each other.
class BitmapPoolCursor {
 public:
  constexpr BitmapPoolCursor() noexcept = default;

  /// Where the n-th thread, from 0, starts in a pool with `leaf_count` words. If that is a power of
  /// two, the first `leaf_count` threads all start in different words, otherwise nearly all. Two
  /// processes whose `process` numbers differ start in different words while both have few threads.
  static constexpr BitmapPoolCursor nth(std::uint32_t n, std::size_t leaf_count,
                                        std::uint32_t process = 0) noexcept {
    // As fractions of 2^32: the threads start at 0, 1/2, 1/4, 3/4, 1/8 …; the process shifts them
    // by 0, 1/8, 1/16, 3/16 …, into the gaps that four threads leave.
    const std::uint32_t fraction = detail::reverse_bits(n) + (detail::reverse_bits(process) >> 2);
    BitmapPoolCursor cursor;
    cursor.leaf_ = static_cast<std::size_t>((std::uint64_t{fraction} * leaf_count) >> 32);
    return cursor;
  }

  /// The word that it points to.
  constexpr std::size_t leaf() const noexcept { return leaf_; }
  constexpr std::size_t& leaf() noexcept { return leaf_; }

  /// Notes that a block of this word was freed. A search for one block that finds its first word
  /// full, and the next one not empty, begins here, once.
  constexpr void note_freed(std::size_t leaf) noexcept { freed_ = leaf + 1; }
  constexpr bool has_freed() const noexcept { return freed_ != 0; }
  /// \pre  has_freed()
  constexpr std::size_t take_freed() noexcept {
    const std::size_t leaf = freed_ - 1;
    freed_ = 0;
    return leaf;
  }

 private:
  std::size_t leaf_ = 0;
  std::size_t freed_ = 0;  // the word plus 1; 0: none since a search began there
};

}  // namespace strata
