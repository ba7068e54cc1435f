#include "span/huge_page_policy.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

constexpr std::size_t kLarge = 16;  // regions
constexpr std::uint64_t kSlow = 5'000'000;
constexpr std::uint64_t kQuick = 150'000;

/// How many regions get small pages until one gets huge pages.
std::size_t pause_of(HugePagePolicy& policy) {
  std::size_t regions = 0;
  while (!policy.choose(kLarge, false)) ++regions;
  return regions;
}

TEST(HugePagePolicy, DependsOnTheHeapsSizeAndItsSoftLimit) {
  const HugePagePolicy policy;
  EXPECT_FALSE(policy.is_worth_it(kLarge - 1, false));
  EXPECT_TRUE(policy.is_worth_it(kLarge, false));
  EXPECT_FALSE(policy.is_worth_it(kLarge, true));
}

TEST(HugePagePolicy, AsksAlwaysOrNeverIfToldSoWhateverItTakes) {
  HugePagePolicy policy;
  policy.configure(HugePages::kAlways);
  policy.note_first_touch(kSlow);
  EXPECT_TRUE(policy.choose(1, true));
  policy.configure(HugePages::kNever);
  EXPECT_FALSE(policy.choose(kLarge, false));
  EXPECT_FALSE(policy.is_measured());
  EXPECT_TRUE(policy.is_told());
}

TEST(HugePagePolicy, LeavesThemToTheSystemIfToldSo) {
  HugePagePolicy policy;
  policy.configure(HugePages::kSystem);
  EXPECT_FALSE(policy.choose(kLarge, false));
  EXPECT_FALSE(policy.is_measured());
  EXPECT_FALSE(policy.is_told());
}

TEST(HugePagePolicy, EachSlowHugePageMakesTheNextPauseTwiceAsLong) {
  HugePagePolicy policy;
  for (const std::size_t pause : {8u, 16u, 32u, 64u, 128u, 128u}) {
    EXPECT_EQ(pause_of(policy), 0u);
    policy.note_first_touch(kSlow);
    EXPECT_EQ(pause_of(policy), pause);
  }
}

TEST(HugePagePolicy, EachQuickOneMakesTheNextPauseShorterButAFewDoNotOutweighASlowOne) {
  HugePagePolicy policy;
  for (int i = 0; i < 5; ++i) {
    policy.note_first_touch(kSlow);
    pause_of(policy);
  }
  policy.note_first_touch(kQuick);
  policy.note_first_touch(kQuick);
  policy.note_first_touch(kSlow);
  EXPECT_EQ(pause_of(policy), 112u);
  for (int i = 0; i < 20; ++i) policy.note_first_touch(kQuick);
  EXPECT_EQ(pause_of(policy), 0u) << "a quick one begins no pause";
  policy.note_first_touch(kSlow);
  EXPECT_EQ(pause_of(policy), 8u);
}

TEST(HugePagePolicy, ATouchThatClearedNothingSaysNothing) {
  HugePagePolicy policy;
  for (int i = 0; i < 3; ++i) {
    policy.note_first_touch(kSlow);
    pause_of(policy);
  }
  for (int i = 0; i < 100; ++i) policy.note_first_touch(10'000);
  policy.note_first_touch(kSlow);
  EXPECT_EQ(pause_of(policy), 64u);
}

}  // namespace
}  // namespace strata
