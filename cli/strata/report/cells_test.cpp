#include "report/cells.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "report/made_results_test.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;

TEST(Arrangement, RowsWithEqualParametersAreOneCellWhateverTheirRuns) {
  Json again = row("mimalloc", 30);
  again["params"]["runs"] = 9;
  Arrangement all = arrange(read(results({row("system", 10), row("strata", 20, 4), again})));
  ASSERT_EQ(all.cells.size(), 2u);
  EXPECT_EQ(all.cells[0].name(), "churn, threads 1");
  EXPECT_EQ(all.cells[0].entries.size(), 2u);
  EXPECT_EQ(all.cells[1].name(), "churn, threads 4");
  ASSERT_EQ(all.sweeps.size(), 1u);
  EXPECT_EQ(all.sweeps[0].parameter, "threads");
}

TEST(Arrangement, ATraceIsNamedWithItsCallsOnlyWhereItsNameIsAnothersToo) {
  const auto replay = [](const char* trace, int calls) {
    Json json = row("strata", 10);
    json["scenario"] = "replay";
    json["params"] = {{"trace", trace}, {"calls", calls}};
    return json;
  };
  const auto second_name = [](std::vector<Json> rows) {
    return arrange(read(results(std::move(rows)))).cells[1].name();
  };
  EXPECT_EQ(second_name({replay("git.trace", 10), replay("perl.trace", 20)}),
            "replay, trace perl.trace");
  EXPECT_EQ(second_name({replay("git.trace", 10), replay("git.trace", 20)}), "replay, calls 20");
}

TEST(Arrangement, AContenderLooksTheSameWhoeverElseTakesPart) {
  Arrangement alone = arrange(read(results({row("strata", 20)})));
  Arrangement all =
      arrange(read(results({row("jemalloc", 10), row("system", 10), row("strata", 20)})));
  EXPECT_EQ(all.series[0].name, "system");
  EXPECT_EQ(all.series[1].name, "strata");
  Arrangement varied = arrange(read(results({row("jemalloc", 10), row("strata random=on", 20),
                                             row("system", 10), row("strata random=off", 20)})));
  EXPECT_EQ(varied.series[1].name, "strata random=on");
  EXPECT_EQ(varied.series[1].style.colour, alone.series[0].style.colour);
  EXPECT_EQ(varied.series[2].name, "strata random=off");
  EXPECT_NE(varied.series[2].style.colour, alone.series[0].style.colour);
  EXPECT_EQ(all.series[1].style.colour, alone.series[0].style.colour);
  EXPECT_NE(all.series[2].style.colour, all.series[1].style.colour);
}

TEST(Arrangement, FilesAreToldApartOnlyWhereTheyDidTheSame) {
  ReportData data;
  data.add("a/before.json", results({row("strata", 10)}).dump());
  data.add("a/after.json", results({row("strata", 20)}).dump());
  Json other = row("strata", 5);
  other["scenario"] = "larson";
  data.add("other.json", results({other}).dump());
  Arrangement all = arrange(data);
  ASSERT_EQ(all.series.size(), 3u);
  EXPECT_EQ(all.series[0].name, "strata");
  EXPECT_EQ(all.series[1].name, "strata (before.json)");
  EXPECT_EQ(all.series[2].name, "strata (after.json)");
  EXPECT_EQ(all.series[1].style.colour, all.series[2].style.colour);
  EXPECT_NE(all.series[1].style.label, all.series[2].style.label);
  EXPECT_EQ(all.cells[0].entries.size(), 2u);
}

TEST(Arrangement, LabelsNameMeasurementsUnlessAllAreTheSame) {
  Json before = row("strata", 10);
  before["label"] = "before";
  EXPECT_EQ(arrange(read(results({before}))).series[0].name, "strata");
  ReportData two = read(results({before}));
  before["label"] = "after";
  two.add("y.json", results({before}).dump());
  Arrangement all = arrange(std::move(two));
  EXPECT_EQ(all.series[0].name, "strata (before)");
  EXPECT_EQ(all.series[1].name, "strata (after)");
}

TEST(Arrangement, RatiosAreTheRowsOwnOrThoseOfTheMedians) {
  Json own = row("mimalloc", 30);
  own["ratios"]["ops_per_s"] = {{"to", "system"}, {"ratio", 2.9}, {"n", 3}};
  Arrangement all =
      arrange(read(results({row("strata", 20), own, row("system", 10), failed_row("bad")})));
  const Cell& cell = all.cells[0];
  EXPECT_DOUBLE_EQ(ratio_to_baseline(cell, *cell.entries[0].row, "ops_per_s").ratio, 2);
  EXPECT_DOUBLE_EQ(ratio_to_baseline(cell, *cell.entries[1].row, "ops_per_s").ratio, 2.9);
  EXPECT_DOUBLE_EQ(ratio_to_baseline(cell, *cell.entries[3].row, "ops_per_s").ratio, 0);
}

TEST(Arrangement, TheBaselineIsTheOneThatTheRowsName) {
  Json own = row("mimalloc", 30);
  own["ratios"]["ops_per_s"] = {{"to", "strata"}, {"ratio", 1.4}, {"n", 3}};
  Arrangement all = arrange(read(results({row("system", 10), row("strata", 20), own})));
  const Cell& cell = all.cells[0];
  EXPECT_EQ(baseline_of(cell, *cell.entries[0].row)->contender, "strata");
  EXPECT_DOUBLE_EQ(ratio_to_baseline(cell, *cell.entries[0].row, "ops_per_s").ratio, 0.5);

  // A ratio to a failed contender is ignored.
  own["ratios"]["ops_per_s"]["to"] = "bad";
  all = arrange(read(results({row("system", 10), failed_row("bad"), own})));
  EXPECT_DOUBLE_EQ(ratio_to_baseline(all.cells[0], *all.cells[0].entries[2].row, "ops_per_s").ratio,
                   3);
}

TEST(Arrangement, AFailedRowHasNoRatioWhateverItMeasured) {
  Json failed = row("strata", 20);
  failed["ok"] = false;
  failed["reason"] = "timed out";
  Arrangement all = arrange(read(results({row("system", 10), failed})));
  EXPECT_EQ(ratio_to_baseline(all.cells[0], *all.cells[0].entries[1].row, "ops_per_s").ratio, 0);
}

TEST(Arrangement, CellsThatAreCalledAlikeHaveIdsOfTheirOwn) {
  Json one = row("strata", 20);
  Json other = row("strata", 20);
  one["params"]["mode"] = "a+b";
  other["params"]["mode"] = "a-b";
  Arrangement all = arrange(read(results({one, other})));
  ASSERT_EQ(all.cells.size(), 2u);
  EXPECT_NE(all.cells[0].id, all.cells[1].id);
}

TEST(Arrangement, CoresAreUnknownWhereFilesDiffer) {
  Json two = results({row("strata", 20)});
  two["machine"]["cores"] = 2;
  Json four = results({row("mimalloc", 20)});
  four["machine"]["cores"] = 4;
  ReportData data = read(two);
  EXPECT_EQ(arrange(data).cores, 2);
  data.add("y.json", four.dump());
  EXPECT_EQ(arrange(data).cores, 0);
}

TEST(Arrangement, ManyContendersShareTheColoursThatThereAre) {
  std::vector<Json> rows;
  for (int i = 0; i < 20; ++i) rows.push_back(row(("a" + std::to_string(i)).c_str(), 10));
  const Arrangement all = arrange(read(results(rows)));
  for (const Series& series : all.series) {
    EXPECT_GE(series.style.colour, 2);
    EXPECT_LT(series.style.colour, SeriesStyle::kColours);
  }
}

TEST(Arrangement, ASweepRisesAndHoldsCellsThatDifferInOneNumber) {
  Json other = row("strata", 20, 2);
  other["params"]["mode"] = "batch";
  Arrangement all = arrange(
      read(results({row("strata", 20, 4), row("strata", 20, 1), row("strata", 20, 2), other})));
  ASSERT_EQ(all.cells.size(), 4u);
  ASSERT_EQ(all.sweeps.size(), 1u);
  std::vector<double> values;
  for (const auto& [value, cell] : all.sweeps[0].points) {
    values.push_back(value);
    EXPECT_EQ(all.cells[cell].params.find("batch"), std::string::npos);
  }
  EXPECT_THAT(values, ElementsAre(1, 2, 4));
}

TEST(Arrangement, AFailedRowIsNoBaseline) {
  Arrangement all =
      arrange(read(results({failed_row("system"), row("strata", 20), row("mimalloc", 10)})));
  const Cell& cell = all.cells[0];
  const Row* base = baseline_of(cell, *cell.entries.back().row);
  ASSERT_NE(base, nullptr);
  EXPECT_TRUE(base->ok);
  EXPECT_EQ(base->contender, "strata");
}

TEST(Arrangement, RatiosStayWithinAMeasurement) {
  Json before = row("strata", 10);
  Json after = row("strata", 30);
  Json base_before = row("system", 10);
  Json base_after = row("system", 60);
  ReportData data;
  data.add("before.json", results({base_before, before}).dump());
  data.add("after.json", results({base_after, after}).dump());
  Arrangement all = arrange(data);
  std::vector<double> ratios;
  for (const Entry& entry : all.cells[0].entries) {
    if (entry.row->contender != "strata") continue;
    ratios.push_back(ratio_to_baseline(all.cells[0], *entry.row, "ops_per_s").ratio);
  }
  EXPECT_THAT(ratios, ElementsAre(1, 0.5));
}

TEST(Cells, AreRankedByWhatSaysHowFastWorkWasDone) {
  Json plain = row("strata", 20);
  Json per_op = row("strata", 20, 2);
  per_op["metrics"] = {{"startup_s", summary(1)}, {"ns_per_op", summary(7)}};
  Json memory = row("strata", 20, 4);
  memory["metrics"] = {{"peak_rss_bytes", summary(1e6)}};
  Json paced_replay = row("strata", 20, 8);
  paced_replay["metrics"] = {{"elapsed_s", summary(1)}, {"cpu_ns_per_op", summary(40)}};
  Arrangement all = arrange(read(results({plain, per_op, memory, paced_replay})));
  EXPECT_EQ(speed_metric(all.cells[3]), "cpu_ns_per_op");
  EXPECT_EQ(throughput_metric(all.cells[0]), "ops_per_s");
  EXPECT_EQ(throughput_metric(all.cells[1]), "ns_per_op");
  EXPECT_EQ(throughput_metric(all.cells[2]), "");
  EXPECT_EQ(speed_metric(all.cells[1]), "ns_per_op");
  EXPECT_EQ(speed_metric(all.cells[2]), "");
}

TEST(Cells, NamesThatDifferAreCutDifferently) {
  EXPECT_THAT(fitting_names({"strata", "a-name-that-is-longer-than-fits"}, 16),
              ElementsAre("strata", "a-name-t…an-fits"));
  std::vector<std::string> names;
  for (const char* middle : {"one", "two", "six"}) {
    names.push_back(fmt::format("strata (measured before change {} on this machine)", middle));
  }
  std::vector<std::string> cut = fitting_names(names, 16);
  EXPECT_EQ(std::set<std::string>(cut.begin(), cut.end()).size(), 3u);
  EXPECT_LT(cut[0].size(), names[0].size());
  EXPECT_THAT(fitting_names({"same-name-same-name-same", "same-name-same-name-same"}, 8),
              ElementsAre("same…ame", "same…ame"));
}

TEST(Cells, AnIdHasLettersDigitsAndDashesOnly) {
  const std::string id = slug("churn, threads 4 · size \"64\"/<x>");
  EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos) << id;
  EXPECT_NE(id.find("churn"), std::string::npos) << id;
}

}  // namespace
}  // namespace strata::cli
