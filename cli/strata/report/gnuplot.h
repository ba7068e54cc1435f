#pragma once

#include <string>
#include <vector>

#include "report/plot.h"

namespace strata::cli {

/// The plots as elements of a page, in their order, and the shapes that they share.
struct Drawings {
  std::string shapes;
  std::vector<std::string> svgs;
};

/// Draws all plots with one start of gnuplot.
/// \errors  std::runtime_error in one sentence if gnuplot is missing, or fails.
Drawings draw(const std::vector<Plot>& plots, const std::vector<SeriesStyle>& styles);

/// To be asked before an hour of reading.
/// \errors  As draw(), if gnuplot is missing.
void expect_gnuplot();

/// Makes the folder if it is missing.
/// \errors  UsageError naming it.
void make_picture_folder(const std::string& folder);

/// Writes each plot as <folder>/<id>.png.
/// \errors  As draw().
void write_pictures(const std::vector<Plot>& plots, const std::vector<SeriesStyle>& styles,
                    const std::string& folder);

}  // namespace strata::cli
