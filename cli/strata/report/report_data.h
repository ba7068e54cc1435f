#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/statistics.h"

/// \file  What a report is made of: result files as they were read. docs/results.md tells the
/// format. What a file does not have is empty here: results of `compare` have fewer parts than
/// those of `bench`.

namespace strata::cli {

/// One row as it was read: what measured it kept histograms and counters, a reader has their
/// numbers.
struct ReportRow {
  struct Ratio {
    std::string to;  ///< the contender that is 1
    double ratio = 1;
    double low = 0;  ///< 95% interval; both 0 if there were too few rounds for one
    double high = 0;
  };
  struct Latency {
    struct Bucket {
      double lower;  ///< nanoseconds, like all here
      double upper;
      double count;
    };
    std::string kind;  ///< of operation: alloc, free, …
    double timer_cost = 0;
    double max = 0;
    std::vector<std::pair<std::string, double>> percentiles;  ///< "p99.9" and its value, ascending
    std::vector<Bucket> buckets;                              ///< ascending

    /// 0 if it is not known.
    double percentile(std::string_view name) const;
  };
  struct Point {
    double t_s = 0;
    double rss_bytes = 0;
    std::string phase;  ///< start, load or after
  };

  std::string scenario;
  std::string contender;
  std::string version;
  std::string library;
  std::string measurement;  ///< the label, or the file where that is needed; else empty
  nlohmann::ordered_json params;
  std::vector<std::pair<std::string, Summary>> metrics;
  std::vector<std::pair<std::string, std::vector<double>>> values;
  std::vector<std::pair<std::string, Ratio>> ratios;
  std::vector<Latency> latencies;
  std::vector<Point> timeline;
  bool ok = true;
  bool is_broken = false;
  std::string reason;       ///< why not ok
  std::string last_output;  ///< the last words of a failed command
  std::size_t file = 0;     ///< index in ReportData::files

  /// nullptr if the row has no such metric.
  const Summary* metric(std::string_view name) const;
  const std::vector<double>* values_of(std::string_view metric) const;
  const Ratio* ratio_of(std::string_view metric) const;
};

struct ReportFile {
  std::string name;
  std::string strata;  ///< version that measured
  nlohmann::ordered_json machine;
};

struct ReportData {
  std::vector<ReportFile> files;
  std::vector<ReportRow> rows;

  /// Reads one more file's text; `name` is what sentences and the report call it.
  /// \errors  UsageError that names the file and the field if it is not `strata-results/1`.
  void add(const std::string& name, std::string_view text);
};

}  // namespace strata::cli
