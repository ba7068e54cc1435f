#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/plot.h"

namespace strata::cli {

/// What a script draws for: the page, which has its own titles and colours that change with the
/// reader's, or a picture that stands alone.
enum class Medium { kSvg, kPng };

/// gnuplot's commands that draw one plot into a file. All text of the plot is quoted so that it can
/// say nothing but itself.
std::string gnuplot_script(const Plot& plot, const std::vector<SeriesStyle>& styles, Medium medium,
                           const std::string& file);

/// In single quotes, in which gnuplot replaces nothing; control characters are blanks.
std::string gnuplot_quoted(std::string_view text);

/// The colours by which an SVG's colours are known again: #0100NN, so that tidy_svg can put a
/// variable in their place.
enum class ColourRole { kInk, kMuted, kGrid, kCard, kSeries, kText };
std::string placeholder_colour(ColourRole role, int colour = 0);

}  // namespace strata::cli
