#include "shared/cell_plan.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "shared/refusal_test.h"

namespace strata::cell {
namespace {

std::string refusal(const std::vector<std::string>& words) {
  return refused_with<std::invalid_argument>([&] { CellPlan::from_words(words); });
}

TEST(CellPlan, ComesBackFromItsWordsAsItWas) {
  CellPlan plan;
  plan.scenario = "churn";
  EXPECT_EQ(CellPlan::from_words(plan.words()), plan);
  plan.contender = "bitmap-pool";
  plan.threads = 3;
  plan.seconds = 0.1;
  plan.ops = ~std::uint64_t{0};
  plan.warmup = 7;
  plan.seed = 1'234'567'890'123;
  plan.sample_rate = 1.0 / 3;
  plan.board_fd = 11;
  plan.findings_fd = 12;
  plan.options = {{"size", "64"}, {"mode", "window"}, {"size-dist", "/a=b/sizes.csv"}};
  EXPECT_EQ(CellPlan::from_words(plan.words()), plan);
}

TEST(CellPlan, TakesTheLastWordForAnOption) {
  const CellPlan plan =
      CellPlan::from_words({"churn", "--size=1", "--threads=2", "--size=2", "--threads=3"});
  EXPECT_EQ(plan.options, (OptionValues{{"size", "2"}}));
  EXPECT_EQ(plan.threads, 3);
}

TEST(CellPlan, RefusesWordsThatAreNone) {
  EXPECT_EQ(refusal({}), "name a scenario");
  EXPECT_EQ(refusal({"churn", "--size"}), "'--size' is not --option=value");
  EXPECT_EQ(refusal({"churn", "size=1"}), "'size=1' is not --option=value");
  EXPECT_EQ(refusal({"churn", "--threads=two"}), "--threads is 'two', which is not a number");
  EXPECT_EQ(refusal({"churn", "--seconds=inf"}), "--seconds is 'inf', which is not a number");
  EXPECT_EQ(refusal({"churn", "--size=1"}), "accepted");
}

}  // namespace
}  // namespace strata::cell
