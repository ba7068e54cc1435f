#pragma once

#include <vector>

#include "explain/explanation.h"
#include "report/plot.h"

namespace strata::cli {

/// What was live over time, and the sizes and resizes of objects; those that have anything to show.
std::vector<Plot> explain_plots(const Explanation& explanation);
/// What the plots' series look like.
std::vector<SeriesStyle> explain_styles();

}  // namespace strata::cli
