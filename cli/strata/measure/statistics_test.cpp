#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace strata::cli {
namespace {

TEST(Statistics, OfNothingIsZero) {
  Summary summary = summarize({});
  EXPECT_EQ(summary.n, 0u);
  EXPECT_EQ(summary.median, 0);
  EXPECT_EQ(summary.spread(), 0);
}

TEST(Statistics, OfOneIsThatOne) {
  Summary summary = summarize({2.5});
  EXPECT_EQ(summary.n, 1u);
  EXPECT_EQ(summary.median, 2.5);
  EXPECT_EQ(summary.min, 2.5);
  EXPECT_EQ(summary.max, 2.5);
}

TEST(Statistics, MedianIsTheMiddleWhateverTheOrder) {
  EXPECT_EQ(summarize({9, 1, 5}).median, 5);
  EXPECT_EQ(summarize({9, 1, 5, 7}).median, 6);
  EXPECT_EQ(summarize({1000, 1, 2, 3, 4}).median, 3);
}

TEST(Statistics, SpreadIsTheRangeAsAShareOfTheMedian) {
  Summary summary = summarize({8, 12, 10});
  EXPECT_EQ(summary.min, 8);
  EXPECT_EQ(summary.max, 12);
  EXPECT_DOUBLE_EQ(summary.spread(), 0.4);
}

TEST(Statistics, ARatioIsTakenWithinEachRound) {
  // The machine was three times slower in the second round, which cancels out.
  std::optional<Ratio> ratio = ratio_of({10, 30, 12, 10, 10, 10}, {20, 60, 24, 20, 20, 20});
  ASSERT_TRUE(ratio.has_value());
  EXPECT_DOUBLE_EQ(ratio->ratio, 0.5);
  EXPECT_DOUBLE_EQ(ratio->low.value(), 0.5);
  EXPECT_DOUBLE_EQ(ratio->high.value(), 0.5);
  EXPECT_EQ(ratio->n, 6u);
}

TEST(Statistics, ARatioTurnsRoundWithItsSeries) {
  // Each series was disturbed in one of two rounds: neither is twice as fast.
  EXPECT_DOUBLE_EQ(ratio_of({10, 40}, {40, 10})->ratio, 1);
  const std::vector<double> values = {3, 8, 5, 13};
  const std::vector<double> bases = {7, 2, 6, 4};
  const Ratio there = ratio_of(values, bases).value();
  const Ratio back = ratio_of(bases, values).value();
  EXPECT_DOUBLE_EQ(there.ratio * back.ratio, 1);
}

TEST(Statistics, ARatioIsNotZeroBecauseOneOfTwoRoundsIs) {
  EXPECT_DOUBLE_EQ(ratio_of({0, 90}, {90, 90})->ratio, 0.5);
  EXPECT_DOUBLE_EQ(ratio_of({0, 0, 90, 90}, {90, 90, 90, 90})->ratio, 0.5);
  EXPECT_DOUBLE_EQ(ratio_of({0, 0, 90}, {90, 90, 90})->ratio, 0);
}

TEST(Statistics, ARatioOfFewRoundsHasNoInterval) {
  EXPECT_FALSE(ratio_of({1, 2, 3, 4, 5}, {1, 1, 1, 1, 1})->low.has_value());
  EXPECT_TRUE(ratio_of({1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1})->low.has_value());
  EXPECT_FALSE(ratio_of({}, {}).has_value());
  EXPECT_FALSE(ratio_of({1, 1, 1}, {1, 0, 1}).has_value());
  EXPECT_EQ(ratio_of({1, 2, 3}, {1, 2})->n, 2u);
}

TEST(Statistics, TheIntervalOfARatioLiesBetweenTwoOfItsRounds) {
  // How many samples are left out on each side, by the binomial distribution.
  const std::pair<std::size_t, std::size_t> cases[] = {{6, 0},  {8, 0},  {9, 1},   {11, 1},
                                                       {12, 2}, {15, 3}, {40, 13}, {100, 39}};
  for (const auto& [n, out] : cases) {
    std::vector<double> values(n);
    std::iota(values.rbegin(), values.rend(), 1);
    const Ratio ratio = ratio_of(values, std::vector<double>(n, 1)).value();
    EXPECT_EQ(ratio.low, static_cast<double>(1 + out)) << n;
    EXPECT_EQ(ratio.high, static_cast<double>(n - out)) << n;
  }
  EXPECT_TRUE(
      ratio_of(std::vector<double>(5000, 2), std::vector<double>(5000, 1))->low.has_value());
}

TEST(Statistics, TheIntervalOfARatioHoldsTheTruthAboutAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> noise(0, 0.1);
  constexpr int kTrials = 2000;
  for (const int rounds : {6, 7, 9, 15, 40}) {
    int held = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> values;
      std::vector<double> bases;
      for (int i = 0; i < rounds; ++i) {
        values.push_back(0.8 * noise(random));
        bases.push_back(noise(random));
      }
      std::optional<Ratio> ratio = ratio_of(values, bases);
      EXPECT_LE(*ratio->low, ratio->ratio);
      EXPECT_GE(*ratio->high, ratio->ratio);
      held += *ratio->low <= 0.8 && 0.8 <= *ratio->high ? 1 : 0;
    }
    EXPECT_GE(held, kTrials * 94 / 100) << rounds;
    EXPECT_LT(held, kTrials) << "an interval that always holds it is too wide";
  }
}

}  // namespace
}  // namespace strata::cli
