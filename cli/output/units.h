#pragma once

#include <string>

namespace strata::cli {

/// One unit for a whole column, chosen for its largest value, so that its numbers compare at sight.
class Unit {
 public:
  /// s, ms or us.
  static Unit for_seconds(double largest);
  /// GiB, MiB or KiB.
  static Unit for_bytes(double largest);

  std::string format(double value) const;

 private:
  Unit(const char* name, double size, int decimals)
      : name_(name), size_(size), decimals_(decimals) {}

  const char* name_;
  double size_;
  int decimals_;
};

/// "0.87"; two decimals tell apart what a measurement can.
std::string format_ratio(double ratio);
/// "2.1%"
std::string format_percent(double share);

}  // namespace strata::cli
