#include "output/units.h"

#include <fmt/format.h>

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
  return {"KiB", kKiB, 0};
}

std::string Unit::format(double value) const {
  return fmt::format("{:.{}f} {}", value / size_, decimals_, name_);
}

std::string format_ratio(double ratio) { return fmt::format("{:.2f}", ratio); }

std::string format_percent(double share) { return fmt::format("{:.1f}%", share * 100); }

}  // namespace strata::cli
