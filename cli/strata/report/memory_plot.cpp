#include <fmt/format.h>

#include <algorithm>

#include "report/plot_parts.h"
#include "report/plots.h"

namespace strata::cli {
namespace {

/// The last point under load, before anything is freed.
const TimelinePoint* end_of_load(const Row& row) {
  const TimelinePoint* end = nullptr;
  for (const TimelinePoint& point : row.timeline) {
    if (point.phase == "load") end = &point;
  }
  return end;
}

/// \pre  the row has a timeline
double peak(const Row& row) {
  return static_cast<double>(
      std::ranges::max_element(row.timeline, {}, &TimelinePoint::rss_bytes)->rss_bytes);
}

/// The live bytes of a replay's program; has no points for other loads.
Mark live_line(const std::string& name, const Row& row) {
  Mark line{
      Mark::Kind::kDashed, kNoSeries, {}, "live bytes of the program, as " + name + " ran it"};
  for (const TimelinePoint& point : row.timeline) {
    if (point.live_bytes) {
      line.points.emplace_back(point.t_s, static_cast<double>(*point.live_bytes));
    }
  }
  return line;
}

/// "strata 4 of 10 MiB": what remains at the end, of the peak.
std::string kept_of_peak(const std::string& name, const Row& row) {
  double most = peak(row);
  ChosenUnit unit = unit_for(Quantity::kBytes, most);
  return fmt::format("{} {} of {} {}", name,
                     three_digits(static_cast<double>(row.timeline.back().rss_bytes) / unit.size),
                     three_digits(most / unit.size), unit.name);
}

}  // namespace

Plot memory_plot(const Arrangement& all, const Cell& cell) {
  Plot plot;
  std::vector<Entry> drawn;
  for (const Entry& entry : cell.entries) {
    if (entry.row->ok && entry.row->timeline.size() > 1) drawn.push_back(entry);
  }
  if (drawn.empty()) return plot;
  double highest = 0;
  double latest = 1e-6;  // gives the axis a length even if all points are at its start
  std::vector<EndLabel> ends;
  for (const Entry& entry : drawn) {
    const Series& series = who(all, entry);
    Mark line{Mark::Kind::kLine, entry.series, {}, kept_of_peak(series.name, *entry.row)};
    for (const TimelinePoint& point : entry.row->timeline) {
      line.points.emplace_back(point.t_s, static_cast<double>(point.rss_bytes));
      latest = std::max(latest, point.t_s);
    }
    highest = std::max(highest, peak(*entry.row));
    ends.push_back({entry.series, line.points.back().second, series.short_name});
    plot.marks.push_back(std::move(line));
    if (const TimelinePoint* end = end_of_load(*entry.row)) {
      plot.marks.push_back({Mark::Kind::kDots,
                            entry.series,
                            {{end->t_s, static_cast<double>(end->rss_bytes)}},
                            series.name + ": end of the load"});
    }
  }
  plot.id = cell.id + "-memory";
  plot.height = 260;
  plot.left = 48;
  plot.x = linear_axis(Quantity::kSeconds, "time since the load began", latest);
  plot.x.high = latest;
  plot.y = linear_axis(Quantity::kBytes, "resident memory", highest);
  label_ends(plot, std::move(ends));
  std::ranges::stable_sort(drawn, {},
                           [](const Entry& entry) { return entry.row->timeline.back().rss_bytes; });
  const Entry& best = drawn.front();
  plot.title = "Kept after the load: " + kept_of_peak(who(all, best).name, *best.row);
  const Row* base = baseline_of(cell, *best.row);
  for (const Entry& entry : drawn) {
    if (entry.row == base && base != best.row) {
      plot.title += fmt::format(", {}", kept_of_peak(who(all, entry).name, *entry.row));
    }
  }
  plot.note =
      "Resident memory of the first run, seen from outside; the mark on each line is the end "
      "of the load. Less is better.";
  if (Mark live = live_line(who(all, best).name, *best.row); live.points.size() > 1) {
    plot.note += fmt::format(
        " The thin line is what the recorded program had alive, as {} ran it: what is above it is "
        "the process's and the allocator's.",
        who(all, best).name);
    plot.marks.push_back(std::move(live));
  }
  plot.place = cell.name();
  plot.alt = plot.place + ": " + plot.title + ".";
  for (const Entry& entry : drawn) {
    plot.alt += fmt::format(" {}.", kept_of_peak(who(all, entry).name, *entry.row));
  }
  return plot;
}

}  // namespace strata::cli
