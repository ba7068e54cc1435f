#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <utility>

#include "output/units.h"
#include "profile/sites.h"
#include "report/flame_graph.h"
#include "report/html.h"
#include "report/page_assets.h"

namespace strata::cli {
namespace {

// Chosen: what a person scrolls through. `strata profile --top 0` shows all sites.
constexpr std::size_t kMostSites = 100;

struct KindText {
  const char* type;
  const char* title;
};
constexpr KindText kKindTexts[] = {{"inuse_space", "Live bytes"},
                                   {"inuse_objects", "Live objects"},
                                   {"alloc_space", "Allocated bytes"},
                                   {"alloc_objects", "Allocated objects"}};

std::string kind_title(const std::string& type) {
  for (const KindText& text : kKindTexts) {
    if (type == text.type) return text.title;
  }
  return type;
}

/// Orders the kinds as people ask for them: live memory first.
std::vector<std::size_t> reading_order(const Profile& profile) {
  std::vector<std::size_t> order;
  for (const KindText& text : kKindTexts) {
    const std::size_t kind = profile.find_kind(text.type);
    if (kind != Profile::kNone) order.push_back(kind);
  }
  for (std::size_t i = 0; i < profile.kinds.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  return order;
}

std::string lead(const Profile& profile, const std::vector<std::string>& notes) {
  std::string html = "<p class=\"lead\">";
  if (profile.time_ns > 0) {
    html += fmt::format("Started {:%Y-%m-%d %H:%M:%S} UTC",
                        fmt::gmtime(static_cast<std::time_t>(profile.time_ns / 1'000'000'000)));
    if (profile.duration_ns > 0) {
      html +=
          fmt::format(", watched for {:.1f} s", static_cast<double>(profile.duration_ns) * 1e-9);
    }
    html += ". ";
  }
  html += profile.period <= 1 ? "Every allocation is counted.</p>\n"
                              : fmt::format("Estimated from samples, one per {} on average.</p>\n",
                                            bytes_text(static_cast<std::uint64_t>(profile.period)));
  return html + notes_html(notes);
}

std::string switches(const Profile& profile, const FlameGraph& graph) {
  std::string html =
      "<div class=\"flame-tools\" hidden>\n<div role=\"group\" aria-label=\"What is "
      "counted\">";
  for (std::size_t i : reading_order(profile)) {
    html +=
        fmt::format("<button type=\"button\" data-kind=\"{}\" aria-pressed=\"{}\">{}</button>", i,
                    i == graph.first_kind(), html_escaped(kind_title(profile.kinds[i].type)));
  }
  return html +
         "</div>\n<input type=\"search\" placeholder=\"Search functions\" "
         "aria-label=\"Search functions\">\n<button type=\"button\" class=\"whole\" "
         "disabled>Show all</button>\n</div>\n";
}

std::string sites_table(const Profile& profile, std::size_t first_kind) {
  struct Row {
    Line line;
    std::vector<std::int64_t> flat;
    std::int64_t cumulative = 0;
  };
  std::map<std::string, Row> rows;
  for (std::size_t kind = 0; kind < profile.kinds.size(); ++kind) {
    for (const SiteSums& site : sum_sites(profile, kind, nullptr, 0)) {
      Row& row = rows[site.line.text()];
      row.line = site.line;
      row.flat.resize(profile.kinds.size());
      row.flat[kind] = site.flat;
      if (kind == first_kind) row.cumulative = site.cumulative;
    }
  }
  std::vector<Row> sorted;
  for (auto& [text, row] : rows) sorted.push_back(std::move(row));
  std::ranges::stable_sort(sorted, std::greater(), [&](const Row& row) {
    return std::pair(row.flat[first_kind], row.cumulative);
  });
  if (sorted.size() > kMostSites) sorted.resize(kMostSites);

  std::vector<std::size_t> order = reading_order(profile);
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t kind) { return kind == first_kind; });
  std::string html = table_start("sortable sites");
  html += column_head("Where", false);
  for (std::size_t kind : order) {
    html += column_head(kind_title(profile.kinds[kind].type));
    if (kind == first_kind) html += column_head("with callees");
  }
  html += kTableBody;
  const auto field = [&](std::int64_t value, std::size_t kind) {
    return fmt::format("<td data-v=\"{}\">{}</td>", value, amount(value, profile.kinds[kind].unit));
  };
  for (const Row& row : sorted) {
    html += fmt::format("<tr><th scope=\"row\" title=\"{}\">{}</th>", html_escaped(row.line.text()),
                        line_html(row.line));
    for (std::size_t kind : order) {
      html += field(row.flat[kind], kind);
      if (kind == first_kind) html += field(row.cumulative, kind);
    }
    html += "</tr>\n";
  }
  return html + kTableEnd;
}

}  // namespace

Page flame_page(const Profile& profile, const std::string& title,
                const std::vector<std::string>& notes) {
  const FlameGraph graph(profile);
  Page page;
  page.title = !title.empty() ? title : "Heap of " + graph.frames().front().line.function;
  page.lead = lead(profile, notes);
  page.style = kFlameStyle;
  page.script = kFlameScript;
  const Profile::Kind& kind = profile.kinds[graph.first_kind()];
  page.sections.push_back(
      {"flames", "Call stacks",
       "A box is a call: its width is what was allocated in it and in what it called, below it. "
       "Colours tell modules apart.",
       fmt::format("{}<p class=\"shown\">{}: {} in all.</p>\n{}<script type=\"application/json\" "
                   "id=\"flame-data\">{}</script>\n",
                   switches(profile, graph), html_escaped(kind_title(kind.type)),
                   amount(graph.nodes().front().values[graph.first_kind()], kind.unit),
                   graph.to_html(), graph.to_json())});
  page.sections.push_back({"sites", "Places that allocate",
                           "Library code (std::, operator new) counts for the line that called "
                           "it. Select a column title to sort by it.",
                           sites_table(profile, graph.first_kind())});
  return page;
}

}  // namespace strata::cli
