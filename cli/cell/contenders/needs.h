#pragma once

#include <cstddef>

namespace strata::cell {

/// The largest demand of a load: pools are sized for it, and contenders that cannot serve it
/// refuse.
struct Needs {
  std::size_t smallest_bytes = 1;
  std::size_t largest_bytes = 1;
  std::size_t live_blocks = 1;    ///< maximum, over all threads together
  std::size_t live_bytes = 0;     ///< maximum; 0: live_blocks * largest_bytes
  int threads = 1;                ///< that allocate or free
  bool is_freed_at_once = false;  ///< all blocks are freed before the next is allocated

  /// Sets live_bytes for blocks of `mean_bytes` on average: half as much again, for chance, plus
  /// `spare` blocks of the largest size. Call it after setting the sizes and live_blocks.
  void expect_mean(double mean_bytes, std::size_t spare = 1) noexcept {
    live_bytes = static_cast<std::size_t>(1.5 * mean_bytes * static_cast<double>(live_blocks)) +
                 spare * largest_bytes;
  }

  /// Why a contender with blocks of one size, or for one thread, does not fit; nullptr if it does.
  const char* why_not_one_size() const noexcept {
    return smallest_bytes != largest_bytes ? "has blocks of one size" : nullptr;
  }
  const char* why_not_one_thread() const noexcept {
    return threads > 1 ? "serves one thread" : nullptr;
  }
  const char* why_not_one_size_and_thread() const noexcept {
    const char* const why = why_not_one_size();
    return why != nullptr ? why : why_not_one_thread();
  }

  std::size_t bytes() const noexcept {
    return live_bytes != 0 ? live_bytes : live_blocks * largest_bytes;
  }
};

}  // namespace strata::cell
