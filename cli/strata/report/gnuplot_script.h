#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/plot.h"

namespace strata::cli {

/// What a script draws for: a page, which has its own titles and colours that follow the reader's
/// theme, or a standalone picture.
enum class Medium { kSvg, kPng };

/// Returns the gnuplot commands that draw a plot into a file. All text of the plot is quoted, so
/// that it cannot contain commands.
std::string gnuplot_script(const Plot& plot, const std::vector<SeriesStyle>& styles, Medium medium,
                           const std::string& file);

/// Quotes text in single quotes, in which gnuplot expands nothing; replaces control characters by
/// blanks.
std::string gnuplot_quoted(std::string_view text);

/// The placeholder colours of an SVG, #0100NN, which tidy_svg() replaces by variables.
enum class ColourRole { kInk, kMuted, kGrid, kCard, kSeries, kText };
std::string placeholder_colour(ColourRole role, int colour = 0);

}  // namespace strata::cli
