#include "measure/statistics.h"

#include <gtest/gtest.h>

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

TEST(Statistics, GeometricMeanTreatsHalfAndDoubleAlike) {
  EXPECT_DOUBLE_EQ(geometric_mean({0.5, 2}), 1);
  EXPECT_DOUBLE_EQ(geometric_mean({8}), 8);
  EXPECT_EQ(geometric_mean({}), 0);
}

}  // namespace
}  // namespace strata::cli
