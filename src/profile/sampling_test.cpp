#include "profile/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace strata {
namespace {

// Fixed seeds: the bounds below are at least five standard deviations, and hold for these seeds for
// ever.
constexpr std::uint64_t kSeed = 42;

TEST(Sampling, IntervalsAreExponentialWithTheRateAsTheirMean) {
  constexpr int kDraws = 200'000;
  for (std::size_t rate : {std::size_t{16}, std::size_t{512} << 10, Sampling::kMaxRate}) {
    Sampling sampling(kSeed);
    double sum = 0;
    int beyond = 0;
    for (int i = 0; i < kDraws; ++i) {
      const std::int64_t interval = sampling.draw_interval(rate);
      ASSERT_GE(interval, 0);
      sum += static_cast<double>(interval) + 0.5;  // drawn as whole bytes
      beyond += interval >= static_cast<std::int64_t>(2 * rate);
    }
    const double mean = static_cast<double>(rate);
    EXPECT_NEAR(sum / kDraws, mean, 5 * mean / std::sqrt(kDraws));
    EXPECT_NEAR(static_cast<double>(beyond) / kDraws, std::exp(-2), 5 * std::sqrt(0.12 / kDraws));
  }
}

TEST(Sampling, WeightsAreTheInverseOfTheChance) {
  for (std::size_t rate : {std::size_t{2}, std::size_t{1000}, std::size_t{512} << 10}) {
    for (std::size_t bytes = 1; bytes < 50'000'000; bytes = bytes * 3 / 2 + 1) {
      const double chance = -std::expm1(-static_cast<double>(bytes) / static_cast<double>(rate));
      EXPECT_NEAR(static_cast<double>(Sampling::weight(rate, bytes)),
                  static_cast<double>(Sampling::kOne) / chance, 0.51 + 1e-9 / chance)
          << bytes << " at " << rate;
    }
  }
}

TEST(Sampling, ARateOfOneTakesEverythingOnce) {
  Sampling sampling(kSeed);
  EXPECT_EQ(sampling.draw_interval(1), 0);
  EXPECT_EQ(Sampling::weight(1, 1), Sampling::kOne);
  EXPECT_EQ(Sampling::weight(1, 1 << 20), Sampling::kOne);
}

TEST(Sampling, SumsOfWeightsEstimateAnyMixtureWithoutBias) {
  constexpr std::size_t kRate = 4096;
  constexpr std::size_t kSizes[] = {16, 112, 1024, 3000, 40'000};
  for (std::size_t bytes : kSizes) {
    Sampling sampling(kSeed + bytes);
    constexpr int kAllocations = 400'000;
    double estimate = 0;
    double variance = 0;
    std::int64_t left = sampling.draw_interval(kRate);
    const double weight = static_cast<double>(Sampling::weight(kRate, bytes)) / Sampling::kOne;
    for (int i = 0; i < kAllocations; ++i) {
      variance += weight - 1;
      left -= static_cast<std::int64_t>(bytes);
      if (left >= 0) continue;
      estimate += weight;
      left = sampling.draw_interval(kRate);
    }
    EXPECT_NEAR(estimate, kAllocations, 5 * std::sqrt(variance) + 1e-3 * kAllocations) << bytes;
  }
}

}  // namespace
}  // namespace strata
