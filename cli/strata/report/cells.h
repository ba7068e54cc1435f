#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/plot.h"
#include "report/report_data.h"

namespace strata::cli {

/// A contender of a measurement. It has a colour, a legend entry, and a line in each plot.
struct Series {
  std::string contender;
  std::string measurement;  ///< empty if there is only one
  std::string name;         ///< both, for display
  std::string short_name;   ///< fits beside a plot; unique
  std::string version;
  std::string library;
  SeriesStyle style;
};

/// A row of a cell, and the series that it belongs to.
struct Entry {
  const Row* row;
  int series;
};

/// Comparable results: a scenario with one set of parameters, and all contenders that ran it.
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

/// Cells that differ only in one number, which can be an axis: threads 1, 2, 4.
struct Sweep {
  std::string scenario;
  std::string parameter;
  std::string fixed;  ///< what distinguishes several sweeps of the scenario; else empty
  std::string id;
  /// the number and the cell's index, ascending
  std::vector<std::pair<double, std::size_t>> points;

  /// Whether it shows how a load scales: its number is the threads, and the first is 1.
  bool is_of_threads() const { return parameter == "threads" && points.front().first == 1; }
};

/// The rows of all files, arranged: series, cells and sweeps.
struct Arrangement {
  Arrangement() = default;
  Arrangement(Arrangement&&) = default;  // no copies: the cells point into the data
  Arrangement& operator=(Arrangement&&) = default;

  ReportData data;
  std::vector<Series> series;
  std::vector<Cell> cells;
  std::vector<Sweep> sweeps;
  int cores = 0;  ///< available to the load; 0: unknown, or different between files

  std::vector<SeriesStyle> styles() const;
};

/// Puts rows of one scenario with equal parameters into one cell, whichever file they come from;
/// the number of runs and the timeout do not distinguish cells. Names the measurements after their
/// files if labels do not distinguish the files.
Arrangement arrange(ReportData data);

/// The row that `row`'s ratios refer to, within its measurement: the one that its rows name, else
/// the system's, else the first ok row; nullptr if there is none.
const Row* baseline_of(const Cell& cell, const Row& row);

/// The ratio of `row`'s metric to the baseline's: the row's own ratio with its interval, if any,
/// else that of the medians. ratio is 0 if there is none.
RatioTo ratio_to_baseline(const Cell& cell, const Row& row, std::string_view metric);

/// The cell's metric of throughput: ops_per_s, ns_per_op, cpu_ns_per_op (for a replay, which may
/// have slept as the program did) or elapsed_s; empty if it has none.
std::string throughput_metric(const Cell& cell);

/// The metric that orders a cell's contenders: its throughput, or the first rate or time; empty if
/// there is none.
std::string speed_metric(const Cell& cell);

/// Shortens names in the middle if they exceed `longest`, or the length that still keeps different
/// names different.
std::vector<std::string> fitting_names(const std::vector<std::string>& names, std::size_t longest);

/// Reduces text to letters, digits and '-', for an id or a file name.
std::string slug(std::string_view text);

}  // namespace strata::cli
