#pragma once

#include <optional>
#include <string>
#include <vector>

#include "output/whole_file.h"
#include "report/plot.h"

namespace strata::cli {

/// The plots as elements of a page, in order, and the shapes that they share.
struct Drawings {
  std::string shapes;
  std::vector<std::string> svgs;
};

/// Draws all plots in one run of gnuplot.
/// \errors  std::runtime_error, one sentence, if gnuplot is missing or fails.
Drawings draw(const std::vector<Plot>& plots, const std::vector<SeriesStyle>& styles);

/// Checks for gnuplot before an hour of reading.
/// \errors  Those of draw() if gnuplot is missing.
void expect_gnuplot();

/// Creates the folder that --png names, if it is missing.
/// \param page  what -o names
/// \errors  UsageError, which names it, if that fails, if no file can be created in it, or if it is
///          the page or below it. Those of draw() if gnuplot is missing; then it creates nothing.
void make_picture_folder(const std::string& folder, const std::optional<WholeFile>& page);

/// Writes each plot as <folder>/<id>.png.
/// \errors  Those of draw() and WholeFile.
void write_pictures(const std::vector<Plot>& plots, const std::vector<SeriesStyle>& styles,
                    const std::string& folder);

}  // namespace strata::cli
