#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "output/text.h"
#include "report/plot_parts.h"
#include "report/plots.h"

namespace strata::cli {
namespace {

constexpr double kNanosecond = 1e-9;
constexpr double kLeast = 1e-12;  ///< replaces the zero times of a clock that stands still
/// A percentile is drawn if at least this many operations took longer.
constexpr double kFewestBeyond = 5;
constexpr double kVisible = 1.03;  ///< in a plot, times of a smaller ratio look equal
constexpr double kBinsPerDecade = 20;
constexpr int kHillsHeight = 210;  ///< of all hills together, if the next two limits allow it
constexpr int kLowestHill = 26;
constexpr int kHighestHill = 56;

struct Drawn {
  Entry entry;
  const Latency* latency;
};

std::vector<Drawn> with_latency(const Cell& cell, const std::string& kind) {
  std::vector<Drawn> found;
  for (const Entry& entry : cell.entries) {
    if (!entry.row->ok) continue;
    const Latency* latency = entry.row->latency(kind);
    if (latency != nullptr && latency->count > 0) found.push_back({entry, latency});
  }
  return found;
}

/// Latency over the share of operations that were at least as fast, up to where few are left.
std::vector<std::pair<double, double>> percentile_curve(const Latency& latency) {
  std::vector<std::pair<double, double>> points;
  const auto all = static_cast<double>(latency.count);
  const double most = std::max(all - kFewestBeyond, 0.0);
  double below = 0;
  double position = 0;
  double upper = 0;
  for (const auto& [lower, bucket] : latency.buckets) {
    const double middle = (lower + bucket.upper_ns) / 2 * kNanosecond;
    // A step over what no operation took: a coarse clock tells few times apart.
    if (points.empty() || lower > upper * kVisible) points.emplace_back(position, middle);
    upper = bucket.upper_ns;
    below += static_cast<double>(bucket.samples);
    position = percentile_position(std::min(below, most) / all);
    // Buckets are 1% wide, so most add nothing visible.
    if (position > points.back().first + 0.01 || middle > points.back().second * kVisible) {
      points.emplace_back(position, middle);
    }
    if (below >= most) break;
  }
  return points;
}

/// The latency, in seconds, that the share `below` of the operations does not exceed.
double quantile(const Latency& latency, double below) {
  return latency.percentile_ns(below) * kNanosecond;
}

/// The largest of some shares whose quantiles are drawn of all.
double share_told(const std::vector<Drawn>& drawn) {
  for (double share : {0.99, 0.9}) {
    if (std::ranges::all_of(drawn, [&](const Drawn& one) {
          return static_cast<double>(one.latency->count) * (1 - share) >= kFewestBeyond;
        })) {
      return share;
    }
  }
  return 0.5;
}

/// "strata 41 ns, system 155 ns": the best, with the number of equals, and the baseline if it is
/// another.
std::string first_and_baseline(const Arrangement& all, const Cell& cell,
                               const std::vector<Drawn>& sorted, double share) {
  const Drawn& best = sorted.front();
  const auto value = [&](const Drawn& one) { return time_text(quantile(*one.latency, share)); };
  const auto equal = std::count_if(sorted.begin() + 1, sorted.end(),
                                   [&](const Drawn& other) { return value(other) == value(best); });
  std::string text = who(all, best.entry).name;
  if (equal > 0) text += " and " + counted(equal, "other");
  text += " " + value(best);
  const Row* base = baseline_of(cell, *best.entry.row);
  for (const Drawn& other : sorted) {
    if (other.entry.row != base || base == best.entry.row) continue;
    if (value(other) == value(best)) continue;  // equal to the best
    text += fmt::format(", {} {}", who(all, other.entry).name, value(other));
  }
  return text;
}

void sort_by(std::vector<Drawn>& drawn, double share) {
  std::ranges::stable_sort(drawn, {},
                           [&](const Drawn& one) { return quantile(*one.latency, share); });
}

std::string alt_text(const Arrangement& all, const Cell& cell, const Plot& plot,
                     const std::vector<Drawn>& drawn) {
  std::string alt = cell.name() + ": " + plot.title + ".";
  for (const Drawn& one : drawn) {
    alt += fmt::format(" {}:", who(all, one.entry).name);
    for (const auto& [name, share] : kPercentiles) {
      alt += fmt::format(" {} {}", name, time_text(quantile(*one.latency, share)));
    }
    alt += ".";
  }
  return alt;
}

std::string clock_note(const std::vector<Drawn>& drawn) {
  double cost = 0;
  for (const Drawn& one : drawn) cost = std::max(cost, one.latency->timer_cost_ns);
  return fmt::format("reading the clock is {} of each", time_text(cost * kNanosecond));
}

/// The share of operations per bin of equal width on a log axis.
std::map<int, double> binned(const Latency& latency) {
  std::map<int, double> bins;
  const auto all = static_cast<double>(latency.count);
  auto bin_of = [](double ns) {
    return std::log10(std::max(ns, kLeast / kNanosecond)) * kBinsPerDecade;
  };
  for (const auto& [lower, bucket] : latency.buckets) {
    // Splits a bucket on the border of two bins between them.
    double low = bin_of(lower);
    double high = std::max(bin_of(bucket.upper_ns), low + 1e-9);
    for (int bin = static_cast<int>(std::floor(low)); bin < high; ++bin) {
      double part =
          (std::min(high, bin + 1.0) - std::max(low, static_cast<double>(bin))) / (high - low);
      if (part > 0) bins[bin] += static_cast<double>(bucket.samples) * part / all;
    }
  }
  return bins;
}

double bin_start(int bin) { return std::pow(10, bin / kBinsPerDecade) * kNanosecond; }

/// An outline over the bins: `bottom` where a bin is empty, one higher at the maximum.
std::vector<std::pair<double, double>> hill(const std::map<int, double>& bins, double bottom,
                                            double low, double high) {
  double highest = 0;
  for (const auto& [bin, share] : bins) highest = std::max(highest, share);
  std::vector<std::pair<double, double>> outline = {{low, bottom}};
  auto clipped = [&](int bin) { return std::clamp(bin_start(bin), low, high); };
  std::optional<int> before;
  for (const auto& [bin, share] : bins) {
    if (bin_start(bin + 1) <= low || bin_start(bin) >= high) continue;
    if (bin - 1 != before) {  // down to the bottom over empty bins, then up again
      if (before) outline.emplace_back(clipped(*before + 1), bottom);
      outline.emplace_back(clipped(bin), bottom);
    }
    double y = bottom + 0.88 * share / highest;
    outline.emplace_back(clipped(bin), y);
    outline.emplace_back(clipped(bin + 1), y);
    before = bin;
  }
  if (before) outline.emplace_back(clipped(*before + 1), bottom);
  outline.emplace_back(high, bottom);
  return outline;
}

}  // namespace

Plot percentile_plot(const Arrangement& all, const Cell& cell, const std::string& kind) {
  Plot plot;
  std::vector<Drawn> drawn = with_latency(cell, kind);
  if (drawn.empty()) return plot;
  double low = INFINITY;
  double high = 0;
  double furthest = 0;
  std::vector<EndLabel> ends;
  for (const Drawn& one : drawn) {
    Mark line{Mark::Kind::kLine, one.entry.series, percentile_curve(*one.latency), {}};
    for (const auto& [x, y] : line.points) {
      low = std::min(low, y);
      high = std::max(high, y);
      furthest = std::max(furthest, x);
    }
    line.tip = fmt::format("{}, {}: p50 {}, p99 {}", who(all, one.entry).name, kind,
                           time_text(quantile(*one.latency, 0.5)),
                           time_text(quantile(*one.latency, 0.99)));
    ends.push_back({one.entry.series, line.points.back().second, who(all, one.entry).short_name});
    plot.marks.push_back(std::move(line));
  }
  plot.id = cell.id + "-" + slug(kind) + "-percentiles";
  plot.x = percentile_axis(furthest);
  plot.y = log_axis(Quantity::kSeconds, "", low * 0.8, high * 1.2);
  plot.left = 58;
  plot.height = 280;
  label_ends(plot, std::move(ends));
  const double share = share_told(drawn);
  sort_by(drawn, share);
  plot.title = fmt::format("{:.0f}% of {} calls take at most: {}", 100 * share, kind,
                           first_and_baseline(all, cell, drawn, share));
  plot.note = fmt::format(
      "Latency of {} by percentile; both axes give the slowest calls room. "
      "Less is better; {}.",
      kind, clock_note(drawn));
  plot.place = cell.name();
  plot.alt = alt_text(all, cell, plot, drawn);
  return plot;
}

Plot histogram_plot(const Arrangement& all, const Cell& cell, const std::string& kind) {
  Plot plot;
  std::vector<Drawn> drawn = with_latency(cell, kind);
  if (drawn.empty()) return plot;
  sort_by(drawn, 0.5);
  double low = INFINITY;
  double high = 0;
  std::size_t longest = 0;
  for (const Drawn& one : drawn) {
    low = std::min(low, quantile(*one.latency, 0.001));
    high = std::max(high, quantile(*one.latency, 0.995));
    longest = std::max(longest, display_width(who(all, one.entry).short_name));
  }
  low = std::max(0.75 * low, kLeast);
  high = std::max(1.6 * high, 1.5 * low);
  double count = static_cast<double>(drawn.size());
  plot.id = cell.id + "-" + slug(kind) + "-histogram";
  plot.x = log_axis(Quantity::kSeconds, "", low, high);
  plot.y.low = 0;
  plot.y.high = count;
  plot.has_y_grid = false;
  plot.left = room_for(longest);
  plot.right = room_for(8);
  int hill_height =
      std::clamp(kHillsHeight / static_cast<int>(drawn.size()), kLowestHill, kHighestHill);
  plot.height = static_cast<int>(drawn.size()) * hill_height + kFrame;
  double indent = 7.0 / plot.inner_width();
  double y = count;
  for (const Drawn& one : drawn) {
    y -= 1;
    double median = quantile(*one.latency, 0.5);
    std::string value = time_text(median);
    Mark shape{Mark::Kind::kArea, one.entry.series, hill(binned(*one.latency), y, low, high), {}};
    shape.tip = fmt::format("{}, {}: median {}", who(all, one.entry).name, kind, value);
    plot.marks.push_back(std::move(shape));
    plot.marks.push_back({Mark::Kind::kWhisk,
                          one.entry.series,
                          {{median, y}, {median, y + 0.88}},
                          "median " + value});
    plot.texts.push_back({-indent, plot.y.position(y + 0.3), who(all, one.entry).short_name,
                          Text::Align::kRight, one.entry.series});
    plot.texts.push_back({1 + indent, plot.y.position(y + 0.3), value});
  }
  plot.title = fmt::format("Half of the {} calls take at most: {}", kind,
                           first_and_baseline(all, cell, drawn, 0.5));
  plot.note = fmt::format(
      "How often each latency of {} occurred, relative to each contender's own peak; the line "
      "and the number are its median; {}.",
      kind, clock_note(drawn));
  plot.place = cell.name();
  plot.alt = alt_text(all, cell, plot, drawn);
  return plot;
}

}  // namespace strata::cli
