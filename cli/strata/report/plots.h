#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/plot.h"

namespace strata::cli {

/// A metric as bars per contender, best first, with dots for single runs; failed contenders are at
/// the bottom, without a bar. If values are far apart: dots on a log axis. Has no marks if
/// no row has the metric.
Plot metric_plot(const Arrangement& all, const Cell& cell, const std::string& metric);

/// Each contender's latency percentiles from the median to the tail, on axes that show the tail.
Plot percentile_plot(const Arrangement& all, const Cell& cell, const std::string& kind);

/// Each contender's latency histogram, all on one axis and scaled to the same height.
Plot histogram_plot(const Arrangement& all, const Cell& cell, const std::string& kind);

/// Memory over time, from the start of the load until after it.
Plot memory_plot(const Arrangement& all, const Cell& cell);

/// A metric over the number that a sweep varies; throughput over threads includes the ideal line.
Plot sweep_plot(const Arrangement& all, const Sweep& sweep, const std::string& metric);

/// All cells at once: each contender's metric relative to the baseline. If `metric` is empty, the
/// cells' throughput, oriented so that more is better.
Plot overview_plot(const Arrangement& all, const std::string& metric);

/// Plots to place side by side.
using PlotGroup = std::vector<Plot>;

/// The non-empty plots of a cell, most important first.
std::vector<PlotGroup> cell_plots(const Arrangement& all, const Cell& cell);

/// The plots of the whole report; none if there is a single cell.
PlotGroup overview_plots(const Arrangement& all);

PlotGroup sweep_plots(const Arrangement& all, const Sweep& sweep);

}  // namespace strata::cli
