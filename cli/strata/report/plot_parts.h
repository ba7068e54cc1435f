#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/plot.h"

/// \file  What the kinds of plots share.

namespace strata::cli {

/// Room for names of `longest` characters in a plot's text size.
int room_for(std::size_t longest);

/// So many characters of a load's name fit beside a plot.
inline constexpr std::size_t kLongestLoad = 24;

/// Moves values apart until each two are at least `gap` apart, as little as possible and within
/// [low, high]; in the order given. For labels at the ends of lines.
std::vector<double> spread_apart(std::vector<double> wanted, double gap, double low, double high);

/// The name of a line beside the height at which it ends.
struct EndLabel {
  int series;
  double y;  ///< where its line ends, on the y axis
  std::string text;
};
/// Puts the labels right of the plotting area, moved apart so that all can be read, and makes room.
void label_ends(Plot& plot, std::vector<EndLabel> labels);

const Series& who(const Arrangement& all, const Entry& entry);

/// "a, b and c"; "a, b and 3 more" from five on.
std::string listed(const std::vector<std::string>& names);

/// The first letter of a sentence.
void capitalize(std::string& sentence);

}  // namespace strata::cli
