#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/axis.h"

namespace strata::cli {

/// The look of a contender in all plots: a colour and, for readers who cannot see colours, a shape.
/// A second measurement of it has the same colour, hollow and dashed.
struct SeriesStyle {
  static constexpr int kColours = 15;
  int colour = 0;
  int shape = 0;
  int label = 0;  ///< numbers the measurements under the same name
};

/// For a mark that belongs to no series.
inline constexpr int kNoSeries = -1;

/// Something drawn at axis values. Points that are not a number interrupt a line.
struct Mark {
  enum class Kind {
    kLine,
    kDashed,  ///< a thin guide line
    kDots,
    kSmallDots,
    kBox,    ///< every two points are opposite corners
    kWhisk,  ///< a thin line for a range
    kArea,   ///< a closed outline, filled
  };
  Kind kind;
  int series = kNoSeries;
  std::vector<std::pair<double, double>> points;
  std::string tip;  ///< the tooltip: name and number
};

/// Text in the plot. Positions are shares of the plotting area; (0, 0) is the lower left corner.
struct Text {
  enum class Align { kLeft, kRight };
  double x;
  double y;
  std::string text;
  Align align = Align::kLeft;
  int series = kNoSeries;  ///< determines its colour
  bool is_faint = false;
};

/// A thin line from a series' end to its name. Positions as in Text.
struct Leader {
  double x0;
  double y0;
  double x1;
  double y1;
  int series;
};

/// The complete description of a plot, drawn both into the page and into a picture file.
struct Plot {
  std::string id;     ///< letters, digits, '-': names a file and an element
  std::string title;  ///< a sentence that states the result
  std::string note;   ///< what is drawn, in which unit, and how much of it
  std::string place;  ///< the load; a page shows it above the plot
  std::string alt;    ///< the plot in words, for readers who cannot see it
  Axis x;
  Axis y;
  bool has_x_grid = true;
  bool has_y_grid = true;
  /// Its dots have no labels: a page has a legend, but a picture needs its own.
  bool needs_legend = false;
  int height = 260;  ///< of the whole plot, in units of which kWidth are its width
  int left = 52;     ///< room left of the plotting area
  int right = 14;    ///< room right of it
  std::vector<Mark> marks;
  std::vector<Text> texts;
  std::vector<Leader> leaders;

  static constexpr int kWidth = 400;  ///< readable on a phone without scaling
  /// The width of the plotting area.
  int inner_width() const noexcept { return kWidth - left - right; }
};

}  // namespace strata::cli
