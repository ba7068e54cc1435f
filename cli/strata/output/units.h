#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace strata::cli {

/// One unit for a whole column, chosen for its largest value, so that its numbers compare at sight.
class Unit {
 public:
  /// s, ms or us.
  static Unit for_seconds(double largest);
  /// GiB, MiB or KiB.
  static Unit for_bytes(double largest);

  /// ns, us, ms or s.
  static Unit for_nanoseconds(double largest);
  /// The plain number, thousands (k) or millions (M), with `behind` behind it.
  static Unit for_counts(double largest, const char* behind = "");
  /// By what the metric's name ends in (docs/results.md).
  static Unit for_metric(std::string_view metric, double largest);

  std::string format(double value) const;

 private:
  Unit(std::string name, double size, int decimals)
      : name_(std::move(name)), size_(size), decimals_(decimals) {}

  std::string name_;
  double size_;
  int decimals_;
};

/// "0.87"; two decimals tell apart what a measurement can.
std::string format_ratio(double ratio);
/// "2.1%"
std::string format_percent(double share);
/// The same of the spread of so many runs; empty for a single one, which has none.
std::string format_spread(double spread, std::size_t runs);

}  // namespace strata::cli
