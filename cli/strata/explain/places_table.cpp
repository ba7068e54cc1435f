#include <fmt/format.h>

#include <algorithm>

#include "explain/explain_page.h"
#include "explain/explain_text.h"
#include "output/units.h"
#include "report/html.h"

namespace strata::cli {
namespace {

// Chosen: what a browser sorts without delay.
constexpr std::size_t kMostRows = 2000;

struct Column {
  const char* title;
  const char* meaning;
};

constexpr Column kColumns[] = {
    {"At the peak", "Bytes that were live when the program's live bytes were at their peak"},
    {"Objects at the peak", "Objects that were live then"},
    {"Allocated", "Bytes of all objects from here"},
    {"Calls", "Objects from here"},
    {"Mean size", "Bytes of an object, on average"},
    {"Own peak", "The most bytes from here that were live at once, whenever that was"},
    {"Never freed", "Bytes that were live at the end of the recording"},
    {"Temporary", "Objects that were freed before their thread allocated again"},
    {"Freed by others", "Objects that a thread freed which did not allocate them"},
    {"Resized",
     "Objects that a larger one from here took the place of: by realloc, or step by step"},
};

std::string headings() {
  std::string html = column_head("Where", false, "The function and its line");
  for (const Column& column : kColumns) html += column_head(column.title, true, column.meaning);
  return html;
}

/// The place's name; expands to its callers.
std::string name_cell(const PlaceName& name) {
  const std::string key = html_escaped(name.line.short_text());
  if (name.callers.empty()) {
    return fmt::format("<th scope=\"row\" data-v=\"{}\">{}</th>", key, line_html(name.line));
  }
  std::string html = fmt::format("<th scope=\"row\" data-v=\"{}\"><details><summary>{}</summary>",
                                 key, line_html(name.line));
  for (const PlaceName::Callers& callers : name.callers) {
    html += fmt::format("<p>{:.0f}% of it</p><ol>", 100 * callers.share);
    for (const Line& caller : callers.lines) html += fmt::format("<li>{}</li>", line_html(caller));
    html += "</ol>";
  }
  return html + "</details></th>";
}

/// Has a bar; for `most` it is as wide as the cell.
std::string bar_cell(std::uint64_t value, std::uint64_t most) {
  return fmt::format("<td class=\"bar\" data-v=\"{}\" style=\"--share:{:.1f}%\">{}</td>", value,
                     100 * share_of(value, most), bytes_text(value));
}

std::string cell(std::uint64_t value, std::string (*text)(std::uint64_t)) {
  return value == 0 ? "<td class=\"zero\" data-v=\"0\">0</td>"
                    : fmt::format("<td data-v=\"{}\">{}</td>", value, text(value));
}

}  // namespace

std::string places_table(const Explanation& explanation, const std::vector<std::size_t>& order) {
  std::string html =
      "<p class=\"filter\" hidden><input type=\"search\" placeholder=\"Search functions, lines, "
      "callers\" aria-label=\"Search places\"> <output></output></p>\n" +
      table_start("sortable places", "scroll tall") + headings() + kTableBody;
  for (std::size_t i = 0; i < std::min(order.size(), kMostRows); ++i) {
    const PlaceSums& place = explanation.sums()[order[i]];
    html += "<tr>" + name_cell(explanation.places().names()[order[i]]);
    html += bar_cell(place.at_peak_bytes, explanation.sums()[order.front()].at_peak_bytes);
    html += cell(place.at_peak, count_text);
    html += cell(place.bytes, bytes_text);
    html += cell(place.births, count_text);
    html += cell(static_cast<std::uint64_t>(place.mean_bytes()), bytes_text);
    html += cell(place.peak_live_bytes, bytes_text);
    html += cell(place.live_bytes, bytes_text);
    html += cell(place.temporaries, count_text);
    html += cell(place.foreign_deaths, count_text);
    html += cell(place.grown, count_text);
    html += "</tr>\n";
  }
  html += kTableEnd;
  if (order.size() > kMostRows) {
    html +=
        fmt::format("<p class=\"about\">{} places that hold less at the peak are left out.</p>\n",
                    order.size() - kMostRows);
  }
  return html;
}

}  // namespace strata::cli
