#include "report/results_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "report/results_tables.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

Json row(const char* contender, int threads, double ops_per_s, int size = 64) {
  Json rate = {{"median", ops_per_s}, {"min", ops_per_s}, {"max", ops_per_s}, {"n", 1}};
  return {{"scenario", "scale"},
          {"contender", contender},
          {"params", {{"threads", threads}, {"size", size}}},
          {"metrics", {{"ops_per_s", rate}}},
          {"ok", true}};
}

ReportData read(std::vector<Json> rows, int cores = 16) {
  Json results = {{"schema", "strata-results/1"}, {"machine", {{"cores", cores}}}, {"rows", rows}};
  ReportData data;
  data.add("x.json", results.dump());
  return data;
}

std::vector<Json> two_who_scale() {
  return {row("system", 1, 10e6), row("strata", 1, 20e6), row("system", 2, 18e6),
          row("strata", 2, 40e6), row("system", 8, 25e6), row("strata", 8, 140e6)};
}

Mark guide_of(const Plot& plot) {
  auto found = std::find_if(plot.marks.begin(), plot.marks.end(),
                            [](const Mark& mark) { return mark.kind == Mark::Kind::kDashed; });
  return found != plot.marks.end() ? *found : Mark{};
}

TEST(Scaling, TheIdealIsTheBestSingleThreadTimesTheThreads) {
  Arrangement all = arrange(read(two_who_scale()));
  Plot plot = sweep_plot(all, all.sweeps.at(0), "ops_per_s");
  EXPECT_THAT(guide_of(plot).points, ElementsAre(Pair(1, 20e6), Pair(8, 160e6)));
  EXPECT_THAT(plot.note, HasSubstr("Dashed: the best with one thread, times the threads."));
  EXPECT_FALSE(plot.x.is_log) << "the ideal would be no straight line";
  EXPECT_GE(plot.y.high, 160e6) << "it would leave the plot";
}

TEST(Scaling, TheIdealRisesNoFurtherThanTheCores) {
  Arrangement all = arrange(read(two_who_scale(), 4));
  EXPECT_THAT(guide_of(sweep_plot(all, all.sweeps.at(0), "ops_per_s")).points,
              ElementsAre(Pair(1, 20e6), Pair(4, 80e6), Pair(8, 80e6)));
}

TEST(Scaling, WithoutOneThreadThereIsNeitherIdealNorSpeedUp) {
  std::vector<Json> rows = two_who_scale();
  rows.erase(rows.begin(), rows.begin() + 2);
  Arrangement all = arrange(read(rows));
  EXPECT_TRUE(guide_of(sweep_plot(all, all.sweeps.at(0), "ops_per_s")).points.empty());
  EXPECT_EQ(speedup_table(all, "scale"), "");
}

TEST(Scaling, OtherSweepsHaveNoIdeal) {
  Arrangement all = arrange(read({row("strata", 1, 1e6, 1), row("strata", 1, 2e6, 2)}));
  EXPECT_TRUE(guide_of(sweep_plot(all, all.sweeps.at(0), "ops_per_s")).points.empty());
  EXPECT_EQ(speedup_table(all, "scale"), "");
}

TEST(Scaling, ASpeedUpIsToOneThreadOfTheSameContenderAndLoad) {
  std::vector<Json> rows = two_who_scale();
  for (const Json& more : {row("system", 1, 1e6, 32), row("strata", 1, 1e6, 32),
                           row("system", 8, 8.1e6, 32), row("strata", 8, 2e6, 32)}) {
    rows.push_back(more);
  }
  Arrangement all = arrange(read(rows));
  const std::string table = speedup_table(all, "scale");
  EXPECT_THAT(table, HasSubstr("<th scope=\"row\">size 64</th><td data-v=\"8\">8</td>"
                               "<td data-v=\"2.5\">2.50×</td>"
                               "<td data-v=\"7\" class=\"best\">7.00×</td>"));
  EXPECT_THAT(table, HasSubstr("<th scope=\"row\">size 32</th><td data-v=\"8\">8</td>"
                               "<td data-v=\"8.1\" class=\"best\">8.10×</td>"
                               "<td data-v=\"2\">2.00×</td>"));
  EXPECT_THAT(table, HasSubstr("geometric mean of 2</th><td data-v=\"8\">8</td>"
                               "<td data-v=\"4.5\" class=\"best\">4.50×</td>"));
  EXPECT_THAT(table, Not(HasSubstr("geometric mean of 1")));
}

TEST(Scaling, ThreadsAndProcessesHaveMeansOfTheirOwn) {
  std::vector<Json> rows;
  for (const char* workers : {"threads", "processes"}) {
    for (int size : {32, 64}) {
      const double rate = size == 64 ? 12e6 : 3e6;
      rows.push_back(row("strata", 1, 1e6, size));
      rows.push_back(row("strata", 2, workers[0] == 't' ? rate : rate / 6, size));
      for (std::size_t i : {rows.size() - 2, rows.size() - 1})
        rows[i]["params"]["workers"] = workers;
    }
  }
  const Arrangement all = arrange(read(rows));
  const std::string table = speedup_table(all, "scale");
  EXPECT_THAT(table, HasSubstr("geometric mean of 2, threads</th><td data-v=\"2\">2</td>"
                               "<td data-v=\"6\">6.00×</td>"));
  EXPECT_THAT(table, HasSubstr("geometric mean of 2, processes</th><td data-v=\"2\">2</td>"
                               "<td data-v=\"1\">1.00×</td>"));
}

TEST(Scaling, WhoFailedWithOneThreadHasNoSpeedUp) {
  std::vector<Json> rows = two_who_scale();
  rows[0]["ok"] = false;
  rows[0]["reason"] = "timed out";
  Arrangement all = arrange(read(rows));
  EXPECT_THAT(speedup_table(all, "scale"), Not(HasSubstr("system")));
  EXPECT_THAT(speedup_table(all, "scale"), HasSubstr("strata"));
}

TEST(ResultsReport, ALargeMatrixIsDrawnOverItsFirstDimensionOnly) {
  std::vector<Json> rows;
  for (int threads : {1, 2, 4}) {
    for (int size = 1; size <= 20; ++size) rows.push_back(row("strata", threads, 1e6, size));
  }
  rows.back()["ok"] = false;
  rows.back()["reason"] = "ran out of memory";
  ResultsReport report(read(rows));
  std::vector<Plot> plots = report.plots();
  EXPECT_EQ(plots.size(), 20u);
  for (const Plot& plot : plots) EXPECT_THAT(plot.id, HasSubstr("by-threads"));
  Drawings drawings;
  drawings.svgs.resize(plots.size());
  const Page page = report.page("x", drawings);
  auto section = std::find_if(page.sections.begin(), page.sections.end(),
                              [](const Section& each) { return each.id == "scenario-scale"; });
  ASSERT_NE(section, page.sections.end());
  EXPECT_THAT(section->html, HasSubstr("ran out of memory"));
  EXPECT_THAT(section->html, HasSubstr("60 loads"));
}

}  // namespace
}  // namespace strata::cli
