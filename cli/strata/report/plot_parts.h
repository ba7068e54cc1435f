#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/plot.h"

/// \file  Parts that several kinds of plots share.

namespace strata::cli {

/// Room above and below the plotting area together.
inline constexpr int kFrame = 52;

/// Room for names of up to `longest` characters in a plot's text size.
int room_for(std::size_t longest);

/// The number of characters of a load's name that fit beside a plot.
inline constexpr std::size_t kLongestLoad = 24;

/// Moves values apart, as little as possible, until any two are at least `gap` apart, within
/// [low, high]; in the given order. For labels at the ends of lines.
std::vector<double> spread_apart(std::vector<double> wanted, double gap, double low, double high);

/// The label of a line, and the height at which the line ends.
struct EndLabel {
  int series;
  double y;  ///< where its line ends, on the y axis
  std::string text;
};
/// Places labels right of the plotting area, moved apart to be readable, and makes room for them.
void label_ends(Plot& plot, std::vector<EndLabel> labels);

const Series& who(const Arrangement& all, int series);
inline const Series& who(const Arrangement& all, const Entry& entry) {
  return who(all, entry.series);
}

/// "a, b and c"; with five or more names "a, b and 3 more".
std::string listed(const std::vector<std::string>& names);

void capitalize(std::string& sentence);

}  // namespace strata::cli
