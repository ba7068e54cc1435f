#include "bench/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands/result_tables.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ComparisonPlan shell_plan(const std::string& script) {
  ComparisonPlan plan;
  plan.scenario = "shell";
  plan.program = "/bin/sh";
  plan.command = {"sh", "-c", script};
  plan.contenders = {{"system", "", ""}, {"other", "", ""}};
  plan.runs = 3;
  plan.warmup = 1;
  return plan;
}

Row row_of(const std::string& name, std::vector<double> elapsed, double peak) {
  Row row;
  row.contender = name;
  row.metrics.emplace_back("elapsed_s", summarize(elapsed));
  row.metrics.emplace_back("cpu_s", summarize(elapsed));
  row.metrics.emplace_back("peak_rss_bytes", summarize({peak}));
  return row;
}

TEST(Comparison, EachRoundStartsOneFurther) {
  EXPECT_THAT(rotated_order(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(rotated_order(3, 1), ElementsAre(1, 2, 0));
  EXPECT_THAT(rotated_order(3, 5), ElementsAre(2, 0, 1));
}

TEST(Comparison, InterleavesAndLeavesTheWarmUpOut) {
  SignalWatch signals;
  std::vector<std::string> order;
  ComparisonEvents events;
  events.on_start = [&](int round, const Contender& contender) {
    order.push_back(std::to_string(round) + contender.name);
  };
  std::vector<Row> rows = run_comparison(shell_plan("exit 0"), signals, events);
  EXPECT_THAT(order, ElementsAre("1system", "1other", "2other", "2system", "3system", "3other",
                                 "4other", "4system"));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].contender, "system");
  EXPECT_TRUE(rows[0].ok);
  EXPECT_EQ(rows[0].metric("elapsed_s")->n, 3u);
  EXPECT_EQ(rows[0].metric("nothing"), nullptr);
}

TEST(Comparison, AFailureEndsItsOwnContenderOnly) {
  SignalWatch signals;
  ComparisonPlan plan = shell_plan("echo \"library: $LD_PRELOAD\"; test -z \"$FAILS\"");
  plan.contenders = {{"system", "", "", false, {{"FAILS", "1"}}}, {"other", "", ""}};
  std::vector<Row> rows = run_comparison(plan, signals, {});
  EXPECT_FALSE(rows[0].ok);
  EXPECT_EQ(rows[0].reason, "exit status 1, in warm-up 1 of 1");
  EXPECT_EQ(rows[0].last_output, "library: ");
  EXPECT_TRUE(rows[0].metrics.empty());
  EXPECT_TRUE(rows[1].ok);
}

TEST(ComparisonReport, MarksTheFastestAndTheLeanestAgainstSystem) {
  std::vector<Row> rows = {row_of("system", {1.0, 1.0}, 100 << 20),
                           row_of("fast", {0.5, 0.5}, 150 << 20),
                           row_of("lean", {2.0, 2.0}, 50 << 20)};
  std::string table = comparison_table(rows, false);
  EXPECT_THAT(table, HasSubstr("fast       0.500 s   0.50    0.0%  0.500 s   0.50  150.0 MiB   "
                               "1.50  fastest\n"));
  EXPECT_THAT(table, HasSubstr("lean       2.000 s   2.00    0.0%  2.000 s   2.00   50.0 MiB   "
                               "0.50  leanest\n"));
  EXPECT_THAT(comparison_notes(rows, false), Not(HasSubstr("median only")));
}

TEST(ComparisonReport, AFailedContenderIsShownAndNeverBest) {
  std::vector<Row> rows = {row_of("system", {1.0}, 100), row_of("broken", {0.1}, 1)};
  rows[1].ok = false;
  rows[1].reason = "killed by SIGABRT, in run 2 of 3";
  rows[1].last_output = std::string("\033[2Jassertion:\r\nNUL\0\tfailed", 27);
  std::string table = comparison_table(rows, false);
  EXPECT_THAT(table, HasSubstr("broken     failed: killed by SIGABRT, in run 2 of 3\n"));
  EXPECT_THAT(table, Not(HasSubstr("fastest")));
  EXPECT_THAT(comparison_notes(rows, false),
              HasSubstr("Last output under broken:\n  ?[2Jassertion:?\n  NUL? failed\n"));
}

TEST(ComparisonReport, ALeadWithinTheNoiseIsSaidToBeOne) {
  std::vector<Row> rows = {row_of("system", {1.0, 1.2, 1.1}, 100),
                           row_of("other", {0.9, 1.05, 1.0}, 100)};
  EXPECT_THAT(comparison_notes(rows, false),
              HasSubstr("other is fastest by its median only: its runs overlap with those of "
                        "system."));
}

TEST(ComparisonReport, WithoutSystemTheFirstIsTheMeasure) {
  std::vector<Row> rows = {row_of("a", {1.0}, 100), row_of("b", {0.5}, 100)};
  EXPECT_EQ(baseline_of(rows)->contender, "a");
  rows[0].ok = false;
  EXPECT_EQ(baseline_of(rows), nullptr);
}

}  // namespace
}  // namespace strata::cli
