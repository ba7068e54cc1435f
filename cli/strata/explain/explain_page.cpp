#include "explain/explain_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "explain/explain_text.h"
#include "explain/heat.h"
#include "output/units.h"
#include "report/gnuplot.h"
#include "report/page_assets.h"
#include "report/svg.h"

namespace strata::cli {
namespace {

// Chosen: what a person looks at in a drawing; the table has all.
constexpr std::size_t kDrawnPlaces = 25;
constexpr std::size_t kDrawnThreads = 16;
constexpr std::size_t kMapFields = 8192;
constexpr std::size_t kMapColumns = 128;
constexpr std::size_t kMostTableRows = 2000;

std::string count_text(std::uint64_t count) {
  return brief(Quantity::kCount, static_cast<double>(count));
}

std::string life_name(std::size_t bucket) {
  return bucket == LifeScale::kNever ? std::string("never")
                                     : fmt::format("<{}", time_text(LifeScale::upper_s(bucket)));
}

std::vector<std::string> life_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= LifeScale::kBuckets; ++i) names.push_back(life_name(i));
  return names;
}

Plot course_plot(const Explanation& explanation, bool is_bytes) {
  Plot plot;
  const std::vector<Explanation::Moment> course = explanation.course();
  const Explanation::Moment& peak = explanation.peak();
  Mark line{Mark::Kind::kLine, 0, {}, is_bytes ? "live bytes" : "live objects"};
  double most = 1;
  for (const Explanation::Moment& moment : course) {
    const auto value = static_cast<double>(is_bytes ? moment.bytes : moment.objects);
    most = std::max(most, value);
    line.points.emplace_back(static_cast<double>(moment.time_ns) * 1e-9, value);
  }
  const double latest = std::max(1e-6, static_cast<double>(explanation.duration_ns()) * 1e-9);
  plot.id = is_bytes ? "live-bytes" : "live-objects";
  plot.x = linear_axis(Quantity::kSeconds, "time since the recording began", latest);
  plot.x.high = latest;
  std::erase_if(plot.x.ticks, [&](const Tick& tick) { return tick.at > latest * 1.0001; });
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
    plot.title = fmt::format("{} objects were live at the peak of bytes", count_text(peak.objects));
  }
  plot.note = "What the program asked for and had not freed; of each moment drawn, the most.";
  plot.place = "the program";
  plot.alt = plot.title + ".";
  return plot;
}

Plot size_plot(const Explanation& explanation) {
  Plot plot;
  std::size_t first = SizeScale::kBuckets;
  std::size_t last = 0;
  double most = 1;
  std::size_t favourite = 0;
  for (std::size_t i = 0; i < SizeScale::kBuckets; ++i) {
    const auto count = static_cast<double>(explanation.sizes(i));
    if (count == 0) continue;
    first = std::min(first, i);
    last = i;
    if (count > most) favourite = i;
    most = std::max(most, count);
  }
  if (first > last) return plot;
  plot.id = "sizes";
  plot.x.low = static_cast<double>(first);
  plot.x.high = static_cast<double>(last + 1);
  plot.x.title = "size asked for";
  plot.y = linear_axis(Quantity::kCount, "objects", most);
  for (std::size_t i = first; i <= last; ++i) {
    const auto at = static_cast<double>(i);
    plot.x.ticks.push_back({at, bytes_text(SizeScale::lower(i)), (i - first) % 3 == 0 ? 0 : 1});
    const auto count = static_cast<double>(explanation.sizes(i));
    plot.marks.push_back(
        {Mark::Kind::kBox,
         0,
         {{at + 0.08, 0}, {at + 0.92, count}},
         fmt::format("{} up to {}: {} objects", bytes_text(SizeScale::lower(i)),
                     bytes_text(SizeScale::lower(i + 1) - 1), count_text(explanation.sizes(i)))});
  }
  plot.has_x_grid = false;
  plot.title = fmt::format("Most objects have {} to {}", bytes_text(SizeScale::lower(favourite)),
                           bytes_text(SizeScale::lower(favourite + 1) - 1));
  plot.note = "Objects by the size asked for, in powers of two.";
  plot.place = "the program";
  plot.alt = plot.title + ".";
  return plot;
}

std::string size_life_map(const Explanation& explanation) {
  HeatMap map;
  map.columns = life_names();
  map.alt = "Objects by size and time to live";
  for (std::size_t size = 0; size < SizeScale::kBuckets; ++size) {
    if (explanation.sizes(size) == 0) continue;
    map.rows.push_back(bytes_text(SizeScale::lower(size)));
    std::vector<double> values;
    std::vector<std::string> tips;
    for (std::size_t life = 0; life <= LifeScale::kBuckets; ++life) {
      const std::uint64_t count = explanation.heat(size, life);
      values.push_back(static_cast<double>(count));
      tips.push_back(fmt::format("{} objects of {} and more lived {}", count_text(count),
                                 map.rows.back(), life_name(life)));
    }
    map.values.push_back(std::move(values));
    map.tips.push_back(std::move(tips));
  }
  return map.to_svg();
}

std::string life_map(const Explanation& explanation, const std::vector<std::size_t>& order) {
  HeatMap map;
  map.columns = life_names();
  map.is_by_row = true;
  map.alt = "Time to live by place";
  for (std::size_t i = 0; i < std::min(kDrawnPlaces, order.size()); ++i) {
    const PlaceSums& place = explanation.sums()[order[i]];
    std::string name = explanation.places().names()[order[i]].text();
    if (name.size() > 48) name = name.substr(0, 20) + "…" + name.substr(name.size() - 27);
    map.rows.push_back(name);
    std::vector<double> values;
    std::vector<std::string> tips;
    for (std::size_t life = 0; life < place.lives.size(); ++life) {
      values.push_back(static_cast<double>(place.lives[life]));
      tips.push_back(
          fmt::format("{} objects lived {}", count_text(place.lives[life]), life_name(life)));
    }
    map.values.push_back(std::move(values));
    map.tips.push_back(std::move(tips));
  }
  return map.to_svg();
}

/// The threads between which most objects passed, or that ended most of their own.
std::string thread_map(const Explanation& explanation) {
  std::map<std::uint32_t, std::uint64_t> weights;
  for (const auto& [threads, sums] : explanation.passing()) {
    weights[threads.first] += sums.objects;
    weights[threads.second] += sums.objects;
  }
  std::vector<std::uint32_t> shown;
  for (const auto& [thread, weight] : weights) shown.push_back(thread);
  std::stable_sort(shown.begin(), shown.end(),
                   [&](auto a, auto b) { return weights[a] > weights[b]; });
  if (shown.size() > kDrawnThreads) shown.resize(kDrawnThreads);
  std::sort(shown.begin(), shown.end());
  HeatMap map;
  map.alt = "Objects by the thread that made them and the one that freed them";
  for (const std::uint32_t birth : shown) {
    map.columns.push_back(std::to_string(birth));
    map.rows.push_back(fmt::format("made in {}", explanation.thread_name(birth)));
    std::vector<double> values;
    std::vector<std::string> tips;
    for (const std::uint32_t death : shown) {
      const auto found = explanation.passing().find({birth, death});
      const Explanation::Passing sums =
          found == explanation.passing().end() ? Explanation::Passing() : found->second;
      values.push_back(static_cast<double>(sums.objects));
      tips.push_back(fmt::format("{} objects, {}, made in {} and freed in {}",
                                 count_text(sums.objects), bytes_text(sums.bytes),
                                 explanation.thread_name(birth), explanation.thread_name(death)));
    }
    map.values.push_back(std::move(values));
    map.tips.push_back(std::move(tips));
  }
  return map.to_svg();
}

std::string chain_table(const Explanation& explanation) {
  std::string html =
      "<div class=\"scroll\"><table><thead><tr><th>Resized</th><th class=\"n\">Objects</th></tr>"
      "</thead><tbody>\n";
  for (std::size_t i = 1; i < explanation.chains().size(); ++i) {
    if (explanation.chains()[i] == 0) continue;
    html += fmt::format("<tr><th scope=\"row\">{}{} times</th><td>{}</td></tr>\n", i,
                        i + 1 == explanation.chains().size() ? " or more" : "",
                        count_text(explanation.chains()[i]));
  }
  return html + "</tbody></table></div>\n";
}

/// A field is a page, or a few neighbours where there are more than can be drawn.
std::string address_svg(const AddressMap& map) {
  const std::size_t count = map.pages().size();
  const std::size_t each = (count + kMapFields - 1) / kMapFields;
  constexpr int kField = 6;
  const std::size_t fields = each == 0 ? 0 : (count + each - 1) / each;
  const std::size_t rows = (fields + kMapColumns - 1) / kMapColumns;
  std::string svg = fmt::format(
      "<svg class=\"heat pages\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"OS pages under {} "
      "by how full they are\">\n",
      kField * kMapColumns, kField * rows, html_escaped(map.allocator()));
  for (std::size_t field = 0; field < fields; ++field) {
    double fullness = 0;
    const std::size_t first = field * each;
    const std::size_t last = std::min(count, first + each);
    for (std::size_t i = first; i < last; ++i) fullness += map.pages()[i].fullness;
    fullness /= static_cast<double>(last - first);
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"5\" height=\"5\" fill-opacity=\"{:.2f}\"><title>{:#x}: "
        "{:.0f}% in use</title></rect>",
        kField * (field % kMapColumns), kField * (field / kMapColumns),
        std::clamp(fullness, 0.06, 1.0), map.pages()[first].number * AddressMap::kPageBytes,
        100 * fullness);
  }
  return svg + "</svg>\n";
}

std::string address_maps(const std::vector<AddressMap>& maps) {
  std::string html;
  for (const AddressMap& map : maps) {
    html += fmt::format(
        "<figure><figcaption><b>Under {}: {} on {} pages, {} of memory for each byte</b>"
        "<span>{} pages are less than a quarter full. The darker, the fuller; in the order of "
        "addresses, gaps left out.</span></figcaption>{}</figure>\n",
        html_escaped(map.allocator()), bytes_text(map.bytes()), count_text(map.pages().size()),
        three_digits(map.page_bytes_per_live()), count_text(map.pages_below(0.25)),
        address_svg(map));
  }
  return html;
}

std::string callers_of(const PlaceName& name) {
  std::string text = name.line.text();
  for (const Line& caller : name.callers) text += fmt::format("\nfrom {}", caller.text());
  return text;
}

std::string places_table(const Explanation& explanation, const std::vector<std::size_t>& order) {
  std::string html =
      "<p class=\"filter\" hidden><input type=\"search\" placeholder=\"Search places\" "
      "aria-label=\"Search places\"></p>\n<div class=\"scroll\"><table class=\"sortable "
      "places\"><thead><tr><th><button type=\"button\">Where</button></th>";
  for (const char* title : {"At the peak", "Objects at the peak", "Allocated", "Calls", "Mean size",
                            "Own peak", "Never freed", "Temporary", "Freed elsewhere", "Resized"}) {
    html += fmt::format("<th class=\"n\"><button type=\"button\">{}</button></th>", title);
  }
  html += "</tr></thead>\n<tbody>\n";
  const auto bytes = [&](std::uint64_t value) {
    html += fmt::format("<td data-v=\"{}\">{}</td>", value, bytes_text(value));
  };
  const auto count = [&](std::uint64_t value) {
    html += fmt::format("<td data-v=\"{}\">{}</td>", value, count_text(value));
  };
  for (std::size_t i = 0; i < std::min(order.size(), kMostTableRows); ++i) {
    const PlaceSums& place = explanation.sums()[order[i]];
    const PlaceName& name = explanation.places().names()[order[i]];
    const std::string where = name.line.place(true);
    html +=
        fmt::format("<tr><th scope=\"row\" title=\"{}\">{}{}</th>", html_escaped(callers_of(name)),
                    html_escaped(name.line.function),
                    where.empty() ? "" : fmt::format(" <small>{}</small>", html_escaped(where)));
    bytes(place.at_peak_bytes);
    count(place.at_peak);
    bytes(place.bytes);
    count(place.births);
    bytes(static_cast<std::uint64_t>(place.mean_bytes()));
    bytes(place.peak_live_bytes);
    bytes(place.live_bytes);
    count(place.temporaries);
    count(place.foreign_deaths);
    count(place.grown);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string lead(const Explanation& explanation) {
  const trace::Reader& reader = explanation.history().reader();
  std::string html = "<p class=\"lead\">";
  const auto command = reader.process().find("command");
  if (command != reader.process().end()) {
    html += fmt::format("<code>{}</code>: ", html_escaped(command->second));
  }
  html += fmt::format("{} calls of {} {} in {}; {} objects, {} in all.</p>\n",
                      count_text(explanation.events()), reader.thread_count(),
                      reader.thread_count() == 1 ? "thread" : "threads",
                      time_text(static_cast<double>(explanation.duration_ns()) * 1e-9),
                      count_text(explanation.births()), bytes_text(explanation.allocated_bytes()));
  std::vector<std::string> notes = explanation.places().notes();
  if (reader.dropped_events() > 0) {
    notes.push_back(fmt::format("The recorder dropped {} calls; numbers are too small",
                                reader.dropped_events()));
  }
  if (reader.is_cut()) notes.push_back("The recording ends before the program did");
  for (const std::string& note : notes) {
    html += fmt::format("<p><b>Note:</b> {}.</p>\n", html_escaped(note));
  }
  return html;
}

bool has_chains(const Explanation& explanation) {
  return std::any_of(explanation.chains().begin() + 1, explanation.chains().end(),
                     [](std::uint64_t count) { return count > 0; });
}

}  // namespace

Page explain_page(const Explanation& explanation, const std::vector<AddressMap>& maps,
                  const std::string& title) {
  std::vector<Plot> plots = {course_plot(explanation, true), course_plot(explanation, false),
                             size_plot(explanation)};
  std::erase_if(plots, [](const Plot& plot) { return plot.marks.empty(); });
  SeriesStyle style;
  style.colour = 5;
  const Drawings drawings = draw(plots, {style});
  Page page;
  page.title = title;
  page.lead = lead(explanation);
  page.shapes = drawings.shapes;
  page.style = kExplainStyle;
  page.script = kExplainScript;
  std::string course = "<div class=\"plots\">\n";
  for (std::size_t i = 0; i < plots.size(); ++i) course += figure(plots[i], drawings.svgs[i]);
  page.sections.push_back(
      {"course", "What was live, and what was asked for", "", course + "</div>\n"});
  const std::vector<std::size_t> order = places_by_peak(explanation);
  page.sections.push_back({"places", "Where it comes from",
                           "A place is the innermost line that is not the standard library's; its "
                           "callers show where a pointer rests on it. Choose a column's title to "
                           "sort by it.",
                           places_table(explanation, order)});
  page.sections.push_back({"lives", "How long objects live, by place",
                           "The places that hold most at the peak. Each row for itself: dark is "
                           "its most usual time to live.",
                           life_map(explanation, order)});
  page.sections.push_back({"sizes-lives", "Size against life",
                           "The darker, the more objects; each shade down is a tenth.",
                           size_life_map(explanation)});
  if (explanation.history().reader().thread_count() > 1) {
    page.sections.push_back({"threads", "Who frees whose objects",
                             "Rows are the threads that made them, columns those that freed them.",
                             thread_map(explanation)});
  }
  if (has_chains(explanation)) {
    page.sections.push_back({"chains", "Objects that were resized",
                             "By how many calls of realloc led to what was freed in the end.",
                             chain_table(explanation)});
  }
  if (!maps.empty()) {
    page.sections.push_back({"pages", "Where live objects lie at the peak",
                             "The calls up to the peak, made again under each allocator. A page "
                             "with anything in it cannot go back to the system.",
                             address_maps(maps)});
  }
  return page;
}

}  // namespace strata::cli
