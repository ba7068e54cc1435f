#include "report/report_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "input/usage_error.h"
#include "report/cells.h"
#include "report/html.h"
#include "report/made_results_test.h"
#include "report/plot_parts.h"
#include "report/plots.h"
#include "report/results_tables.h"
#include "report/svg.h"
#include "shared/refusal_test.h"

namespace strata::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// The error message for a file with this change.
template <typename Change>
std::string refusal(Change change) {
  Json json = results({row("system", 10), row("strata", 20)});
  change(json);
  try {
    read(json, "dir/x.json");
  } catch (const UsageError& error) {
    EXPECT_EQ(error.status(), 2);
    return error.what();
  }
  return "accepted";
}

TEST(ReportData, ReadsWhatARowHasAndLeavesEmptyWhatItLacks) {
  Json full = row("strata", 20);
  full["ratios"]["ops_per_s"] = {
      {"to", "system"}, {"ratio", 2}, {"low", 1.9}, {"high", 2.1}, {"n", 3}};
  full["values"]["ops_per_s"] = {19, 20, 21};
  full["latencies"]["alloc"] = latency({5, 6, 9});
  full["timeline"] = {{{"t_s", 0.5}, {"rss_bytes", 4096}, {"phase", "load"}}};
  full["unknown"] = "ignored";
  ReportData data = read(results({row("system", 10), full}));
  ASSERT_EQ(data.rows.size(), 2u);
  EXPECT_TRUE(data.rows[0].latencies.empty());
  EXPECT_EQ(data.rows[0].ratio("ops_per_s"), nullptr);
  const Row& strata = data.rows[1];
  EXPECT_DOUBLE_EQ(strata.metric("ops_per_s")->median, 20);
  EXPECT_DOUBLE_EQ(*strata.ratio("ops_per_s")->high, 2.1);
  EXPECT_THAT(*strata.values_of("ops_per_s"), ElementsAre(19, 20, 21));
  ASSERT_EQ(strata.latencies.size(), 1u);
  EXPECT_EQ(strata.latencies[0].first, "alloc");
  EXPECT_EQ(strata.latency("alloc")->percentile_ns(0.99), 9);
  EXPECT_EQ(strata.latency("alloc")->buckets.size(), 3u);
  EXPECT_EQ(strata.timeline[0].phase, "load");
}

TEST(ReportData, ARefusalNamesTheFileAndTheField) {
  EXPECT_EQ(refusal([](Json& json) { json.erase("schema"); }),
            "'dir/x.json' cannot be read as results: schema is missing");
  EXPECT_THAT(refusal([](Json& json) { json["schema"] = "strata-results/2"; }),
              HasSubstr("schema is 'strata-results/2', not 'strata-results/1'"));
  EXPECT_THAT(refusal([](Json& json) { json.erase("rows"); }), HasSubstr("rows is missing"));
  EXPECT_THAT(refusal([](Json& json) { json["rows"] = 7; }), HasSubstr("rows is not a list"));
  EXPECT_THAT(refusal([](Json& json) { json["rows"][1].erase("contender"); }),
              HasSubstr("rows[1].contender is missing"));
  EXPECT_THAT(refusal([](Json& json) { json["rows"][1] = "row"; }),
              HasSubstr("rows[1] is not an object"));
  EXPECT_THAT(refusal([](Json& json) { json["rows"][0]["metrics"]["ops_per_s"]["median"] = "1"; }),
              HasSubstr("rows[0].metrics.ops_per_s.median is not a number"));
  EXPECT_THAT(
      refusal([](Json& json) { json["rows"][0]["metrics"]["ops_per_s"]["median"] = 1e308; }),
      HasSubstr("rows[0].metrics.ops_per_s.median is larger than anything measured"));
  EXPECT_THAT(refusal([](Json& json) { json["rows"][0]["ok"] = false; }),
              HasSubstr("rows[0].reason is missing"));
  EXPECT_THAT(refusal([](Json& json) {
                json["rows"][0]["latencies"]["alloc"] = latency({5, 6});
                json["rows"][0]["latencies"]["alloc"]["buckets"][1] = {5, 6, 1};
              }),
              HasSubstr("rows[0].latencies.alloc.buckets[1] is out of order"));
  for (const Json& bucket : {Json{5, 5, 1}, Json{5, 6, 1, 0}, Json{5, 6}}) {
    EXPECT_THAT(refusal([&](Json& json) {
                  json["rows"][0]["latencies"]["alloc"] = latency({5});
                  json["rows"][0]["latencies"]["alloc"]["buckets"][0] = bucket;
                }),
                HasSubstr("rows[0].latencies.alloc.buckets[0] is "))
        << bucket;
  }
  EXPECT_THAT(refusal([](Json& json) {
                json["rows"][0]["latencies"]["alloc"] = latency({5});
                json["rows"][0]["latencies"]["alloc"]["unit"] = "us";
              }),
              HasSubstr("rows[0].latencies.alloc.unit is not ns"));
  EXPECT_THAT(refusal([](Json& json) { json["machine"]["cores"] = "two"; }),
              HasSubstr("machine.cores is not a number"));
  EXPECT_THAT(refusal([](Json& json) { json["machine"]["cpu"] = Json::array(); }),
              HasSubstr("machine.cpu is not a string"));
}

TEST(ReportData, TakesBucketsOfNothingHalvesOfIntervalsAndBracketsInTexts) {
  Json full = row("strata", 20);
  full["latencies"]["alloc"] = latency({5, 6});
  full["latencies"]["alloc"]["buckets"][1][2] = 0;
  full["ratios"]["ops_per_s"] = {{"to", "system"}, {"ratio", 2}, {"low", 1.9}, {"n", -3}};
  full["label"] = "\"\\" + std::string(200, '[');
  const ReportData data = read(results({full}));
  EXPECT_EQ(data.rows[0].latency("alloc")->buckets.size(), 1u);
  EXPECT_FALSE(data.rows[0].ratio("ops_per_s")->low.has_value());
  EXPECT_EQ(data.rows[0].ratio("ops_per_s")->n, 0u);
}

TEST(ReportData, ValuesThatAreNestedWithoutEndAreRefused) {
  constexpr std::size_t kLevels = 1'000'000;
  std::string text = results({row("system", 10)}).dump();
  const std::string params = "\"params\":{";
  text.insert(text.find(params) + params.size(),
              "\"deep\":" + std::string(kLevels, '[') + std::string(kLevels, ']') + ',');
  EXPECT_THAT(refused_with<UsageError>([&] { ReportData().add("x.json", text); }),
              HasSubstr("'x.json' cannot be read as results: the file has values"));
}

TEST(ReportData, WhatIsNoJsonIsRefusedByName) {
  EXPECT_EQ(refused_with<UsageError>([] { ReportData().add("x.json", "{\"schema\": "); }),
            "'x.json' is not JSON");
}

TEST(Plots, TheBestIsFirstAndNamedAndTheFailedAreShownButNotRanked) {
  Arrangement all =
      arrange(read(results({row("system", 10), row("strata", 20), failed_row("bad")})));
  Plot plot = metric_plot(all, all.cells[0], "ops_per_s");
  EXPECT_THAT(plot.title, HasSubstr("strata is fastest: 20/s, 2.00× system"));
  ASSERT_FALSE(plot.marks.empty());
  EXPECT_EQ(plot.marks.front().kind, Mark::Kind::kBox);
  EXPECT_EQ(plot.marks.front().series, 1);
  for (const Mark& mark : plot.marks) EXPECT_NE(mark.series, 2) << "a failed row has a mark";
  EXPECT_THAT(plot.alt, HasSubstr("bad: broken"));
}

TEST(Plots, RunsThatOverlapHaveNoWinner) {
  Arrangement all = arrange(read(results({row("system", 19.5), row("strata", 20)})));
  EXPECT_THAT(metric_plot(all, all.cells[0], "ops_per_s").title, HasSubstr("their runs overlap"));
}

/// The names of the metrics that have a bold number in the table of a cell.
std::string best_in_table(const Arrangement& all) {
  std::string html = cell_table(all, all.cells.front());
  std::string names;
  for (std::size_t at = html.find("class=\"best\""); at != std::string::npos;
       at = html.find("class=\"best\"", at + 1)) {
    std::size_t name = html.rfind("scope=\"row\">", at) + 12;
    names += html.substr(name, html.find('<', name) - name) + ";";
  }
  return names;
}

TEST(Tables, TheBestIsBoldAndAmountsOfWorkHaveNone) {
  Json one = row("one", 2e6);
  Json two = row("two", 1e6);
  for (const char* amount : {"ops", "sent", "received", "peak_live_bytes", "back_share"}) {
    one["metrics"][amount] = summary(0.5);
    two["metrics"][amount] = summary(0.25);
  }
  two["metrics"]["peak_rss_bytes"] = summary(5e5);
  Arrangement all = arrange(read(results({one, two})));
  EXPECT_EQ(best_in_table(all), "operations per second;peak memory (RSS);back share;");
}

TEST(Plots, ANameAtTheEndOfALineIsTiedToIt) {
  Arrangement all =
      arrange(read(results({row("a", 1e6), row("a-name-that-is-longer-than-fits", 1.01e6),
                            row("a", 1e6, 2), row("a-name-that-is-longer-than-fits", 1e6, 2)})));
  ASSERT_EQ(all.sweeps.size(), 1u);
  Plot plot = sweep_plot(all, all.sweeps[0], "ops_per_s");
  ASSERT_EQ(plot.leaders.size(), 2u);
  EXPECT_DOUBLE_EQ(plot.leaders[0].y0, plot.leaders[1].y0);  // both lines end at one height
  EXPECT_NE(plot.leaders[0].y1, plot.leaders[1].y1);         // their names do not
  EXPECT_EQ(plot.texts[0].y, plot.leaders[0].y1);
  EXPECT_EQ(plot.texts[1].text, "a-name-t…an-fits");
  EXPECT_LT(plot.right, Plot::kWidth / 2);
}

TEST(Plots, AtAGlanceAreLoadsWithAThroughputOnly) {
  std::vector<Json> rows = {row("system", 1e6), row("a", 2e6), row("system", 1e6, 2),
                            row("a", 2e6, 2)};
  for (const char* contender : {"system", "a"}) {
    Json queue = row(contender, 1);
    queue["scenario"] = "queue";
    queue["metrics"] = {{"wall_s", summary(1)}, {"peak_rss_bytes", summary(1e6)}};
    rows.push_back(queue);
  }
  Arrangement all = arrange(read(results(rows)));
  EXPECT_EQ(speed_metric(all.cells[2]), "wall_s");
  EXPECT_THAT(overview_plot(all, "").alt, Not(HasSubstr("queue")));
  EXPECT_THAT(overview_plot(all, "peak_rss_bytes").alt, HasSubstr("queue"));
}

TEST(Plots, WhatTheRowsLackIsNotDrawn) {
  Arrangement all = arrange(read(results({row("system", 10)})));
  std::vector<PlotGroup> groups = cell_plots(all, all.cells[0]);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].size(), 2u);
  EXPECT_TRUE(overview_plots(all).empty());
}

TEST(Plots, ACurveOfPercentilesRisesAndStaysWithinTheMeasured) {
  std::vector<double> all_ns;
  for (int i = 1; i <= 1000; ++i) all_ns.push_back(10 * std::pow(1.012, i));
  Json json = row("strata", 20);
  json["latencies"]["alloc"] = latency(all_ns);
  Arrangement all = arrange(read(results({json})));
  Plot plot = percentile_plot(all, all.cells[0], "alloc");
  ASSERT_EQ(plot.marks.size(), 1u);
  const auto& points = plot.marks[0].points;
  ASSERT_GT(points.size(), 50u);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GE(points[i].first, points[i - 1].first);
    EXPECT_GT(points[i].second, points[i - 1].second);
  }
  // The 90th percentile is the 900th value.
  auto p90 =
      std::find_if(points.begin(), points.end(), [](auto point) { return point.first >= 1; });
  ASSERT_NE(p90, points.end());
  EXPECT_NEAR(p90->second, all_ns[899] * 1.005e-9, all_ns[899] * 0.03e-9);
  EXPECT_LE(points.back().first, percentile_position(0.9951)) << "five at least took longer";
  EXPECT_LE(points.back().second, all_ns[995] * 1.01e-9);
}

TEST(Plots, ACurveOfPercentilesStepsOverWhatNoOperationTook) {
  Json json = row("strata", 20);
  Json& coarse = json["latencies"]["alloc"] = latency({30});
  coarse["count"] = 1000;
  coarse["buckets"] = {{20, 20.2, 400}, {30, 30.3, 598}, {10'000, 10'100, 2}};
  Arrangement all = arrange(read(results({json})));
  const auto points = percentile_plot(all, all.cells[0], "alloc").marks.at(0).points;
  const std::pair<double, double> wanted[] = {{0, 20e-9},
                                              {percentile_position(0.4), 20e-9},
                                              {percentile_position(0.4), 30e-9},
                                              {percentile_position(0.995), 30e-9}};
  ASSERT_EQ(points.size(), std::size(wanted));
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(points[i].first, wanted[i].first, 1e-9);
    EXPECT_NEAR(points[i].second, wanted[i].second, 0.01 * wanted[i].second);
  }
}

TEST(Plots, ATitleNamesAPercentileThatIsDrawn) {
  std::vector<double> all_ns;
  for (int i = 1; i <= 60; ++i) all_ns.push_back(10.0 * i);
  Json json = row("strata", 20);
  json["latencies"]["alloc"] = latency(all_ns);
  Arrangement all = arrange(read(results({json})));
  // Of 60 calls, five take longer than 90% of them do, and none longer than 99%.
  EXPECT_THAT(percentile_plot(all, all.cells[0], "alloc").title, HasSubstr("90% of alloc calls"));
}

TEST(Plots, ATitleTellsHowManyAreAsGoodAsTheFirst) {
  std::vector<Json> rows;
  for (const char* name : {"system", "a", "b", "slow"}) {
    rows.push_back(row(name, 20));
    const double ns = rows.size() == 4 ? 50 : 30;
    rows.back()["latencies"]["alloc"] = latency(std::vector<double>(1, ns));
  }
  Arrangement all = arrange(read(results(rows)));
  EXPECT_THAT(histogram_plot(all, all.cells[0], "alloc").title,
              HasSubstr(": system and 2 others 30"));
}

TEST(Plots, WhoIsNowhereBetterIsNotCounted) {
  std::vector<Json> rows = {row("system", 4e6),    row("slow", 1e6),    row("some", 5e6),
                            row("system", 4e6, 2), row("slow", 1e6, 2), row("some", 3e6, 2)};
  Arrangement all = arrange(read(results(rows)));
  EXPECT_EQ(overview_plot(all, "").title, "Faster than system: some in 1 of 2");
  EXPECT_EQ(overview_plot(all, "peak_rss_bytes").title, "Leaner than system: none");
}

TEST(Plots, WhoIsBetterInMostLoadsIsNamedFirst) {
  std::vector<Json> rows = {row("system", 4e6),    row("once", 9e6),    row("always", 5e6),
                            row("system", 4e6, 2), row("once", 3e6, 2), row("always", 5e6, 2)};
  EXPECT_EQ(overview_plot(arrange(read(results(rows))), "").title,
            "Faster than system: always in 2 of 2, once in 1 of 2");
}

TEST(Plots, ALoadThatTheBaselineFailedHasNoPlaceAmongThoseRelativeToIt) {
  std::vector<Json> rows = {row("system", 4e6),      row("strata", 5e6),    row("other", 3e6),
                            row("system", 4e6, 2),   row("strata", 5e6, 2), row("other", 3e6, 2),
                            failed_row("system", 4), row("strata", 4e6, 4), row("other", 5e6, 4)};
  const Plot plot = overview_plot(arrange(read(results(rows))), "");
  EXPECT_EQ(plot.title, "Faster than system: strata in 2 of 2");
  EXPECT_THAT(plot.marks.front().tip, "system is 1");
}

TEST(Plots, AClockThatStandsStillHasAPlace) {
  Json json = row("strata", 20);
  json["latencies"]["alloc"] = latency({0.001});
  json["latencies"]["alloc"]["max"] = 0;
  Arrangement all = arrange(read(results({json})));
  const Plot plot = histogram_plot(all, all.cells[0], "alloc");
  for (const Mark& mark : plot.marks) {
    for (const auto& [x, y] : mark.points) EXPECT_TRUE(std::isfinite(plot.x.position(x)));
  }
}

TEST(Plots, WhatTookNoTimeAndNextToNoMemoryHasAPlace) {
  Json json = row("strata", 20);
  json["metrics"]["ops_per_s"]["median"] = 5e-324;
  json["timeline"] = {{{"t_s", 0}, {"rss_bytes", 4096}, {"phase", "load"}}};
  Arrangement all = arrange(read(results({json})));
  EXPECT_EQ(all.data.rows[0].metric("ops_per_s")->median, 0);
  EXPECT_GT(memory_plot(all, all.cells[0]).x.high, 0);
}

TEST(Plots, AHillStandsOnTheGroundOnBothSides) {
  Json json = row("strata", 20);
  json["latencies"]["alloc"] = latency({20, 21, 22, 40, 41});
  Arrangement all = arrange(read(results({json})));
  Plot plot = histogram_plot(all, all.cells[0], "alloc");
  ASSERT_FALSE(plot.marks.empty());
  const auto& outline = plot.marks[0].points;
  ASSERT_GT(outline.size(), 6u);
  double highest = 0;
  for (std::size_t i = 1; i < outline.size(); ++i) {
    bool is_upright = outline[i].first == outline[i - 1].first;
    bool is_level = outline[i].second == outline[i - 1].second;
    EXPECT_TRUE(is_upright || is_level) << "a slope at point " << i;
    highest = std::max(highest, outline[i].second);
  }
  EXPECT_EQ(outline.front().second, 0);
  EXPECT_EQ(outline.back().second, 0);
  EXPECT_NEAR(highest, 0.88, 1e-9);
}

TEST(Plots, LabelsAreMovedApartAndKeepTheirOrder) {
  std::vector<double> moved = spread_apart({0.5, 0.51, 0.9, 0.505}, 0.1, 0, 1);
  EXPECT_NEAR(moved[3] - moved[0], 0.1, 1e-9);
  EXPECT_NEAR(moved[1] - moved[3], 0.1, 1e-9);
  EXPECT_NEAR(moved[2], 0.9, 1e-9);
  for (double value : spread_apart(std::vector<double>(30, 1.0), 0.1, 0, 1)) {
    EXPECT_GE(value, -1e-9);
    EXPECT_LE(value, 1 + 1e-9);
  }
}

TEST(Axis, TicksAreRoundAndInside) {
  Axis linear = linear_axis(Quantity::kBytes, "memory", 45 * 1048576.0);
  EXPECT_EQ(linear.title, "memory, MiB");
  ASSERT_EQ(linear.ticks.size(), 5u);
  EXPECT_EQ(linear.ticks[4].text, "40");
  Axis log = log_axis(Quantity::kSeconds, "", 15e-9, 3e-6);
  for (const Tick& tick : log.ticks) {
    EXPECT_GE(log.position(tick.at), 0);
    EXPECT_LE(log.position(tick.at), 1);
  }
  EXPECT_DOUBLE_EQ(log.position(std::sqrt(15e-9 * 3e-6)), 0.5);
  const Axis narrow = log_axis(Quantity::kCount, "", 1, 3);
  EXPECT_EQ(narrow.ticks.back().at, 3);
}

TEST(Axis, OfNothingOrOfOneValueHasALength) {
  EXPECT_GT(linear_axis(Quantity::kCount, "", 0).high, 0);
  EXPECT_EQ(log_axis(Quantity::kCount, "", 2, 2).high, 3);
  EXPECT_EQ(percentile_axis(0.2).high, 1);
  EXPECT_TRUE(std::isfinite(percentile_position(1)));
}

TEST(Axis, TicksWithoutRoomAreLeftOutTheImportantLast) {
  Axis axis = percentile_axis(3);
  auto words = [&](double characters) {
    std::vector<std::string> texts;
    for (const Tick& tick : ticks_apart(axis, characters)) texts.push_back(tick.text);
    return texts;
  };
  EXPECT_THAT(words(60), ::testing::UnorderedElementsAre("0", "50%", "90%", "99%", "99.9%"));
  EXPECT_THAT(words(25), ::testing::UnorderedElementsAre("50%", "90%", "99%", "99.9%"));
}

TEST(Svg, TextIsEscaped) {
  EXPECT_EQ(html_escaped("<script a='\"&\"'>"), "&lt;script a=&#39;&quot;&amp;&quot;&#39;&gt;");
  Plot plot;
  plot.alt = "\"><script>";
  EXPECT_THAT(tidy_svg("<svg><defs></defs><g id=\"p\"></g>\n</svg>", plot),
              Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace strata::cli
