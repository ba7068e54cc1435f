#pragma once

#include <string>
#include <vector>

#include "output/units.h"

namespace strata::cli {

struct Tick {
  double at;
  std::string text;    ///< empty: a line without a number
  int importance = 0;  ///< where there is no room for all, those of 0 stay
};

/// One direction of a plot: what it shows, from where to where, and which values are written at it.
struct Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::string title;
  std::vector<Tick> ticks;

  /// Where a value lies: 0 at low, 1 at high. Values outside lie outside.
  double position(double value) const;
};

/// The ticks without those whose words would stand on others', in `characters` of room for all.
std::vector<Tick> ticks_apart(const Axis& axis, double characters);

/// From 0 to a round number above `high`; steps of 1, 2 or 5. The title names the unit, the ticks
/// are bare numbers.
Axis linear_axis(Quantity quantity, std::string_view what, double high, int most_ticks = 5);

/// From `low` to `high`, both positive; decades, and more between them where they are few. The
/// ticks carry their units.
Axis log_axis(Quantity quantity, std::string_view what, double low, double high);

/// 0, 90%, 99%, 99.9%, …: each step leaves a tenth of the operations above it.
Axis percentile_axis(double highest_position);

/// Where the share `below` of all operations lies on a percentile axis: -log10(1 - below).
double percentile_position(double below);

}  // namespace strata::cli
