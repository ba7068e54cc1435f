#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "measure/metric.h"
#include "output/text.h"
#include "report/plot_parts.h"
#include "report/plots.h"

namespace strata::cli {
namespace {

constexpr int kOverviewRowHeight = 20;
/// More cells would be a wall of dots; the table has them all.
constexpr std::size_t kMostCells = 40;

/// A contender's metric in a cell, relative to the baseline.
struct Share {
  int series;
  double at;
  double low;
  double high;
};

struct OverviewRow {
  const Cell* cell;
  std::vector<Share> shares;
};

/// Converts to speed, so that more is better for any metric.
Share as_speed(Share share, const std::string& metric) {
  if (better(metric) == Better::kMore) return share;
  double low = share.low;
  share.at = 1 / share.at;
  share.low = share.high > 0 ? 1 / share.high : 0;
  share.high = low > 0 ? 1 / low : 0;
  return share;
}

OverviewRow row_of(const Cell& cell, const std::string& metric) {
  OverviewRow row{&cell, {}};
  std::string used = metric.empty() ? throughput_metric(cell) : metric;
  if (used.empty()) return row;
  for (const Entry& entry : cell.entries) {
    if (baseline_of(cell, *entry.row) == entry.row) continue;
    RatioTo ratio = ratio_to_baseline(cell, *entry.row, used);
    if (!(ratio.ratio > 0)) continue;
    Share share{entry.series, ratio.ratio, ratio.low.value_or(0), ratio.high.value_or(0)};
    row.shares.push_back(metric.empty() ? as_speed(share, used) : share);
  }
  return row;
}

const Row* baseline_of(const Cell& cell) { return baseline_of(cell, *cell.entries.front().row); }

/// What most cells are relative to. The others lack its result.
std::string usual_baseline(const Arrangement& all) {
  std::map<std::string, int> times;
  for (const Cell& cell : all.cells) {
    if (const Row* base = baseline_of(cell)) ++times[base->contender];
  }
  const auto most = std::ranges::max_element(times, {}, &std::pair<const std::string, int>::second);
  return most != times.end() ? most->first : "";
}

/// The overview in words: which contender is better than the baseline, and how often.
std::string tally(const Arrangement& all, const std::vector<OverviewRow>& rows, bool more,
                  const std::string& better) {
  struct Count {
    int better = 0;
    int of = 0;
    double sum = 0;
  };
  std::map<int, Count> counts;
  for (const OverviewRow& row : rows) {
    for (const Share& share : row.shares) {
      Count& count = counts[share.series];
      ++count.of;
      count.better += more ? share.at > 1 : share.at < 1;
      count.sum += std::log(share.at);
    }
  }
  // Those that are better in most loads come first; among these, the best by geometric mean.
  std::vector<std::tuple<int, double, std::string>> parts;
  for (const auto& [series, count] : counts) {
    if (count.better == 0) continue;
    double mean = std::exp(count.sum / count.of);
    parts.emplace_back(
        -count.better, more ? -mean : mean,
        fmt::format("{} in {} of {}", who(all, series).name, count.better, count.of));
  }
  std::ranges::sort(parts);
  std::string text;
  for (std::size_t i = 0; i < parts.size() && i < 3; ++i) append_item(text, std::get<2>(parts[i]));
  return fmt::format("{}: {}", better, text.empty() ? "none" : text);
}

/// What rows on the good side of the baseline have in common.
std::string better_than(const std::string& base, const std::string& metric) {
  if (metric.empty()) return fmt::format("Faster than {}", base);
  if (metric == kPeakMetric) return fmt::format("Leaner than {}", base);
  if (metric == "after_rss_bytes") return fmt::format("Less kept afterwards than {}", base);
  return fmt::format("{} {} than {}", spoken_name(metric),
                     better(metric) == Better::kMore ? "higher" : "lower", base);
}

}  // namespace

Plot overview_plot(const Arrangement& all, const std::string& metric) {
  Plot plot;
  std::vector<OverviewRow> rows;
  double low = 0.8;
  double high = 1.25;
  std::vector<std::string> names;
  const std::string base = usual_baseline(all);
  for (const Cell& cell : all.cells) {
    const Row* own = baseline_of(cell);
    if (own == nullptr || own->contender != base) continue;
    OverviewRow row = row_of(cell, metric);
    if (row.shares.empty()) continue;
    for (const Share& share : row.shares) {
      low = std::min(low, share.at);
      high = std::max(high, share.at);
    }
    names.push_back(cell.name());
    rows.push_back(std::move(row));
  }
  if (rows.size() < 2 || rows.size() > kMostCells) return plot;
  names = fitting_names(names, kLongestLoad);
  std::size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, display_width(name));
  bool is_speed = metric.empty();
  bool more = is_speed || better(metric) == Better::kMore;
  plot.id = is_speed ? "overview-speed" : "overview-" + slug(metric);
  plot.x = log_axis(Quantity::kRatio, "", low / 1.12, high * 1.12);
  plot.left = room_for(longest);
  plot.right = 16;
  double count = static_cast<double>(rows.size());
  plot.height = static_cast<int>(count) * kOverviewRowHeight + kFrame;
  plot.y.low = -0.5;
  plot.y.high = count - 0.5;
  for (double y = 0; y < count; y += 1) plot.y.ticks.push_back({y, "", 0});
  plot.marks.push_back(
      {Mark::Kind::kDashed, kNoSeries, {{1, -0.5}, {1, count - 0.5}}, base + " is 1"});
  double indent = -7.0 / plot.inner_width();
  std::map<int, Mark> dots;
  double y = count;
  for (const OverviewRow& row : rows) {
    y -= 1;
    plot.texts.push_back({indent, plot.y.position(y),
                          names[static_cast<std::size_t>(&row - rows.data())],
                          Text::Align::kRight});
    plot.alt += fmt::format(" {}:", row.cell->name());
    for (const Share& share : row.shares) {
      const std::string& name = who(all, share.series).name;
      Mark& mark = dots.try_emplace(share.series, Mark{Mark::Kind::kDots, share.series, {}, name})
                       .first->second;
      mark.points.emplace_back(share.at, y);
      plot.alt += fmt::format(" {} {}", name, brief(Quantity::kRatio, share.at));
    }
    plot.alt += ".";
  }
  for (auto& [series, mark] : dots) plot.marks.push_back(std::move(mark));
  plot.needs_legend = true;
  plot.title = tally(all, rows, more, better_than(base, metric));
  plot.note = fmt::format("{} as a share of {}'s, one line per load; {} is better.",
                          is_speed ? "Speed" : spoken_name(metric), base, more ? "right" : "left");
  capitalize(plot.note);
  capitalize(plot.title);
  plot.alt = plot.title + "." + plot.alt;
  return plot;
}

}  // namespace strata::cli
