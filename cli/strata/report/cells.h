#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/plot.h"
#include "report/report_data.h"

namespace strata::cli {

/// One contender of one measurement: what has a colour, a place in the legend, a line in each plot.
struct Series {
  std::string contender;
  std::string measurement;  ///< empty where there is only one
  std::string name;         ///< both, for people
  std::string short_name;   ///< fits beside a plot, and is unique
  std::string version;
  std::string library;
  SeriesStyle style;
};

/// One row of a cell, and whose it is.
struct Entry {
  const Row* row;
  int series;
};

/// What can be compared: a scenario under one set of parameters, and every contender that ran it.
struct Cell {
  std::string scenario;
  std::string title;   ///< the parameters in which the scenario's cells differ: "threads 4"
  std::string params;  ///< all parameters: "threads 4 · size 64 · …"
  std::string id;      ///< letters, digits, '-'
  std::vector<Entry> entries;

  /// "churn, threads 4".
  std::string name() const { return title.empty() ? scenario : scenario + ", " + title; }
  /// Whether any of its rows has the metric.
  bool has(std::string_view metric) const;
};

/// Cells that differ in one number only, so that it can be an axis: threads 1, 2, 4.
struct Sweep {
  std::string scenario;
  std::string parameter;
  std::string fixed;  ///< where several sweeps of the scenario differ, in what; else empty
  std::string id;
  std::vector<std::pair<double, std::size_t>>
      points;  ///< its value and the cell's index, ascending

  /// Whether it shows how a load scales: its number is of threads, and it begins with one.
  bool is_of_threads() const { return parameter == "threads" && points.front().first == 1; }
};

/// The rows of all files, in order: who took part, what was done, what varied.
struct Arrangement {
  Arrangement() = default;
  Arrangement(Arrangement&&) = default;  // no copies: the cells point into the data
  Arrangement& operator=(Arrangement&&) = default;

  ReportData data;
  std::vector<Series> series;
  std::vector<Cell> cells;
  std::vector<Sweep> sweeps;
  int cores = 0;  ///< that the load could use; 0: unknown, or the files differ in it

  std::vector<SeriesStyle> styles() const;
};

/// Rows of one scenario with equal parameters come together in one cell, whichever file they are
/// from; how often something was run and when it was given up do not distinguish cells. Names the
/// measurements after their files where labels do not distinguish the files.
Arrangement arrange(ReportData data);

/// The row that a cell's ratios refer to: of the same measurement as `row`, the one that its rows
/// name, else the system's, else the first that is ok; nullptr if there is none.
const Row* baseline_of(const Cell& cell, const Row& row);

/// `row`'s metric as a share of the baseline's: the row's own ratio with its interval where it has
/// one, else that of the medians. ratio is 0 if there is none.
RatioTo ratio_to_baseline(const Cell& cell, const Row& row, std::string_view metric);

/// How fast work was done, where a cell says so: ops_per_s, ns_per_op, cpu_ns_per_op (of a replay,
/// which may have slept as the program did) or elapsed_s; else empty.
std::string throughput_metric(const Cell& cell);

/// What a cell's contenders are ordered by: its throughput, or whatever comes first and is a rate
/// or a time; empty if there is none.
std::string speed_metric(const Cell& cell);

/// The names, cut in the middle where they are longer than `longest`, or than the length from which
/// on names that differ are cut differently.
std::vector<std::string> fitting_names(const std::vector<std::string>& names, std::size_t longest);

/// Letters, digits and '-' of the text, for an id or a file's name.
std::string slug(std::string_view text);

}  // namespace strata::cli
