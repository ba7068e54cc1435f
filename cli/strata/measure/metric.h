#pragma once

#include <string>
#include <string_view>

#include "output/units.h"

/// \file  The meaning of metric names (docs/results.md): a name ends in its unit.

namespace strata::cli {

/// The peak of resident memory: allocators are rated by it and by their time.
inline constexpr const char* kPeakMetric = "peak_rss_bytes";

/// Whether a metric ranks contenders, and in which direction.
enum class Better {
  kLess,
  kMore,     ///< rates and shares: _per_s, _share
  kNeither,  ///< amounts of work: no ratio and no winner
};
Better better(std::string_view metric);

/// "elapsed_s" -> kSeconds, "alloc_p99_ns" and "ns_per_op" -> kSeconds, "ops_per_s" -> kPerSecond.
Quantity quantity_of(std::string_view metric);

/// Base units per unit of the metric: 1e-9 for nanoseconds, else 1.
double scale_of(std::string_view metric);

/// Resolution in files, as parts per unit, 1e9 for seconds; 0: the number as it is.
double file_parts(std::string_view metric);

/// The heading of a column: "ns_per_op" -> "time/op", "peak_rss_bytes" -> "peak RSS".
std::string column_title(std::string_view metric);

/// The name in sentences: "ops_per_s" -> "operations per second".
std::string spoken_name(std::string_view metric);

Unit column_unit(std::string_view metric, double largest);

/// A value of this metric with three digits and its unit: "41.6 M/s".
std::string brief_metric(std::string_view metric, double value);

}  // namespace strata::cli
