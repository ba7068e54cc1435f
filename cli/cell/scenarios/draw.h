#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "harness/own_memory.h"

/// \file  Random draws that scenarios make before their clocks start.

namespace strata::cell {

/// Uniform from low to high, both included.
inline std::uint32_t between(std::mt19937_64& random, std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint32_t>(low + random() % (high - low + 1));
}

/// Log-uniform from low to high: each power of two is equally likely.
inline std::uint32_t log_between(std::mt19937_64& random, std::uint64_t low, std::uint64_t high) {
  const double octaves = std::log2(static_cast<double>(high) / static_cast<double>(low));
  const double share = static_cast<double>(random() >> 11) * 0x1p-53;
  return static_cast<std::uint32_t>(static_cast<double>(low) * std::exp2(octaves * share));
}

/// Values that are drawn once and reused cyclically. Their number is a power of two, and larger
/// than any pattern that a branch predictor learns.
template <typename T, std::size_t kCount>
class Drawn {
  static_assert((kCount & (kCount - 1)) == 0, "its remainder is a mask");

 public:
  /// \param draw  draw(random) returns a value
  template <typename Draw>
  Drawn(std::uint64_t seed, Draw draw) : things_(kCount) {
    std::mt19937_64 random(seed);
    for (T& thing : things_) thing = draw(random);
  }

  const T& next() noexcept { return things_[next_++ % kCount]; }

 private:
  OwnMemory<T> things_;
  std::size_t next_ = 0;
};

}  // namespace strata::cell
