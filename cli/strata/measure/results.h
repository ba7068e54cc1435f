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

/// \file  Results: every command writes them, and `strata report` reads them. The format is
/// described in docs/results.md and docs/results-schema.json.

namespace strata::cli {

/// The reason of a row without a completed run after an interruption.
inline constexpr const char* kInterruptedTooEarly = "interrupted before its first run ended";

/// A metric's ratio to that of another contender.
struct RatioTo : Ratio {
  std::string to;
};

/// A sample of a process, taken from outside.
struct TimelinePoint {
  double t_s = 0;  ///< since the load began; 0 before
  std::uint64_t rss_bytes = 0;
  std::optional<std::uint64_t> pss_bytes;   ///< only where the process rests
  std::optional<std::uint64_t> live_bytes;  ///< requested and not freed; only for replays
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::string phase = "start";  ///< or "load", "freeing", "after"
};

/// One contender with one set of parameters. A failed row is kept, with its reason.
struct Row {
  std::string scenario;
  std::string contender;
  std::string version;
  std::string library;
  std::string label;
  nlohmann::ordered_json params = nlohmann::ordered_json::object();
  /// Metric names end in their unit: _s, _bytes; without one the metric is a count. Shown in this
  /// order.
  std::vector<std::pair<std::string, Summary>> metrics;
  /// The values of individual runs; may be missing for some metrics or all.
  std::vector<std::pair<std::string, std::vector<double>>> values;
  std::vector<std::pair<std::string, RatioTo>> ratios;
  std::vector<std::pair<std::string, Latency>> latencies;  ///< by kind of operation
  std::vector<TimelinePoint> timeline;
  std::optional<std::uint64_t> failed_allocations;
  bool is_broken = false;  ///< it corrupted memory
  bool ok = true;
  std::string reason;       ///< why it is not ok
  std::string last_output;  ///< the last lines of a failed command

  /// nullptr if the row has no such metric.
  const Summary* metric(std::string_view name) const noexcept;
  double median(std::string_view name) const noexcept;  ///< of the metric; 0 if there is none
  const std::vector<double>* values_of(std::string_view name) const noexcept;
  const RatioTo* ratio(std::string_view name) const noexcept;
  const Latency* latency(std::string_view kind) const noexcept;
};

/// The largest median of the metric among the ok rows; 0 if there is none.
double largest_median(std::span<const Row> rows, std::string_view metric) noexcept;

/// Adds a name unless it is in the list.
void add_name(std::vector<std::string>& names, const std::string& name);
/// Adds the names of the entries, in order.
template <typename Entries>
void add_names(std::vector<std::string>& names, const Entries& entries) {
  for (const auto& [name, value] : entries) add_name(names, name);
}

/// JSON in one line. Text that is not UTF-8 (a file name, a program's last lines) does not make the
/// rest fail.
std::string json_line(const nlohmann::ordered_json& json);

/// A number with the precision of results: seconds to the nanosecond, nanoseconds to the
/// picosecond, bytes and counts as whole numbers.
nlohmann::ordered_json json_number(std::string_view metric, double value);

inline constexpr std::string_view kResultsSchema = "strata-results/1";

struct Results {
  std::string strata = STRATA_VERSION;  ///< the version that measured
  /// start of the measurement in UTC, "2026-01-31T12:00:00Z"; empty: unknown
  std::string measured;
  nlohmann::ordered_json machine;
  std::vector<Row> rows;

  /// {"schema":"strata-results/1", …}, indented, with a newline at the end.
  std::string to_json() const;

  /// A line of names, then a line per row. There is a column for every parameter and every number
  /// of every metric, ratio and latency of any row; docs/results.md. RFC 4180 quoting.
  std::string to_csv() const;
};

/// Reads what to_json() of any version wrote. Missing parts of a row are empty. `name` is the
/// text's name in messages.
/// \errors  UsageError, which names the text and the field that violates docs/results.md.
Results read_results(const std::string& name, std::string_view text);

}  // namespace strata::cli
