#pragma once

#include <cstddef>

namespace strata::cell {

/// What a load will ask of its contender, so that pools can be made large enough and those that
/// cannot serve it say so.
struct Needs {
  std::size_t smallest_bytes = 1;
  std::size_t largest_bytes = 1;
  std::size_t live_blocks = 1;    ///< at most, of all threads together
  std::size_t live_bytes = 0;     ///< at most; 0: live_blocks * largest_bytes
  int threads = 1;                ///< that allocate or free
  bool is_freed_at_once = false;  ///< all blocks are freed before the next is allocated

  /// Sets live_bytes for blocks that are `mean_bytes` large on average: half as much again, for
  /// chance, and `spare` of the largest. Follows the sizes and the number of blocks.
  void expect_mean(double mean_bytes, std::size_t spare = 1) noexcept {
    live_bytes = static_cast<std::size_t>(1.5 * mean_bytes * static_cast<double>(live_blocks)) +
                 spare * largest_bytes;
  }

  std::size_t bytes() const noexcept {
    return live_bytes != 0 ? live_bytes : live_blocks * largest_bytes;
  }
};

}  // namespace strata::cell
