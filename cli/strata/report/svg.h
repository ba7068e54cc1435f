#pragma once

#include <string>
#include <string_view>

#include "report/plot.h"

namespace strata::cli {

/// Converts a drawing by gnuplot to an element of the page. Colours become the page's variables
/// (--ink, --grid, --s0 …), each mark becomes a group with its series (class "m", data-series),
/// and what a page does not need is removed. The element has the plot's text for screen readers.
std::string tidy_svg(std::string_view drawing, const Plot& plot);

/// The shapes that the drawings refer to, needed once per page.
std::string shape_definitions(std::string_view drawing);

}  // namespace strata::cli
