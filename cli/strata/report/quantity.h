#pragma once

#include <string>
#include <string_view>

namespace strata::cli {

/// What a number is a number of; a metric's name tells it by its end.
enum class Quantity { kCount, kSeconds, kBytes, kPerSecond, kRatio };

/// "elapsed_s" -> kSeconds, "peak_rss_bytes" -> kBytes, "ops_per_s" -> kPerSecond, "alloc_p99_ns"
/// and "ns_per_op" -> kSeconds.
Quantity quantity_of(std::string_view metric);

/// What one of the metric's units is in the base unit of its quantity: 1e-9 for nanoseconds,
/// else 1.
double scale_of(std::string_view metric);

/// As a person would call it: "peak_rss_bytes" -> "peak RSS", "ops_per_s" -> "operations per
/// second".
std::string spoken_name(std::string_view metric);

/// Three digits and a unit that fits: "41.6 M/s", "24.1 ns", "11.5 MiB", "0.87×". In base units.
std::string brief(Quantity quantity, double value);

/// The same of a metric's own number.
std::string brief_metric(std::string_view metric, double value);

/// Unit that suits `largest`, and how many base units it is: {"MiB", 1048576}.
struct ChosenUnit {
  std::string name;
  double size;
};
ChosenUnit unit_for(Quantity quantity, double largest);

/// Three digits, no unit, no zeros behind the point that say nothing: 1.5, 24.1, 310.
std::string three_digits(double value);

}  // namespace strata::cli
