#pragma once

#include <string>
#include <string_view>

#include "report/plot.h"

namespace strata::cli {

/// A drawing of gnuplot's as an element of the page: its colours are the page's variables (--ink,
/// --grid, --s0 …), each mark is a group that says whose it is (class "m s3", data-series), and
/// what a page does not need is gone. The element has the plot's words for screen readers.
std::string tidy_svg(std::string_view drawing, const Plot& plot);

/// The shapes that the drawings refer to, once for the whole page.
std::string shape_definitions(std::string_view drawing);

}  // namespace strata::cli
