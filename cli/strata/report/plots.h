#pragma once

#include <string>
#include <vector>

#include "report/cells.h"
#include "report/plot.h"

namespace strata::cli {

/// A number of each contender as bars, the best first, with the single runs on them; what failed
/// stands below, without a bar. For metrics whose values are hundredfold apart: dots on a log axis.
/// Without marks if no row has the metric.
Plot metric_plot(const Arrangement& all, const Cell& cell, const std::string& metric);

/// Each contender's latency from the median out to the tail, on axes that give tails room.
Plot percentile_plot(const Arrangement& all, const Cell& cell, const std::string& kind);

/// Each contender's latencies as hills above one axis, each as high as the others.
Plot histogram_plot(const Arrangement& all, const Cell& cell, const std::string& kind);

/// Memory from the start of the load until after it.
Plot memory_plot(const Arrangement& all, const Cell& cell);

/// A metric over the number in which the cells of a sweep differ; throughput over threads has a
/// line of what would be ideal.
Plot sweep_plot(const Arrangement& all, const Sweep& sweep, const std::string& metric);

/// All cells at once: each contender's number as a share of the baseline's. `metric` empty: the
/// cells' own throughput, turned so that more is better.
Plot overview_plot(const Arrangement& all, const std::string& metric);

/// Kinds of operation whose latencies any row of the cell has, in order.
std::vector<std::string> latency_kinds(const Cell& cell);

/// Plots that belong side by side.
using PlotGroup = std::vector<Plot>;

/// The plots of a cell that have something to draw, the most important first.
std::vector<PlotGroup> cell_plots(const Arrangement& all, const Cell& cell);

/// The plots over the whole report; none for a single cell.
PlotGroup overview_plots(const Arrangement& all);

PlotGroup sweep_plots(const Arrangement& all, const Sweep& sweep);

}  // namespace strata::cli
