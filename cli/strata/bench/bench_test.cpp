#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "bench/catalogue.h"
#include "bench/cell_report.h"
#include "bench/matrix.h"
#include "bench/run_cells.h"
#include "input/usage_error.h"
#include "shared/log_buckets.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

ScenarioInfo scenario_of(const std::string& name, bool takes_threads = true) {
  ScenarioInfo scenario;
  scenario.name = name;
  scenario.fits = "blocks";
  scenario.takes_threads = takes_threads;
  scenario.options = {{"size", "count", "bytes", "64", 1, 1024, {}, "of a block"},
                      {"mode", "choice", "", "a", 0, 0, {"a", "b"}, "which"},
                      {"share", "real", "", "0.5", 0, 1, {}, "how much"},
                      {"alone", "flag", "", "no", 0, 0, {"no", "yes"}, "one thread"}};
  return scenario;
}

std::string refusal(const std::string& option, const std::string& text) {
  try {
    scenario_of("x").option(option)->check(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CellReport, IsReadLineByLine) {
  std::size_t bucket = LogBuckets::index_of(20'000);
  CellReport report = parse_cell_report(
      "metric ns_per_op 12.5\nmetric ops 1000\nserved 1000 1000 0\ntimer_cost_ns 11.5\n"
      "latency alloc 3 60000 25000\nbucket " +
      std::to_string(bucket) + " 3\nlatency free 1 7000 7000\nbucket 1000 1\nend\n");
  EXPECT_TRUE(report.is_whole);
  EXPECT_THAT(report.metrics, ElementsAre(Pair("ns_per_op", 12.5), Pair("ops", 1000)));
  EXPECT_EQ(report.allocations, 1000u);
  ASSERT_EQ(report.latencies.size(), 2u);
  EXPECT_EQ(report.latencies[0].first, "alloc");
  EXPECT_EQ(report.latencies[0].second.count, 3u);
  EXPECT_DOUBLE_EQ(report.latencies[0].second.mean_ns(), 20);
  EXPECT_DOUBLE_EQ(report.latencies[0].second.max_ns, 25);
  EXPECT_DOUBLE_EQ(report.latencies[1].second.timer_cost_ns, 11.5);
  EXPECT_EQ(report.latencies[0].second.buckets.begin()->second.samples, 3u);
  EXPECT_NEAR(report.latencies[0].second.buckets.begin()->first, 20, 0.2);
}

TEST(CellReport, CutOffAnywhereIsNotWholeAndNeverInvents) {
  const std::string text =
      "metric ns_per_op 12.5\nserved 10 10 2\nbroken a sentence of words\nend\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    CellReport report = parse_cell_report(text.substr(0, length));
    EXPECT_FALSE(report.is_whole) << length;
    EXPECT_TRUE(report.broken.empty() || report.broken == "a sentence of words") << length;
    EXPECT_TRUE(report.metrics.empty() || report.metrics[0].second == 12.5) << length;
  }
  CellReport whole = parse_cell_report(text);
  EXPECT_TRUE(whole.is_whole);
  EXPECT_EQ(whole.failed_allocations, 2u);
}

TEST(CellReport, NonsenseIsPassedOver) {
  CellReport report = parse_cell_report(
      "bucket 1 1\nbucket\n\nlatency\nbucket 99999999999 1\nx y\n"
      "metric a nan\nmetric b -inf\nmetric c 1\n");
  EXPECT_THAT(report.metrics, ElementsAre(Pair("c", 1)));
  EXPECT_FALSE(report.is_whole);
  EXPECT_TRUE(report.latencies.at(0).second.buckets.empty());
}

TEST(Matrix, HasACellForEveryCombinationAndNamesWhatVaries) {
  ScenarioInfo scenario = scenario_of("x");
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
  ScenarioInfo scenario = scenario_of("x", false);
  std::vector<BenchCell> cells = make_cells({&scenario}, {1, 2, 4}, {});
  ASSERT_EQ(cells.size(), 1u);
  EXPECT_EQ(cells[0].varying, "");
  EXPECT_FALSE(params_of(BenchPlan(), cells[0]).contains("threads"));
}

TEST(Matrix, ParametersAreNumbersWhereTheyAreNumbers) {
  ScenarioInfo scenario = scenario_of("x");
  BenchPlan plan;
  plan.seconds = 0.5;
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

std::string matrix_refusal(const ScenarioInfo& scenario, const std::vector<int>& threads,
                           const SweptOptions& options) {
  try {
    make_cells({&scenario}, threads, options);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Matrix, AValueIsNotGivenTwiceHoweverItIsWritten) {
  ScenarioInfo scenario = scenario_of("x");
  EXPECT_EQ(matrix_refusal(scenario, {1, 2, 1}, {}), "--threads has 1 twice");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"size", {"64", "16", "064"}}}), "--size has 64 twice");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"share", {"0.5", "0.50"}}}), "--share has 0.5 twice");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"mode", {"b", "b"}}}), "--mode has b twice");
  EXPECT_EQ(matrix_refusal(scenario, {1, 2}, {{"mode", {"a", "b"}}}), "accepted");
}

TEST(Matrix, AnOptionStaysBelowItsCeilingInEveryCell) {
  ScenarioInfo scenario = scenario_of("x");
  scenario.options.push_back({"least", "count", "bytes", "8", 1, 4096, {}, "bytes", "size"});
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"least", {"64"}}}), "accepted");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"least", {"65"}}}), "--least 65 is above --size 64");
  EXPECT_EQ(matrix_refusal(scenario, {1}, {{"least", {"20"}}, {"size", {"64", "16"}}}),
            "--least 20 is above --size 16");
}

TEST(ScenarioOptions, AFileOfSizesIsReadBeforeAnythingRuns) {
  ScenarioOption option = {"size-dist", "choice-or-file", "", "fixed", 0, 0, {"fixed"}, "sizes"};
  const std::string path = ::testing::TempDir() + "strata-bench-sizes.csv";
  auto refusal_of = [&](const std::string& text) -> std::string {
    std::ofstream(path) << text;
    try {
      option.check(path);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal_of("bytes,weight\n64,1\n"), "accepted");
  EXPECT_THAT(refusal_of("64,1\n64,1,1\n"), HasSubstr("--size-dist: line 2 of"));
  EXPECT_THAT(refusal_of(""), HasSubstr("--size-dist: there are no sizes in"));
  std::remove(path.c_str());
  EXPECT_THROW(option.check(::testing::TempDir()), UsageError);
  EXPECT_THROW(option.check(path), UsageError);
}

TEST(ScenarioOptions, RefuseWhatIsOutOfRangeByName) {
  EXPECT_THAT(refusal("size", "0"), HasSubstr("--size is '0'; give a whole number from 1 to 1024"));
  EXPECT_THAT(refusal("size", "1x"), HasSubstr("--size is '1x'"));
  EXPECT_THAT(refusal("size", "99999999999999999999"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("share", "1.5"), HasSubstr("--share is '1.5'; give a number from 0 to 1"));
  EXPECT_THAT(refusal("share", "nan"), HasSubstr("give a number"));
  EXPECT_THAT(refusal("mode", "c"), HasSubstr("--mode is 'c'; give a, b"));
  EXPECT_EQ(refusal("size", "1024"), "accepted");
  EXPECT_EQ(refusal("mode", "b"), "accepted");
}

Row row_of(const std::string& name, std::vector<double> values) {
  Row row;
  row.contender = name;
  row.values = {{"ns_per_op", values}};
  // How much was done does not say how well.
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
