#pragma once

#include <string>
#include <string_view>

#include "output/units.h"

/// \file  What a metric's name says (docs/results.md): it ends in its unit.

namespace strata::cli {

/// Largest resident memory: what an allocator is rated by beside its time.
inline constexpr const char* kPeakMetric = "peak_rss_bytes";

/// Whether a metric ranks, and which way.
enum class Better {
  kLess,
  kMore,     ///< rates and shares: _per_s, _share
  kNeither,  ///< how much was done is no measure of how well: it has no ratio and no winner
};
Better better(std::string_view metric);

/// "elapsed_s" -> kSeconds, "alloc_p99_ns" and "ns_per_op" -> kSeconds, "ops_per_s" -> kPerSecond.
Quantity quantity_of(std::string_view metric);

/// How many base units of its quantity 1 of the metric is: 1e-9 for nanoseconds, else 1.
double scale_of(std::string_view metric);

/// How many parts of the metric's unit a file tells, 1e9 of a second; 0: the number as it is.
double file_parts(std::string_view metric);

/// For the head of a column: "ns_per_op" -> "time/op", "peak_rss_bytes" -> "peak RSS".
std::string column_title(std::string_view metric);

/// As a person would call it: "ops_per_s" -> "operations per second".
std::string spoken_name(std::string_view metric);

/// The unit of a column of the metric's numbers.
Unit column_unit(std::string_view metric, double largest);

/// One of the metric's numbers with three digits and its unit: "41.6 M/s".
std::string brief_metric(std::string_view metric, double value);

}  // namespace strata::cli
