#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "measure/metric.h"
#include "output/text.h"
#include "report/plot_parts.h"
#include "report/plots.h"

namespace strata::cli {
namespace {

constexpr int kRowHeight = 22;
/// From this ratio on, small values would be invisible as bars from zero.
constexpr double kTooFarApart = 25;

struct Ranked {
  Entry entry;
  const Summary* summary;
};

/// The ok contenders, best first.
std::vector<Ranked> ranked(const Cell& cell, const std::string& metric) {
  std::vector<Ranked> found;
  for (const Entry& entry : cell.entries) {
    const Summary* summary = entry.row->metric(metric);
    if (entry.row->ok && summary != nullptr) found.push_back({entry, summary});
  }
  bool more = better(metric) == Better::kMore;
  std::ranges::stable_sort(found, [&](const Ranked& a, const Ranked& b) {
    return more ? a.summary->median > b.summary->median : a.summary->median < b.summary->median;
  });
  return found;
}

const char* superlative(const std::string& metric) {
  if (quantity_of(metric) == Quantity::kBytes) return "leanest";
  if (quantity_of(metric) == Quantity::kPerSecond || quantity_of(metric) == Quantity::kSeconds) {
    return "fastest";
  }
  return "lowest";
}

/// States which contender is best, by how much, and whether the runs prove it.
std::string ranking_sentence(const Arrangement& all, const Cell& cell, const std::string& metric,
                             const std::vector<Ranked>& rows) {
  const Ranked& best = rows.front();
  std::string value = brief_metric(metric, best.summary->median);
  if (rows.size() == 1) {
    return fmt::format("{}: {}, {}", who(all, best.entry).name, spoken_name(metric), value);
  }
  bool more = better(metric) == Better::kMore;
  std::vector<std::string> tied = {who(all, best.entry).name};
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const Summary& other = *rows[i].summary;
    bool overlaps = more ? other.max >= best.summary->min : other.min <= best.summary->max;
    if (overlaps) tied.push_back(who(all, rows[i].entry).name);
  }
  if (tied.size() > 1) {
    return fmt::format("{} are {}: their runs overlap", listed(tied), superlative(metric));
  }
  const Row* base = baseline_of(cell, *best.entry.row);
  if (base != nullptr && base != best.entry.row) {
    RatioTo ratio = ratio_to_baseline(cell, *best.entry.row, metric);
    if (ratio.ratio > 0) {
      return fmt::format("{} is {}: {}, {} {}", tied.front(), superlative(metric), value,
                         brief(Quantity::kRatio, ratio.ratio), base->contender);
    }
  }
  return fmt::format("{} is {}: {}; next is {} with {}", tied.front(), superlative(metric), value,
                     who(all, rows[1].entry).name, brief_metric(metric, rows[1].summary->median));
}

std::string value_and_ratio(const Cell& cell, const std::string& metric, const Ranked& row) {
  std::string text = brief_metric(metric, row.summary->median);
  RatioTo ratio = ratio_to_baseline(cell, *row.entry.row, metric);
  bool is_base = baseline_of(cell, *row.entry.row) == row.entry.row;
  if (ratio.ratio > 0 && !is_base) text += "  " + brief(Quantity::kRatio, ratio.ratio);
  return text;
}

/// Adds a contender's bar or dot at height y, with its runs and its number as text.
void add_bar(Plot& plot, const Arrangement& all, const Cell& cell, const std::string& metric,
             const Ranked& row, double y) {
  double scale = scale_of(metric);
  double median = row.summary->median * scale;
  int series = row.entry.series;
  std::string words = value_and_ratio(cell, metric, row);
  Mark mark{Mark::Kind::kDots, series, {{median, y}}, {}};
  mark.tip = fmt::format("{}: {}", who(all, row.entry).name, words);
  if (!plot.x.is_log) {
    mark.kind = Mark::Kind::kBox;
    mark.points = {{0, y - 0.3}, {median, y + 0.3}};
  }
  plot.marks.push_back(std::move(mark));
  double end = std::max(median, row.summary->max * scale);
  if (row.summary->n > 1) {
    Mark range{Mark::Kind::kWhisk, series, {}, {}};
    range.points = {{row.summary->min * scale, y}, {row.summary->max * scale, y}};
    range.tip = fmt::format("{} to {}", brief_metric(metric, row.summary->min),
                            brief_metric(metric, row.summary->max));
    plot.marks.push_back(std::move(range));
  }
  if (const std::vector<double>* values = row.entry.row->values_of(metric)) {
    Mark runs{Mark::Kind::kSmallDots, series, {}, "single runs"};
    for (double value : *values) runs.points.emplace_back(value * scale, y);
    plot.marks.push_back(std::move(runs));
  }
  double indent = 6.0 / plot.inner_width();
  plot.texts.push_back({plot.x.position(end) + indent, plot.y.position(y), words});
}

std::string runs_note(const std::vector<Ranked>& rows) {
  std::size_t fewest = rows.front().summary->n;
  std::size_t most = fewest;
  for (const Ranked& row : rows) {
    fewest = std::min(fewest, row.summary->n);
    most = std::max(most, row.summary->n);
  }
  if (most == 1) return "One run each.";
  std::string count =
      fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return fmt::format("Median of {} runs; the line reaches from the lowest to the highest.", count);
}

/// Ideal scaling: the best single-thread throughput times the threads, up to the cores. Has no
/// points unless the sweep is throughput over threads.
Mark ideal_line(const Arrangement& all, const Sweep& sweep, const std::string& metric) {
  Mark line{Mark::Kind::kDashed, kNoSeries, {}, "the best with one thread, times the threads"};
  if (!sweep.is_of_threads() || quantity_of(metric) != Quantity::kPerSecond) return line;
  std::vector<Ranked> alone = ranked(all.cells[sweep.points.front().second], metric);
  if (alone.empty()) return line;
  const double best = alone.front().summary->median * scale_of(metric);
  const double last = sweep.points.back().first;
  const double useful = all.cores > 0 ? std::min<double>(all.cores, last) : last;
  line.points = {{1, best}, {useful, best * useful}};
  if (useful < last) {
    line.tip += ", up to the cores";
    line.points.emplace_back(last, best * useful);
  }
  return line;
}

/// A series' medians over the sweep; has no points if it has no such metric.
Mark median_line(const Arrangement& all, const Sweep& sweep, const std::string& metric,
                 int series) {
  Mark line{Mark::Kind::kLine, series, {}, who(all, series).name};
  const char* separator = ": ";
  for (const auto& [value, index] : sweep.points) {
    for (const Entry& entry : all.cells[index].entries) {
      const Summary* summary = entry.row->metric(metric);
      if (entry.series != series || !entry.row->ok || summary == nullptr) continue;
      line.points.emplace_back(value, summary->median * scale_of(metric));
      line.tip +=
          fmt::format("{}{} with {}", std::exchange(separator, ", "),
                      brief_metric(metric, summary->median), brief(Quantity::kCount, value));
    }
  }
  return line;
}

/// The best two contenders at the end of a sweep, and the baseline.
std::string best_at_end(const Arrangement& all, const Sweep& sweep, const std::string& metric) {
  const Cell& cell = all.cells[sweep.points.back().second];
  std::vector<Ranked> rows = ranked(cell, metric);
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bool is_base = baseline_of(cell, *rows[i].entry.row) == rows[i].entry.row;
    if (i >= 2 && !is_base) continue;
    append_item(text, fmt::format("{} {}", who(all, rows[i].entry).name,
                                  brief_metric(metric, rows[i].summary->median)));
  }
  return text.empty() ? "no contender completed" : text;
}

}  // namespace

Plot metric_plot(const Arrangement& all, const Cell& cell, const std::string& metric) {
  Plot plot;
  std::vector<Ranked> rows = ranked(cell, metric);
  if (rows.empty()) return plot;
  std::vector<Entry> failed;
  std::size_t longest = 0;
  std::size_t longest_value = 0;
  double low = INFINITY;
  double high = 0;
  double scale = scale_of(metric);
  for (const Entry& entry : cell.entries) {
    if (!entry.row->ok) failed.push_back(entry);
    longest = std::max(longest, display_width(who(all, entry).short_name));
  }
  for (const Ranked& row : rows) {
    low = std::min(low, row.summary->min * scale);
    high = std::max(high, row.summary->max * scale);
    longest_value = std::max(longest_value, display_width(value_and_ratio(cell, metric, row)));
  }
  plot.id = cell.id + "-" + slug(metric);
  plot.title = ranking_sentence(all, cell, metric, rows);
  plot.note = fmt::format("{}; {} is better. {}", spoken_name(metric),
                          better(metric) == Better::kMore ? "more" : "less", runs_note(rows));
  capitalize(plot.note);
  double count = static_cast<double>(rows.size() + failed.size());
  plot.height = static_cast<int>(count) * kRowHeight + kFrame;
  plot.left = room_for(longest);
  plot.right = room_for(longest_value) + 4;
  plot.has_y_grid = false;
  bool is_log = low > 0 && high / low > kTooFarApart;
  plot.x = is_log ? log_axis(quantity_of(metric), "", low * 0.8, high)
                  : linear_axis(quantity_of(metric), "", high, 4);
  plot.y.low = -0.5;
  plot.y.high = count - 0.5;
  plot.place = cell.name();
  plot.alt = plot.place + ": " + plot.title + ".";
  double indent = -7.0 / plot.inner_width();
  double y = count;
  auto put_name = [&](const Entry& entry) {
    plot.texts.push_back({indent, plot.y.position(--y), who(all, entry).short_name,
                          Text::Align::kRight, entry.series});
  };
  for (const Ranked& row : rows) {
    put_name(row.entry);
    add_bar(plot, all, cell, metric, row, y);
    plot.alt +=
        fmt::format(" {}: {}.", who(all, row.entry).name, value_and_ratio(cell, metric, row));
  }
  for (const Entry& entry : failed) {
    put_name(entry);
    const char* how = entry.row->is_broken ? "broken" : "failed";
    plot.texts.push_back({-indent, plot.y.position(y), how, Text::Align::kLeft, kNoSeries, true});
    plot.alt += fmt::format(" {}: {}.", who(all, entry).name, how);
  }
  return plot;
}

Plot sweep_plot(const Arrangement& all, const Sweep& sweep, const std::string& metric) {
  Plot plot;
  plot.id = sweep.id + "-" + slug(metric);
  std::string parameter = spoken_name(sweep.parameter);
  plot.height = 270;
  double scale = scale_of(metric);
  double high = 0;
  std::vector<EndLabel> ends;
  Mark ideal = ideal_line(all, sweep, metric);
  for (const auto& point : ideal.points) high = std::max(high, point.second);
  for (int series = 0; series < static_cast<int>(all.series.size()); ++series) {
    Mark line = median_line(all, sweep, metric, series);
    if (line.points.empty()) continue;
    for (const auto& point : line.points) high = std::max(high, point.second);
    if (line.points.size() > 1 && line.points.front().second > 0) {
      plot.alt += fmt::format(" {}: {} to {}.", who(all, series).name,
                              brief_metric(metric, line.points.front().second / scale),
                              brief_metric(metric, line.points.back().second / scale));
    }
    ends.push_back({series, line.points.back().second, who(all, series).short_name});
    Mark dots = line;
    dots.kind = Mark::Kind::kDots;
    plot.marks.push_back(std::move(line));
    plot.marks.push_back(std::move(dots));
  }
  if (plot.marks.empty()) return plot;
  double first = sweep.points.front().first;
  double last = sweep.points.back().first;
  plot.x.is_log = first > 0 && last / first >= 4 && ideal.points.empty();
  plot.x.low = plot.x.is_log ? first : first - (last - first) * 0.03;
  plot.x.high = last;
  for (const auto& point : sweep.points) {
    plot.x.ticks.push_back({point.first, brief(Quantity::kCount, point.first), 0});
  }
  plot.x.title = parameter;
  plot.y = linear_axis(quantity_of(metric), spoken_name(metric), high);
  plot.left = 60;
  plot.has_x_grid = false;
  label_ends(plot, std::move(ends));
  plot.title = fmt::format("With {} {}: {}", brief(Quantity::kCount, last), parameter,
                           best_at_end(all, sweep, metric));
  plot.note = fmt::format("{} by {}{}{}; medians, {} is better.", spoken_name(metric), parameter,
                          sweep.fixed.empty() ? "" : ", ", sweep.fixed,
                          better(metric) == Better::kMore ? "more" : "less");
  capitalize(plot.note);
  if (!ideal.points.empty()) {
    plot.note += fmt::format(" Dashed: {}.", ideal.tip);
    plot.marks.push_back(std::move(ideal));
  }
  plot.place = sweep.scenario;
  plot.alt = sweep.scenario + ", " + plot.note + plot.alt;
  return plot;
}

}  // namespace strata::cli
