#include "output/units.h"

#include <fmt/format.h>

#include <cmath>

namespace strata::cli {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr double kGiB = 1024 * kMiB;
constexpr double kTiB = 1024 * kGiB;
constexpr double kNever = INFINITY;

struct UnitRow {
  Quantity quantity;
  const char* name;
  double size;
  double from;  ///< the smallest maximum for which a column uses the unit
};

/// The units of each quantity, largest first; the last one is for all smaller values.
constexpr UnitRow kUnits[] = {
    {Quantity::kSeconds, "s", 1, 1},
    {Quantity::kSeconds, "ms", 1e-3, 1e-3},
    {Quantity::kSeconds, "µs", 1e-6, 1e-5},
    {Quantity::kSeconds, "ns", 1e-9, 0},
    {Quantity::kBytes, "TiB", kTiB, kNever},
    {Quantity::kBytes, "GiB", kGiB, 10 * kGiB},
    {Quantity::kBytes, "MiB", kMiB, kMiB},
    {Quantity::kBytes, "KiB", kKiB, kKiB},
    {Quantity::kBytes, "B", 1, 0},
    {Quantity::kPerSecond, "G/s", 1e9, kNever},
    {Quantity::kPerSecond, "M/s", 1e6, 1e7},
    {Quantity::kPerSecond, "k/s", 1e3, 1e4},
    {Quantity::kPerSecond, "/s", 1, 0},
    {Quantity::kCount, "G", 1e9, kNever},
    {Quantity::kCount, "M", 1e6, 1e7},
    {Quantity::kCount, "k", 1e3, 1e4},
    {Quantity::kCount, "", 1, 0},
    {Quantity::kRatio, "×", 1, 0},
};

/// A no-break space, which keeps a number and its unit on one line.
constexpr const char* kNoBreak = "\u00a0";

/// The first unit that fits, else the smallest.
template <typename Fits>
const UnitRow& choose(Quantity quantity, Fits fits) {
  const UnitRow* last = nullptr;
  for (const UnitRow& row : kUnits) {
    if (row.quantity != quantity) continue;
    last = &row;
    if (fits(row)) break;
  }
  return *last;
}

/// The decimals of a column whose largest value is this many units: about four digits in all.
int decimals_for(const UnitRow& unit, double largest) {
  if (unit.quantity == Quantity::kBytes) {
    if (unit.size == kMiB) return largest >= 10 ? 1 : 2;
    return unit.size == kGiB ? 2 : unit.size == kKiB ? 0 : 1;
  }
  if (unit.size == 1e-9) return largest >= 100 ? 0 : 1;
  bool is_plain = unit.size == 1 && unit.quantity != Quantity::kSeconds;
  if (is_plain) return largest == std::floor(largest) ? 0 : 2;
  return largest >= 1000 ? 0 : largest >= 100 ? 1 : largest >= 10 ? 2 : 3;
}

}  // namespace

Unit Unit::of_column(Quantity quantity, double largest, double scale) {
  double base = largest * scale;
  const UnitRow& row = choose(quantity, [&](const UnitRow& unit) {
    bool is_nothing = base == 0 && unit.size == kKiB;
    return base >= unit.from || is_nothing;
  });
  return {row.name, row.size / scale, decimals_for(row, base / row.size)};
}

std::string Unit::format(double value) const {
  return fmt::format("{:.{}f}{}{}", value / size_, decimals_, name_.empty() ? "" : " ", name_);
}

ChosenUnit unit_for(Quantity quantity, double largest) {
  const UnitRow& row = choose(quantity, [&](const UnitRow& unit) {
    bool is_nothing = largest == 0 && quantity == Quantity::kSeconds;
    return is_nothing || std::abs(largest) >= unit.size * 0.9995;  // 999.5 has four digits
  });
  return {row.name, row.size};
}

std::string three_digits(double value) {
  double size = std::abs(value);
  int decimals = size >= 99.95 || size == 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals > 0) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string brief(Quantity quantity, double value) {
  if (quantity == Quantity::kRatio) {
    return fmt::format("{:.{}f}×", value, value >= 99.5 ? 0 : value >= 9.95 ? 1 : 2);
  }
  ChosenUnit unit = unit_for(quantity, value);
  std::string number = three_digits(value / unit.size);
  if (unit.name.empty()) return number;
  bool hugs = unit.name == "/s" || quantity == Quantity::kCount;
  return fmt::format("{}{}{}", number, hugs ? "" : kNoBreak, unit.name);
}

std::string bytes_text(std::uint64_t bytes) {
  return brief(Quantity::kBytes, static_cast<double>(bytes));
}

std::string count_text(std::uint64_t count) {
  return brief(Quantity::kCount, static_cast<double>(count));
}

std::string time_text(double seconds) { return brief(Quantity::kSeconds, seconds); }

std::string counted_briefly(std::uint64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count_text(count), one, count == 1 ? "" : "s");
}

std::string format_ratio(double ratio) { return fmt::format("{:.2f}", ratio); }

std::string format_percent(double share) { return fmt::format("{:.1f}%", share * 100); }

std::string format_spread(double spread, std::size_t runs) {
  return runs > 1 ? format_percent(spread) : std::string();
}

}  // namespace strata::cli
