#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// Chooses the allocations that a profile takes, and computes how many each stands for.
///
/// Every byte is equally likely to be the one that takes its allocation into the profile. So the
/// bytes between two samples are exponentially distributed with the mean `rate`; an allocation of n
/// bytes is taken with probability 1 - e^(-n/rate), and counts as the inverse of that: sums of
/// weights are unbiased estimates for any mixture of sizes. A rate of 1 takes everything, with
/// weight 1.
///
/// Logarithm and exponential are our own: at load, the library needs only the C library.
/// \threads  Any number at once.
class Sampling {
 public:
  /// Weights are whole multiples of 1/kOne.
  static constexpr std::uint64_t kOne = 1024;
  static constexpr std::size_t kMaxRate = std::size_t{1} << 30;

  explicit constexpr Sampling(std::uint64_t seed) noexcept : state_(seed) {}

  void seed(std::uint64_t value) noexcept { state_.store(value, std::memory_order_relaxed); }

  /// Draws the bytes to the next sample.
  /// \pre  1 <= rate <= kMaxRate
  std::int64_t draw_interval(std::size_t rate) noexcept;

  /// The weight of an allocation that counts for so many bytes, in 1/kOne.
  /// \pre  bytes >= 1
  static std::uint64_t weight(std::size_t rate, std::size_t bytes) noexcept;

 private:
  // relaxed: each draw takes another number of one sequence; it orders nothing.
  std::atomic<std::uint64_t> state_;
};

}  // namespace strata
