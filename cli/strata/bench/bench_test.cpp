#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/catalogue.h"
#include "bench/matrix.h"
#include "bench/run_cells.h"
#include "input/usage_error.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

cell::Scenario scenario_of(const std::string& name, bool takes_threads = true) {
  cell::Scenario scenario;
  scenario.name = name;
  scenario.takes_threads = takes_threads;
  scenario.options = {cell::Option::count("size", 64, 1, 1024, "bytes", "of a block"),
                      cell::Option::choice("mode", "a", {"a", "b"}, "which"),
                      cell::Option::real("share", 0.5, 0, 1, "", "how much"),
                      cell::Option::flag("alone", "one thread")};
  return scenario;
}

TEST(Matrix, HasACellForEveryCombinationAndNamesWhatVaries) {
  cell::Scenario scenario = scenario_of("x");
  std::vector<BenchCell> cells =
      make_cells({&scenario}, {1, 2}, {{"size", {"16", "64"}}, {"mode", {"b"}}});
  ASSERT_EQ(cells.size(), 4u);
  std::vector<std::string> varying;
  for (const BenchCell& cell : cells) varying.push_back(cell.varying);
  EXPECT_THAT(varying, ElementsAre("threads=1 size=16", "threads=1 size=64", "threads=2 size=16",
                                   "threads=2 size=64"));
  EXPECT_EQ(cells[2].threads, 2);
  EXPECT_THAT(cells[2].options, ElementsAre(Pair("size", "16"), Pair("mode", "b"),
                                            Pair("share", "0.5"), Pair("alone", "no")));
}

TEST(Matrix, ThreadsMeanNothingToAScenarioWithoutThem) {
  cell::Scenario scenario = scenario_of("x", false);
  std::vector<BenchCell> cells = make_cells({&scenario}, {1, 2, 4}, {});
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].varying, "");
  EXPECT_FALSE(params_of(BenchPlan(), cells[0]).contains("threads"));
}

TEST(Matrix, ParametersAreNumbersWhereTheyAreNumbers) {
  cell::Scenario scenario = scenario_of("x");
  BenchPlan plan;
  plan.load.seconds = 0.5;
  auto params = params_of(plan, make_cells({&scenario}, {2}, {{"alone", {"yes"}}}).front());
  EXPECT_EQ(params["threads"], 2);
  EXPECT_EQ(params["size"], 64);
  EXPECT_EQ(params["share"], 0.5);
  EXPECT_EQ(params["mode"], "a");
  EXPECT_EQ(params["alone"], true);
  EXPECT_EQ(params["seconds"], 0.5);
  EXPECT_EQ(params["settle_s"], scenario.settle_s);
  EXPECT_FALSE(params.contains("ops"));
}

std::string matrix_refusal(const cell::Scenario& scenario, const std::vector<int>& threads,
                           const SweptOptions& options) {
  return refused_with<UsageError>([&] { make_cells({&scenario}, threads, options); });
}

TEST(Matrix, AValueIsNotGivenTwiceHoweverItIsWritten) {
  cell::Scenario scenario = scenario_of("x");
  EXPECT_EQ(matrix_refusal(scenario, {1, 2, 1}, {}), "--threads has 1 twice");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"size", {"64", "16", "064"}}}), "--size has 64 twice");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"share", {"0.5", "0.50"}}}), "--share has 0.5 twice");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"mode", {"b", "b"}}}), "--mode has b twice");
  EXPECT_EQ(matrix_refusal(scenario, {1, 2}, {{"mode", {"a", "b"}}}), "accepted");
}

TEST(Matrix, AnOptionStaysBelowItsCeilingInEveryCell) {
  cell::Scenario scenario = scenario_of("x");
  scenario.options.push_back(
      cell::Option::count("least", 8, 1, 4096, "bytes", "bytes").at_most("size"));
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"least", {"64"}}}), "accepted");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"least", {"65"}}}), "--least 65 is above --size 64");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"least", {"20"}}, {"size", {"64", "16"}}}),
            "--least 20 is above --size 16");
}

Row row_of(const std::string& name, std::vector<double> values) {
  Row row;
  row.contender = name;
  row.values = {{"ns_per_op", values}};
  // Amounts of work do not rank contenders.
  for (const char* amount : {"ops", "sent", "dropped", "received", "left", "samples"}) {
    row.values.emplace_back(amount, values);
  }
  row.metrics = {{"ns_per_op", summarize(values)}};
  return row;
}

TEST(Ratios, AreToTheFirstContenderAndNotOfTheAmountOfWork) {
  std::vector<Row> rows = {row_of("a", {10, 10, 10}), row_of("b", {5, 5, 5})};
  add_ratios(rows);
  EXPECT_TRUE(rows[0].ratios.empty());
  ASSERT_EQ(rows[1].ratios.size(), 1u);
  EXPECT_EQ(rows[1].ratios[0].first, "ns_per_op");
  EXPECT_EQ(rows[1].ratios[0].second.to, "a");
  EXPECT_DOUBLE_EQ(rows[1].ratios[0].second.ratio, 0.5);
}

TEST(Ratios, AreNeitherOfNorToWhoDidNotDoTheWork) {
  std::vector<Row> rows = {row_of("a", {10}), row_of("b", {1}), row_of("c", {20})};
  rows[1].ok = false;
  add_ratios(rows);
  EXPECT_TRUE(rows[1].ratios.empty());
  EXPECT_EQ(rows[2].ratios.size(), 1u);

  std::vector<Row> others = {row_of("a", {10}), row_of("b", {1})};
  others[0].ok = false;
  add_ratios(others);
  EXPECT_TRUE(others[1].ratios.empty());
}

}  // namespace
}  // namespace strata::cli
