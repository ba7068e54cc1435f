#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// Which allocations a profile takes, and how many each of them stands for.
///
/// Every byte has the same small chance to be the one that takes its allocation into the profile,
/// so the bytes between two samples are exponentially distributed with the mean `rate`, an
/// allocation of n bytes is taken with the chance 1 - e^(-n/rate), and counts as the inverse of
/// that: sums of weights are unbiased estimates for any mixture of sizes. A rate of 1 takes
/// everything, with weight 1.
///
/// Logarithm and exponential are our own: the library needs nothing but the C library at load.
/// \threads  Any number at once.
class Sampling {
 public:
  /// Weights are whole multiples of 1/kOne.
  static constexpr std::uint64_t kOne = 1024;
  static constexpr std::size_t kMaxRate = std::size_t{1} << 30;

  explicit constexpr Sampling(std::uint64_t seed) noexcept : state_(seed) {}

  void seed(std::uint64_t value) noexcept { state_.store(value, std::memory_order_relaxed); }

  /// Bytes from here to the next sample.
  /// \pre  1 <= rate <= kMaxRate
  std::int64_t draw_interval(std::size_t rate) noexcept;

  /// What an allocation that is counted as so many bytes stands for, in 1/kOne.
  /// \pre  bytes >= 1
  static std::uint64_t weight(std::size_t rate, std::size_t bytes) noexcept;

 private:
  // relaxed: each draw takes another number of one sequence, nothing is ordered by it.
  std::atomic<std::uint64_t> state_;
};

}  // namespace strata
