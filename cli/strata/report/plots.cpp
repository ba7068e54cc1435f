#include "report/plots.h"

#include "measure/metric.h"

namespace strata::cli {
namespace {

/// The kinds of operation with latencies in any row of the cell, in order.
std::vector<std::string> latency_kinds(const Cell& cell) {
  std::vector<std::string> kinds;
  for (const Entry& entry : cell.entries) add_names(kinds, entry.row->latencies);
  return kinds;
}

void keep(PlotGroup& plots, Plot plot) {
  if (!plot.marks.empty()) plots.push_back(std::move(plot));
}

}  // namespace

std::vector<PlotGroup> cell_plots(const Arrangement& all, const Cell& cell) {
  std::vector<PlotGroup> groups;
  PlotGroup numbers;
  std::string speed = speed_metric(cell);
  if (!speed.empty()) keep(numbers, metric_plot(all, cell, speed));
  keep(numbers, metric_plot(all, cell, kPeakMetric));
  keep(numbers, memory_plot(all, cell));
  groups.push_back(std::move(numbers));
  for (const std::string& kind : latency_kinds(cell)) {
    PlotGroup latencies;
    keep(latencies, percentile_plot(all, cell, kind));
    keep(latencies, histogram_plot(all, cell, kind));
    groups.push_back(std::move(latencies));
  }
  std::erase_if(groups, [](const PlotGroup& group) { return group.empty(); });
  return groups;
}

PlotGroup overview_plots(const Arrangement& all) {
  PlotGroup plots;
  for (const char* metric : {"", "alloc_p99_ns", kPeakMetric, "after_rss_bytes"}) {
    keep(plots, overview_plot(all, metric));
  }
  return plots;
}

PlotGroup sweep_plots(const Arrangement& all, const Sweep& sweep) {
  PlotGroup plots;
  const Cell& first = all.cells[sweep.points.front().second];
  std::string speed = speed_metric(first);
  if (!speed.empty()) keep(plots, sweep_plot(all, sweep, speed));
  keep(plots, sweep_plot(all, sweep, kPeakMetric));
  return plots;
}

}  // namespace strata::cli
