#include "measure/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

Row good_row() {
  Row row;
  row.scenario = "app";
  row.contender = "system";
  row.version = "glibc 2.36";
  row.params["runs"] = 3;
  row.metrics.emplace_back("elapsed_s", summarize({0.1, 0.3, 0.2}));
  row.metrics.emplace_back("peak_rss_bytes", summarize({4096, 8192, 12288}));
  return row;
}

Row failed_row() {
  Row row;
  row.scenario = "app";
  row.contender = "mine";
  row.library = "/lib/mine.so";
  row.params["mode"] = "a,\"b\"";
  row.ok = false;
  row.reason = "killed by SIGSEGV, in run 1 of 3";
  row.last_output = "boom\xff";
  return row;
}

Json parsed(std::vector<Row> rows) {
  Results results;
  results.machine = {{"cpu", "one"}};
  results.rows = std::move(rows);
  return Json::parse(results.to_json());
}

TEST(Results, JsonHasSchemaMachineAndRows) {
  Json json = parsed({good_row()});
  EXPECT_EQ(json["schema"], "strata-results/1");
  EXPECT_EQ(json["machine"]["cpu"], "one");
  const Json& row = json["rows"][0];
  EXPECT_EQ(row["scenario"], "app");
  EXPECT_EQ(row["contender"], "system");
  EXPECT_EQ(row["params"]["runs"], 3);
  EXPECT_EQ(row["ok"], true);
  EXPECT_FALSE(row.contains("reason"));
  EXPECT_DOUBLE_EQ(row["metrics"]["elapsed_s"]["median"].get<double>(), 0.2);
  EXPECT_EQ(row["metrics"]["elapsed_s"]["n"], 3);
}

TEST(Results, BytesAreWholeNumbersAndSecondsAreNot) {
  Json metrics = parsed({good_row()})["rows"][0]["metrics"];
  EXPECT_TRUE(metrics["peak_rss_bytes"]["median"].is_number_integer());
  EXPECT_EQ(metrics["peak_rss_bytes"]["max"], 12288);
  EXPECT_TRUE(metrics["elapsed_s"]["median"].is_number_float());
}

TEST(Results, AFailureIsARowWithItsReasonAndSurvivesTextThatIsNotUtf8) {
  Json row = parsed({failed_row()})["rows"][0];
  EXPECT_EQ(row["ok"], false);
  EXPECT_EQ(row["reason"], "killed by SIGSEGV, in run 1 of 3");
  EXPECT_TRUE(row["metrics"].empty());
  EXPECT_THAT(row["last_output"].get<std::string>(), HasSubstr("boom"));
}

TEST(Results, WhatIsWrittenIsReadAsItWas) {
  Row row = good_row();
  row.label = "before";
  row.values.emplace_back("elapsed_s", std::vector<double>{0.1, 0.3, 0.2});
  RatioTo ratio;
  ratio.to = "system";
  ratio.ratio = 0.55;
  ratio.low = 0.5;
  ratio.high = 0.6;
  ratio.n = 3;
  row.ratios.emplace_back("elapsed_s", ratio);
  Latency latency;
  latency.timer_cost_ns = 11.5;
  for (std::size_t bucket : {700u, 800u}) latency.add_bucket(bucket, bucket);
  latency.count = 1500;
  latency.sum_ns = 60000;
  latency.max_ns = 900;
  row.latencies.emplace_back("alloc", latency);
  row.timeline.push_back({0, 4096, 2048, {}, 3, 1, "start"});
  row.timeline.push_back({0.5, 8192, {}, 5000, 5, 1, "load"});
  row.failed_allocations = 0;
  Row broken = failed_row();
  broken.is_broken = true;
  broken.last_output = "boom";
  Results results;
  results.machine = {{"cpu", "one"}};
  results.rows = {row, broken};
  const std::string text = results.to_json();
  EXPECT_EQ(read_results("x.json", text).to_json(), text);
}

TEST(Results, CsvHasAColumnForWhateverAnyRowHas) {
  Results results;
  results.measured = "2026-01-31T12:00:00Z";
  results.rows = {good_row(), failed_row()};
  std::istringstream text(results.to_csv());
  std::string titles, first, second, rest;
  std::getline(text, titles);
  std::getline(text, first);
  std::getline(text, second);
  EXPECT_FALSE(std::getline(text, rest));
  EXPECT_EQ(titles,
            "scenario,contender,version,library,ok,reason,measured,params.runs,params.mode,"
            "elapsed_s.median,elapsed_s.min,elapsed_s.max,elapsed_s.n,"
            "peak_rss_bytes.median,peak_rss_bytes.min,peak_rss_bytes.max,peak_rss_bytes.n");
  EXPECT_EQ(first,
            "app,system,glibc 2.36,,true,,2026-01-31T12:00:00Z,3,,0.2,0.1,0.3,3,8192,4096,12288,3");
  EXPECT_EQ(
      second,
      "app,mine,,/lib/mine.so,false,\"killed by SIGSEGV, in run 1 of 3\",2026-01-31T12:00:00Z,,"
      "\"a,\"\"b\"\"\",,,,,,,,");
}

TEST(Results, EachLineOfTheCsvHasAsManyFieldsAsTheTitles) {
  Row full = good_row();
  full.scenario = "";
  RatioTo ratio;
  ratio.to = "system";
  full.ratios.emplace_back("elapsed_s", ratio);
  full.latencies.emplace_back("alloc", Latency());
  const auto fields_of = [](const std::vector<Row>& rows) {
    Results results;
    results.rows = rows;
    std::istringstream text(results.to_csv());
    std::vector<std::ptrdiff_t> commas;
    for (std::string line; std::getline(text, line);) {
      commas.push_back(std::count(line.begin(), line.end(), ','));
    }
    return commas;
  };
  Row bare;
  const std::vector<std::ptrdiff_t> commas = fields_of({full, bare});
  EXPECT_EQ(commas, std::vector(3, commas.front()));
  // Three more fields if one of the rows has a label, or is broken.
  const std::ptrdiff_t least = fields_of({bare}).front();
  Row labelled = bare;
  labelled.label = "before";
  EXPECT_EQ(fields_of({bare, labelled}).front(), least + 3);
  Row broken = bare;
  broken.is_broken = true;
  EXPECT_EQ(fields_of({bare, broken}).front(), least + 3);
}

TEST(Results, NumbersThatAreNotWholeOrVeryLargeKeepTheirPoint) {
  EXPECT_TRUE(json_number("ops", 3).is_number_integer());
  EXPECT_EQ(json_number("ops", 2.5), 2.5);
  EXPECT_TRUE(json_number("ops", 1e20).is_number_float());
  EXPECT_FALSE(parsed({good_row()})["rows"][0].contains("reason"));
}

TEST(Results, TheLargestMedianIsThatOfARowThatCompleted) {
  Row failed = failed_row();
  failed.metrics.emplace_back("elapsed_s", summarize({100}));
  const std::vector<Row> rows = {good_row(), failed};
  EXPECT_EQ(largest_median(rows, "elapsed_s"), 0.2);
}

}  // namespace
}  // namespace strata::cli
