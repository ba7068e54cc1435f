#pragma once

#include <vector>

#include "explain/explanation.h"
#include "report/plot.h"

namespace strata::cli {

/// The non-empty plots: live memory over time, sizes of objects, resizes.
std::vector<Plot> explain_plots(const Explanation& explanation);
/// The styles of the plots' series.
std::vector<SeriesStyle> explain_styles();

}  // namespace strata::cli
