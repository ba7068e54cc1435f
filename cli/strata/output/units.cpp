#include "output/units.h"

#include <fmt/format.h>

#include <cmath>

namespace strata::cli {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr double kGiB = 1024 * kMiB;

/// Decimals that leave about four digits.
int decimals_for(double largest) {
  return largest >= 1000 ? 0 : largest >= 100 ? 1 : largest >= 10 ? 2 : 3;
}

}  // namespace

Unit Unit::for_seconds(double largest) {
  if (largest >= 1) return {"s", 1, decimals_for(largest)};
  if (largest >= 1e-3) return {"ms", 1e-3, decimals_for(largest * 1e3)};
  return {"us", 1e-6, decimals_for(largest * 1e6)};
}

Unit Unit::for_bytes(double largest) {
  if (largest >= 10 * kGiB) return {"GiB", kGiB, 2};
  if (largest >= kMiB) return {"MiB", kMiB, largest >= 10 * kMiB ? 1 : 2};
  if (largest > 0 && largest < kKiB) return {"B", 1, 1};
  return {"KiB", kKiB, 0};
}

Unit Unit::for_nanoseconds(double largest) {
  if (largest >= 1e9) return {"s", 1e9, decimals_for(largest / 1e9)};
  if (largest >= 1e6) return {"ms", 1e6, decimals_for(largest / 1e6)};
  if (largest >= 1e4) return {"us", 1e3, decimals_for(largest / 1e3)};
  return {"ns", 1, largest >= 100 ? 0 : 1};
}

Unit Unit::for_counts(double largest, const char* behind) {
  if (largest >= 1e7) return {std::string("M") + behind, 1e6, decimals_for(largest / 1e6)};
  if (largest >= 1e4) return {std::string("k") + behind, 1e3, decimals_for(largest / 1e3)};
  return {behind, 1, largest == std::floor(largest) ? 0 : 2};
}

Unit Unit::for_metric(std::string_view metric, double largest) {
  if (metric.ends_with("_per_s")) return for_counts(largest, "/s");
  if (metric.ends_with("_s")) return for_seconds(largest);
  if (metric.ends_with("_ns") || metric.ends_with("ns_per_op")) return for_nanoseconds(largest);
  if (metric.ends_with("_bytes")) return for_bytes(largest);
  return for_counts(largest);
}

std::string Unit::format(double value) const {
  return fmt::format("{:.{}f}{}{}", value / size_, decimals_, name_.empty() ? "" : " ", name_);
}

std::string format_ratio(double ratio) { return fmt::format("{:.2f}", ratio); }

std::string format_percent(double share) { return fmt::format("{:.1f}%", share * 100); }

std::string format_spread(double spread, std::size_t runs) {
  return runs > 1 ? format_percent(spread) : std::string();
}

}  // namespace strata::cli
