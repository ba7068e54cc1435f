#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/axis.h"

namespace strata::cli {

/// How one contender looks, in all plots alike: a colour and, for readers who cannot see colours, a
/// shape; a second measurement of it has the same colour, hollow and dashed.
struct SeriesStyle {
  static constexpr int kColours = 15;
  int colour = 0;
  int shape = 0;
  int label = 0;  ///< which of several measurements under the same name
};

/// The owner of a mark: a series of the page, or none.
inline constexpr int kNoSeries = -1;

/// Something drawn at values of the axes. Points that are not a number interrupt a line.
struct Mark {
  enum class Kind {
    kLine,
    kDashed,  ///< a thin line that only guides
    kDots,
    kSmallDots,
    kBox,    ///< from one corner to the other: every two points
    kWhisk,  ///< a thin line that shows a range
    kArea,   ///< a closed outline, filled
  };
  Kind kind;
  int series = kNoSeries;
  std::vector<std::pair<double, double>> points;
  std::string tip;  ///< what it is and its number; shown where a pointer rests on it
};

/// Words in the plot. Positions are shares of the plotting area: 0 is left and below.
struct Text {
  enum class Align { kLeft, kRight };
  double x;
  double y;
  std::string text;
  Align align = Align::kLeft;
  int series = kNoSeries;  ///< whose colour it has
  bool is_faint = false;
};

/// A thin line from where a series ends to its name. In shares of the plotting area, as words are.
struct Leader {
  double x0;
  double y0;
  double x1;
  double y1;
  int series;
};

/// One picture, whole: what it shows, what it says, what is drawn. Made once, drawn into the page
/// and into a picture file alike.
struct Plot {
  std::string id;     ///< letters, digits, '-': a file's name and an element's
  std::string title;  ///< the sentence that the plot says
  std::string note;   ///< what is drawn, in which unit, and how much of it
  std::string place;  ///< which load it is of; a page says it above the plot
  std::string alt;    ///< the same in words, for readers who cannot see it
  Axis x;
  Axis y;
  bool has_x_grid = true;
  bool has_y_grid = true;
  /// Its dots have no names: the page's legend does, and a picture needs one of its own.
  bool needs_legend = false;
  int height = 260;  ///< of the whole, in units of which the width is kWidth
  int left = 52;     ///< room for what stands left of the plotting area
  int right = 14;    ///< and right of it
  std::vector<Mark> marks;
  std::vector<Text> texts;
  std::vector<Leader> leaders;

  static constexpr int kWidth = 400;  ///< narrow enough to be read on a phone as it is
};

}  // namespace strata::cli
