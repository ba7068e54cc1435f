#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/latency.h"
#include "measure/statistics.h"

/// \file  Results as every command writes them and `strata report` reads them: docs/results.md
/// describes the format for people, docs/results-schema.json for machines.

namespace strata::cli {

/// The reason of a row without any completed run, when we were interrupted.
inline constexpr const char* kInterruptedTooEarly = "interrupted before its first run ended";

/// A metric against the same one of another contender.
struct RatioTo : Ratio {
  std::string to;
};

/// A process seen from outside at one moment.
struct TimelinePoint {
  double t_s = 0;  ///< since the load began; 0 before
  std::uint64_t rss_bytes = 0;
  std::optional<std::uint64_t> pss_bytes;   ///< only where it rests
  std::optional<std::uint64_t> live_bytes;  ///< asked for and not freed; only of replays
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::string phase = "start";  ///< or "load", "freeing", "after"
};

/// One contender under one set of parameters. A row that failed is a row, with its reason.
struct Row {
  std::string scenario;
  std::string contender;
  std::string version;
  std::string library;
  std::string label;
  nlohmann::ordered_json params = nlohmann::ordered_json::object();
  /// A metric's name ends in its unit: _s, _bytes; without one it is a count. In the order in which
  /// they are read.
  std::vector<std::pair<std::string, Summary>> metrics;
  /// The values of single runs, for some metrics or for none.
  std::vector<std::pair<std::string, std::vector<double>>> values;
  std::vector<std::pair<std::string, RatioTo>> ratios;
  std::vector<std::pair<std::string, Latency>> latencies;  ///< by kind of operation
  std::vector<TimelinePoint> timeline;
  std::optional<std::uint64_t> failed_allocations;
  bool is_broken = false;  ///< it corrupted memory
  bool ok = true;
  std::string reason;       ///< why not ok
  std::string last_output;  ///< the last words of a failed command

  /// nullptr if the row has no such metric.
  const Summary* metric(std::string_view name) const noexcept;
  double median(std::string_view name) const noexcept;  ///< of the metric; 0 if there is none
  const std::vector<double>* values_of(std::string_view name) const noexcept;
  const RatioTo* ratio(std::string_view name) const noexcept;
  const Latency* latency(std::string_view kind) const noexcept;
};

/// The largest median of the metric among the rows that are ok; 0 if none has it.
double largest_median(std::span<const Row> rows, std::string_view metric) noexcept;

/// Adds a name that is not there yet.
void add_name(std::vector<std::string>& names, const std::string& name);
/// Adds those of the entries, in their order.
template <typename Entries>
void add_names(std::vector<std::string>& names, const Entries& entries) {
  for (const auto& [name, value] : entries) add_name(names, name);
}

/// In one line. Text that is not UTF-8 (a file's name, a program's last words) does not cost the
/// rest.
std::string json_line(const nlohmann::ordered_json& json);

/// A number as results carry it: seconds down to the nanosecond, nanoseconds down to the
/// picosecond, bytes and counts as the whole numbers they are.
nlohmann::ordered_json json_number(std::string_view metric, double value);

inline constexpr std::string_view kResultsSchema = "strata-results/1";

struct Results {
  std::string strata = STRATA_VERSION;  ///< the version that measured
  std::string measured;  ///< when it began, UTC, "2026-01-31T12:00:00Z"; empty: not known
  nlohmann::ordered_json machine;
  std::vector<Row> rows;

  /// {"schema":"strata-results/1", …}, indented, with a newline at the end.
  std::string to_json() const;

  /// One line per row after a line of names; a column for every parameter and every number of
  /// every metric, ratio and latency that any row has; docs/results.md. RFC 4180 quoting.
  std::string to_csv() const;
};

/// What to_json() wrote, of this version or another; what a row lacks is empty. `name` is what
/// sentences call the text.
/// \errors  UsageError that names the text and the field that is not as docs/results.md says.
Results read_results(const std::string& name, std::string_view text);

}  // namespace strata::cli
