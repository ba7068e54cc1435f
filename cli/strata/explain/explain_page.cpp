#include "explain/explain_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "explain/explain_text.h"
#include "explain/heat.h"
#include "output/text.h"
#include "output/units.h"
#include "report/gnuplot.h"
#include "report/html.h"
#include "report/page_assets.h"

namespace strata::cli {
namespace {

// Chosen: what a person looks at in a drawing; the table has all.
constexpr std::size_t kDrawnPlaces = 25;
constexpr std::size_t kDrawnThreads = 16;
constexpr std::size_t kMapFields = 8192;
constexpr std::size_t kMapColumns = 128;

std::vector<std::string> life_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= LifeScale::kBuckets; ++i) names.push_back(life_text(i));
  return names;
}

std::string size_life_map(const Explanation& explanation) {
  HeatMap map;
  map.columns = life_names();
  map.alt = "Objects by size and time to live";
  for (std::size_t size = 0; size < SizeScale::kBuckets; ++size) {
    if (explanation.sizes(size) == 0) continue;
    HeatMap::Row& row = map.rows.emplace_back(HeatMap::Row{bytes_text(SizeScale::lower(size))});
    for (std::size_t life = 0; life <= LifeScale::kBuckets; ++life) {
      const std::uint64_t count = explanation.heat(size, life);
      row.fields.push_back(
          {count, fmt::format("{} of {} and more lived {}", counted_briefly(count, "object"),
                              row.name, life_text(life))});
    }
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
    const std::string name = explanation.places().names()[order[i]].line.short_text();
    HeatMap::Row& row = map.rows.emplace_back(HeatMap::Row{shortened(name, 40)});
    for (std::size_t life = 0; life < place.lives.size(); ++life) {
      const std::uint64_t count = place.lives[life];
      row.fields.push_back(
          {count, fmt::format("{} lived {}", counted_briefly(count, "object"), life_text(life))});
    }
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
  std::ranges::stable_sort(shown, std::greater(), [&](auto thread) { return weights[thread]; });
  if (shown.size() > kDrawnThreads) shown.resize(kDrawnThreads);
  std::ranges::sort(shown);
  HeatMap map;
  map.alt = "Objects by the thread that made them and the one that freed them";
  for (const std::uint32_t birth : shown) {
    map.columns.push_back(std::to_string(birth));
    HeatMap::Row& row = map.rows.emplace_back(HeatMap::Row{explanation.thread_name(birth)});
    for (const std::uint32_t death : shown) {
      const auto found = explanation.passing().find({birth, death});
      const Explanation::Passing sums =
          found == explanation.passing().end() ? Explanation::Passing() : found->second;
      row.fields.push_back({sums.objects, fmt::format("{}, {}, allocated in {} and freed in {}",
                                                      counted_briefly(sums.objects, "object"),
                                                      bytes_text(sums.bytes), row.name,
                                                      explanation.thread_name(death))});
    }
  }
  return map.to_svg();
}

/// Each cell is a page, or a few adjacent pages if there are too many to draw. Cells of equal
/// fullness share a path, because thousands of elements would make the page slow.
std::string address_svg(const AddressMap& map) {
  constexpr int kField = 6;
  constexpr std::size_t kLevels = 8;
  const std::size_t count = map.pages().size();
  const std::size_t each = std::max<std::size_t>(1, (count + kMapFields - 1) / kMapFields);
  const std::size_t fields = (count + each - 1) / each;
  std::array<std::string, kLevels> paths;
  std::array<std::size_t, kLevels> pages{};
  for (std::size_t field = 0; field < fields; ++field) {
    double fullness = 0;
    const std::size_t first = field * each;
    const std::size_t last = std::min(count, first + each);
    for (std::size_t i = first; i < last; ++i) fullness += map.pages()[i].fullness;
    fullness /= static_cast<double>(last - first);
    const auto level = std::min(kLevels - 1, static_cast<std::size_t>(fullness * kLevels));
    pages[level] += last - first;
    paths[level] += fmt::format("M{} {}h5v5h-5z", kField * (field % kMapColumns),
                                kField * (field / kMapColumns));
  }
  std::string svg = fmt::format(
      "<svg class=\"heat pages\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"OS pages under {} "
      "by how full they are\">\n",
      kField * kMapColumns, kField * ((fields + kMapColumns - 1) / kMapColumns),
      html_escaped(map.allocator()));
  for (std::size_t level = 0; level < kLevels; ++level) {
    if (paths[level].empty()) continue;
    svg += fmt::format(
        "<path fill-opacity=\"{:.2f}\" d=\"{}\"><title>{} pages are {} to {}% "
        "full</title></path>\n",
        static_cast<double>(level + 1) / kLevels, paths[level], count_text(pages[level]),
        100 * level / kLevels, 100 * (level + 1) / kLevels);
  }
  return svg + "</svg>\n";
}

std::string address_maps(const std::vector<AddressMap>& maps) {
  std::string html = "<div class=\"plots pairs\">\n";
  for (const AddressMap& map : maps) {
    html += fmt::format(
        "<figure><figcaption><b>{}: {} on {} pages, {} bytes for each live one</b>"
        "<span>{} pages are less than a quarter full. The stronger the colour, the fuller the "
        "page; in the order of addresses, without the gaps.</span></figcaption>{}</figure>\n",
        html_escaped(map.allocator()), bytes_text(map.bytes()), count_text(map.pages().size()),
        three_digits(map.page_bytes_per_live()), count_text(map.pages_below(0.25)),
        address_svg(map));
  }
  return html + "</div>\n";
}

std::string lead(const Explanation& explanation) {
  const trace::Reader& reader = explanation.history().reader();
  std::string html = "<p class=\"lead\">";
  if (const std::string command = trace::property(reader.process(), "command"); !command.empty()) {
    html += fmt::format("<code>{}</code>: ", html_escaped(command));
  }
  html += fmt::format("{}; {}, {} in all.</p>\n", calls_text(explanation),
                      counted_briefly(explanation.births(), "object"),
                      bytes_text(explanation.allocated_bytes()));
  std::vector<std::string> notes = explanation.places().notes();
  if (reader.dropped_events() > 0) {
    notes.push_back(fmt::format("The recorder dropped {} calls; the numbers are too small",
                                reader.dropped_events()));
  }
  if (reader.is_cut()) notes.push_back("The recording ends before the program did");
  return html + notes_html(notes);
}

}  // namespace

Page explain_page(const Explanation& explanation, const std::vector<AddressMap>& maps,
                  const std::string& title) {
  const std::vector<Plot> plots = explain_plots(explanation);
  const Drawings drawings = draw(plots, explain_styles());
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
                           "A place is the innermost line of the stack outside the standard "
                           "library. Open one to see who called it for most of what it holds "
                           "at the peak; choose a column's title to sort by it.",
                           places_table(explanation, order)});
  page.sections.push_back({"lives", "How long objects live, by place",
                           "The places that hold the most at the peak. Each row has its own "
                           "scale: the strongest colour is the place's most common time to live.",
                           life_map(explanation, order)});
  page.sections.push_back({"sizes-lives", "Size against life",
                           "Objects by size, in powers of two, and time to live. The stronger the "
                           "colour, the more objects, on a logarithmic scale.",
                           size_life_map(explanation)});
  if (explanation.history().reader().thread_count() > 1) {
    page.sections.push_back({"threads", "Who frees whose objects",
                             "Rows are the threads that allocated, columns those that freed.",
                             thread_map(explanation)});
  }
  if (!maps.empty()) {
    page.sections.push_back({"pages", "Where live objects lie at the peak",
                             "The calls up to the peak, replayed under each allocator. A page that "
                             "holds a live object cannot go back to the system.",
                             address_maps(maps)});
  }
  return page;
}

}  // namespace strata::cli
