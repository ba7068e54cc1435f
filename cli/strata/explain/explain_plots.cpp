#include <fmt/format.h>

#include <algorithm>

#include "explain/explain_page.h"
#include "explain/explain_text.h"
#include "output/text.h"
#include "output/units.h"

namespace strata::cli {
namespace {

Plot course_plot(const Explanation& explanation, bool is_bytes) {
  Plot plot;
  const std::vector<Moment> course = explanation.course();
  const Moment& peak = explanation.peak();
  Mark line{Mark::Kind::kLine, 0, {}, is_bytes ? "live bytes" : "live objects"};
  double most = 1;
  for (const Moment& moment : course) {
    const auto value = static_cast<double>(is_bytes ? moment.bytes : moment.objects);
    most = std::max(most, value);
    line.points.emplace_back(static_cast<double>(moment.time_ns) * 1e-9, value);
  }
  const double latest = std::max(1e-6, static_cast<double>(explanation.duration_ns()) * 1e-9);
  plot.id = is_bytes ? "live-bytes" : "live-objects";
  plot.x = linear_axis(Quantity::kSeconds, "time since the recording began", latest);
  plot.x.high = latest;
  plot.y = is_bytes ? linear_axis(Quantity::kBytes, "live", most)
                    : linear_axis(Quantity::kCount, "live objects", most);
  plot.marks.push_back(std::move(line));
  if (is_bytes) {
    const double at_s = static_cast<double>(peak.time_ns) * 1e-9;
    plot.marks.push_back({Mark::Kind::kDots,
                          0,
                          {{at_s, static_cast<double>(peak.bytes)}},
                          fmt::format("peak: {}", bytes_text(peak.bytes))});
    plot.title =
        fmt::format("At most {} were live, after {}", bytes_text(peak.bytes), time_text(at_s));
  } else {
    plot.title =
        fmt::format("{} {} live at the peak of bytes", counted_briefly(peak.objects, "object"),
                    peak.objects == 1 ? "was" : "were");
  }
  plot.note =
      "What the program had asked for and not freed yet; of many calls at a time, the highest.";
  // The largest blocks are often touched in part.
  if (is_bytes) plot.note += " Untouched memory counts, too, so the RSS may be highest elsewhere.";
  plot.alt = plot.title + ".";
  return plot;
}

/// The places that hold most at the peak, largest on top.
Plot holders_plot(const Explanation& explanation) {
  constexpr std::size_t kMostHolders = 8;
  Plot plot;
  std::vector<std::size_t> order = places_by_peak(explanation);
  if (order.size() > kMostHolders) order.resize(kMostHolders);
  std::erase_if(order, [&](std::size_t i) { return explanation.sums()[i].at_peak_bytes == 0; });
  if (order.empty()) return plot;
  const PlaceSums& first = explanation.sums()[order.front()];
  const auto rows = static_cast<double>(order.size());
  plot.id = "holders";
  plot.left = 150;
  plot.x = linear_axis(Quantity::kBytes, "live at the peak",
                       static_cast<double>(first.at_peak_bytes), 4);
  plot.y.high = rows;
  plot.has_y_grid = false;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double y = rows - static_cast<double>(i);
    const PlaceSums& place = explanation.sums()[order[i]];
    const std::string name = explanation.places().names()[order[i]].line.function;
    plot.y.ticks.push_back({y - 0.5, shortened(name, 22), 0});
    plot.marks.push_back({Mark::Kind::kBox,
                          0,
                          {{0, y - 0.85}, {static_cast<double>(place.at_peak_bytes), y - 0.15}},
                          fmt::format("{}: {} in {}", name, bytes_text(place.at_peak_bytes),
                                      counted_briefly(place.at_peak, "object"))});
  }
  const std::string& holder = explanation.places().names()[order.front()].line.function;
  plot.title = fmt::format("{} {:.0f}% of the peak",
                           holder == Places::kNoStack ? "Calls without a recorded stack hold"
                                                      : shortened(holder, 40) + " holds",
                           100 * static_cast<double>(first.at_peak_bytes) /
                               static_cast<double>(explanation.peak().bytes));
  plot.note = "The places that held the most when the live bytes were at their peak.";
  plot.alt = plot.title + ".";
  return plot;
}

/// Bars side by side, each with its name and its range in words.
struct Bars {
  std::vector<std::uint64_t> counts;
  std::vector<std::string> names;
  std::vector<std::string> ranges;
};

/// \param most_names  the number of evenly spaced names that fit
/// \param largest     receives the index of the largest count
/// \returns           A plot without marks if all counts are zero.
Plot bar_plot(const Bars& bars, std::size_t most_names, std::size_t& largest) {
  Plot plot;
  const auto is_counted = [](std::uint64_t count) { return count > 0; };
  const auto begin = bars.counts.begin();
  const auto first = std::find_if(begin, bars.counts.end(), is_counted);
  if (first == bars.counts.end()) return plot;
  const auto last = std::find_if(bars.counts.rbegin(), bars.counts.rend(), is_counted).base();
  const auto most = std::max_element(first, last);
  largest = static_cast<std::size_t>(most - begin);
  plot.x.low = static_cast<double>(first - begin);
  plot.x.high = static_cast<double>(last - begin);
  plot.y = linear_axis(Quantity::kCount, "objects", static_cast<double>(*most));
  const auto shown = static_cast<std::size_t>(last - first);
  const std::size_t step = (shown + most_names - 1) / most_names;
  for (auto at = first; at != last; ++at) {
    const auto i = static_cast<std::size_t>(at - begin);
    const auto x = static_cast<double>(i);
    const bool is_named = static_cast<std::size_t>(at - first) % step == 0;
    if (is_named) plot.x.ticks.push_back({x, bars.names[i], 0});
    plot.marks.push_back({Mark::Kind::kBox,
                          0,
                          {{x + 0.08, 0}, {x + 0.92, static_cast<double>(*at)}},
                          fmt::format("{}: {} objects", bars.ranges[i], count_text(*at))});
  }
  plot.has_x_grid = false;
  return plot;
}

Plot size_plot(const Explanation& explanation) {
  Bars bars;
  for (std::size_t i = 0; i < SizeScale::kBuckets; ++i) {
    const std::uint64_t lower = SizeScale::lower(i);
    bars.counts.push_back(explanation.sizes(i));
    bars.names.push_back(bytes_text(lower));
    bars.ranges.push_back(i < 2 ? bytes_text(lower)
                                : fmt::format("{} to {}", bytes_text(lower),
                                              bytes_text(SizeScale::lower(i + 1) - 1)));
  }
  std::size_t largest = 0;
  Plot plot = bar_plot(bars, 6, largest);
  plot.id = "sizes";
  plot.title = fmt::format("The most common size is {}", bars.ranges[largest]);
  plot.note = "Objects by the size asked for, in powers of two.";
  plot.x.title = "size asked for";
  plot.alt = plot.title + ".";
  return plot;
}

/// The number of objects by number of resizes, in powers of two.
Plot resize_plot(const Explanation& explanation) {
  Bars bars;
  const std::vector<std::uint64_t>& chains = explanation.chains();
  std::uint64_t all = 0;
  for (std::size_t low = 1; low < chains.size(); low *= 2) {
    const std::size_t high = std::min(2 * low, chains.size());
    bars.counts.push_back(0);
    for (std::size_t i = low; i < high; ++i) bars.counts.back() += chains[i];
    all += bars.counts.back();
    bars.names.push_back(std::to_string(low));
    bars.ranges.push_back(high == chains.size() ? fmt::format("{} times or more", low)
                          : low == 1            ? std::string("once")
                                                : fmt::format("{} to {} times", low, high - 1));
  }
  std::size_t largest = 0;
  Plot plot = bar_plot(bars, 12, largest);
  plot.id = "resized";
  plot.title = fmt::format("{} objects were resized, most of them {}", count_text(all),
                           bars.ranges[largest]);
  plot.note = "Objects by the calls of realloc they went through, freed or not.";
  plot.x.title = "times resized, from";
  plot.alt = plot.title + ".";
  return plot;
}

/// The recorded program's name, without folders and arguments.
std::string program_of(const Explanation& explanation) {
  const std::string command = trace::property(explanation.history().reader().process(), "command");
  if (command.empty()) return "The program";
  const std::string program = command.substr(0, command.find(' '));
  return program.substr(program.rfind('/') + 1);
}

}  // namespace

std::vector<Plot> explain_plots(const Explanation& explanation) {
  std::vector<Plot> plots = {course_plot(explanation, true), holders_plot(explanation),
                             course_plot(explanation, false), size_plot(explanation),
                             resize_plot(explanation)};
  std::erase_if(plots, [](const Plot& plot) { return plot.marks.empty(); });
  for (Plot& plot : plots) plot.place = program_of(explanation);
  return plots;
}

std::vector<SeriesStyle> explain_styles() {
  SeriesStyle style;
  style.colour = 5;
  return {style};
}

}  // namespace strata::cli
