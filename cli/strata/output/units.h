#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace strata::cli {

/// What a number measures. The base units are the second, the byte and one.
enum class Quantity { kCount, kSeconds, kBytes, kPerSecond, kRatio };

/// The unit of a whole column, chosen for its largest value, so that its numbers are comparable at
/// sight.
class Unit {
 public:
  /// \param scale  base units per unit of the column's numbers, 1e-9 for nanoseconds
  static Unit of_column(Quantity quantity, double largest, double scale = 1);

  /// Plain numbers without decimals.
  static Unit whole() { return {"", 1, 0}; }

  std::string format(double value) const;

 private:
  Unit(std::string name, double size, int decimals)
      : name_(std::move(name)), size_(size), decimals_(decimals) {}

  std::string name_;
  double size_;
  int decimals_;
};

/// Three digits and a suitable unit: "41.6 M/s", "24.1 ns", "11.5 MiB", "0.87×". Takes base units.
std::string brief(Quantity quantity, double value);
std::string bytes_text(std::uint64_t bytes);  ///< "12.4 MiB", "640 B"
std::string count_text(std::uint64_t count);  ///< "859k"
std::string time_text(double seconds);        ///< "3.2 ms"
/// "1 object", "10k objects"
std::string counted_briefly(std::uint64_t count, std::string_view one);

/// A unit and its size in base units: {"MiB", 1048576}.
struct ChosenUnit {
  std::string name;
  double size;
};
ChosenUnit unit_for(Quantity quantity, double largest);

/// Three digits, no unit, no trailing zeros: 1.5, 24.1, 310.
std::string three_digits(double value);

/// "0.87": two decimals, as precise as measurements are.
std::string format_ratio(double ratio);
/// "2.1%"
std::string format_percent(double share);
/// The same for the spread of `runs` runs; empty for a single run.
std::string format_spread(double spread, std::size_t runs);

}  // namespace strata::cli
