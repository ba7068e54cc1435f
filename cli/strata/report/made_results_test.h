#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/report_data.h"

/// \file  Results as commands write them, made for tests of the report.

namespace strata::cli {

using Json = nlohmann::ordered_json;

inline Json summary(double median, double spread = 0.05) {
  return {
      {"median", median}, {"min", median * (1 - spread)}, {"max", median * (1 + spread)}, {"n", 3}};
}

inline Json row(const char* contender, double ops_per_s, int threads = 1) {
  return {{"scenario", "churn"},
          {"contender", contender},
          {"params", {{"threads", threads}, {"runs", 3}}},
          {"metrics", {{"ops_per_s", summary(ops_per_s)}, {"peak_rss_bytes", summary(1e6)}}},
          {"ok", true}};
}

inline Json failed_row(const char* contender, int threads = 1) {
  Json json = row(contender, 1, threads);
  json["metrics"] = Json::object();
  json["ok"] = false;
  json["broken"] = true;
  json["reason"] = "corrupted memory, in run 1 of 3";
  return json;
}

/// One operation of `ns` nanoseconds for each of the values.
inline Json latency(std::vector<double> all_ns) {
  Json buckets = Json::array();
  for (double ns : all_ns) buckets.push_back({ns, ns * 1.01, 1});
  return {{"unit", "ns"},      {"timer_cost_ns", 10},  {"count", all_ns.size()},
          {"mean", 1},         {"max", all_ns.back()}, {"percentiles", {{"p50", 5}, {"p99", 9}}},
          {"buckets", buckets}};
}

inline Json results(std::vector<Json> rows) {
  return {{"schema", "strata-results/1"}, {"machine", {{"cpu", "one"}}}, {"rows", rows}};
}

inline ReportData read(const Json& json, const std::string& name = "x.json") {
  ReportData data;
  data.add(name, json.dump());
  return data;
}

}  // namespace strata::cli
