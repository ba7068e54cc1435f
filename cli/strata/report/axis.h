#pragma once

#include <string>
#include <vector>

#include "output/units.h"

namespace strata::cli {

struct Tick {
  double at;
  std::string text;    ///< empty: a line without a number
  int importance = 0;  ///< ticks of importance 0 are kept if there is no room for all
};

/// A direction of a plot: its title, its range and its ticks.
struct Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::string title;
  std::vector<Tick> ticks;

  /// Maps a value to its position: 0 at low, 1 at high; values outside the range map outside.
  double position(double value) const;
};

/// The ticks whose labels do not overlap on an axis as long as `characters` characters.
std::vector<Tick> ticks_apart(const Axis& axis, double characters);

/// An axis from 0 to a round number above `high`, in steps of 1, 2 or 5. The title has the unit;
/// the ticks are plain numbers.
Axis linear_axis(Quantity quantity, std::string_view what, double high, int most_ticks = 5);

/// An axis from `low` to `high`, both positive, with ticks at the decades, and between them if
/// there are few. The ticks have units.
Axis log_axis(Quantity quantity, std::string_view what, double low, double high);

/// An axis 0, 90%, 99%, 99.9%, …: each step leaves a tenth of the operations above it.
Axis percentile_axis(double highest_position);

/// The position of the share `below` on a percentile axis: -log10(1 - below).
double percentile_position(double below);

}  // namespace strata::cli
