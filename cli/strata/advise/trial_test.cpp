#include "advise/trial.h"

#include <gtest/gtest.h>

namespace strata::cli {
namespace {

constexpr double kMiB = 1 << 20;

/// A difference with an interval of 1% to either side, as from runs that hardly differ.
Difference changed(double without, double with) {
  const double ratio = with / without;
  return {without, with, Ratio{ratio, ratio - 0.01, ratio + 0.01}};
}

Trial trial(const Difference& cpu_s, const Difference& peak_bytes, std::uint32_t place = 0) {
  return {{place, Remedy::kBlocks}, cpu_s, peak_bytes, ""};
}

TEST(Trial, IsWorthItWhereTimeOrMemoryIsSavedAndTheOtherKept) {
  EXPECT_TRUE(trial(changed(1, 0.9), changed(8 * kMiB, 8 * kMiB)).is_worth_it());
  EXPECT_TRUE(trial(changed(1, 1), changed(8 * kMiB, 7 * kMiB)).is_worth_it());
  EXPECT_FALSE(trial(changed(1, 1), changed(8 * kMiB, 8 * kMiB)).is_worth_it());
}

TEST(Trial, IsNotWorthItWhereTheOneIsBoughtWithTheOther) {
  EXPECT_FALSE(trial(changed(1, 0.9), changed(8 * kMiB, 9 * kMiB)).is_worth_it());
  EXPECT_FALSE(trial(changed(1, 1.1), changed(8 * kMiB, 7 * kMiB)).is_worth_it());
}

TEST(Trial, IsNotWorthItWhereChanceCouldHaveSavedAsMuch) {
  const Difference by_chance{1, 0.9, Ratio{0.9, 0.8, 1.01}};
  EXPECT_FALSE(trial(by_chance, changed(8 * kMiB, 8 * kMiB)).is_worth_it());
  EXPECT_FALSE(trial(changed(1, 0.985), changed(8 * kMiB, 8 * kMiB)).is_worth_it()) << "below 2%";
}

TEST(Trial, ALittleMoreMemoryIsNoHarm) {
  EXPECT_TRUE(trial(changed(1, 0.9), changed(100 * kMiB, 104 * kMiB)).is_worth_it());
  EXPECT_FALSE(trial(changed(1, 0.9), changed(100 * kMiB, 106 * kMiB)).is_worth_it());
}

TEST(Trial, AFewPagesOfMemoryCountNeitherWay) {
  EXPECT_TRUE(trial(changed(1, 0.9), changed(kMiB, 1.2 * kMiB)).is_worth_it());
  EXPECT_FALSE(trial(changed(1, 1), changed(kMiB, 0.8 * kMiB)).is_worth_it());
}

TEST(Trial, WhatCouldNotBeMeasuredIsNotWorthIt) {
  Trial failed = trial(changed(1, 0.5), changed(8 * kMiB, kMiB));
  failed.failure = "out of memory";
  EXPECT_FALSE(failed.is_worth_it());
}

TEST(Trial, OfEachPlaceTheBestIsToldAndTheLargestSavingFirst) {
  const Difference same = changed(8 * kMiB, 8 * kMiB);
  const std::vector<Trial> best =
      best_trials({trial(changed(1, 0.9), same, 7), trial(changed(1, 0.5), same, 3),
                   trial(changed(1, 0.8), same, 7), trial(changed(1, 1), same, 5)});
  ASSERT_EQ(best.size(), 2u) << "nothing helps the place 5";
  EXPECT_EQ(best[0].candidate.place, 3u);
  EXPECT_EQ(best[1].candidate.place, 7u);
  EXPECT_EQ(best[1].cpu_s.with, 0.8);
}

}  // namespace
}  // namespace strata::cli
