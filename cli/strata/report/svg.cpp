#include "report/svg.h"

#include <fmt/format.h>

#include "output/text.h"
#include "report/gnuplot_script.h"
#include "report/html.h"

namespace strata::cli {
namespace {

std::string_view between(std::string_view text, std::string_view open, std::string_view close) {
  std::size_t at = text.find(open);
  if (at == std::string_view::npos) return {};
  at += open.size();
  std::size_t end = text.find(close, at);
  return end == std::string_view::npos ? std::string_view{} : text.substr(at, end - at);
}

/// gnuplot writes both "rgb(  1,   4,   2)" and "rgb(1,4,2)".
void name_colour(std::string& text, ColourRole role, int number, const std::string& variable) {
  int green = static_cast<int>(role);
  text = replaced(text, fmt::format("rgb({:3}, {:3}, {:3})", 1, green, number), variable);
  text = replaced(text, fmt::format("rgb({},{},{})", 1, green, number), variable);
}

void name_colours(std::string& text) {
  name_colour(text, ColourRole::kInk, 0, "var(--ink)");
  name_colour(text, ColourRole::kMuted, 0, "var(--muted)");
  name_colour(text, ColourRole::kGrid, 0, "var(--grid)");
  for (int i = 0; i < SeriesStyle::kColours; ++i) {
    name_colour(text, ColourRole::kSeries, i, fmt::format("var(--s{})", i));
    name_colour(text, ColourRole::kText, i, fmt::format("var(--t{})", i));
  }
}

/// Removes empty groups: gnuplot opens a group at every change of pen.
void drop_empty_groups(std::string& text) {
  std::size_t at = 0;
  while ((at = text.find("<g ", at)) != std::string::npos) {
    std::size_t end = text.find('>', at);
    if (end == std::string::npos) return;
    std::size_t next = text.find_first_not_of(" \t\n", end + 1);
    if (next != std::string::npos && text.compare(next, 4, "</g>") == 0) {
      text.erase(at, next + 4 - at);
      at = at >= 3 ? text.rfind('<', at - 1) : 0;  // its parent may now be empty
    } else {
      at = end;
    }
  }
}

/// gnuplot titles its plots by number, from 1, and the first draws nothing. Replaces these titles
/// by our tooltips.
void name_marks(std::string& text, const Plot& plot) {
  text = replaced(text, "\"  fill=\"none\"><title>p_plot_", "\" ><title>p_plot_");  // since 6.0
  for (std::size_t i = 0; i < plot.marks.size(); ++i) {
    const Mark& mark = plot.marks[i];
    std::string open = fmt::format("<g id=\"p_plot_{0}\" ><title>p_plot_{0}</title>", i + 2);
    std::string named = mark.series == kNoSeries
                            ? std::string("<g class=\"m\">")
                            : fmt::format("<g class=\"m\" data-series=\"{}\">", mark.series);
    if (!mark.tip.empty()) named += fmt::format("<title>{}</title>", html_escaped(mark.tip));
    text = replaced(text, open, named);
  }
  text = replaced(text, "<title>p_plot_1</title>", "");  // leaves an empty group
}

}  // namespace

std::string tidy_svg(std::string_view drawing, const Plot& plot) {
  std::size_t end_of_defs = drawing.find("</defs>");
  std::size_t end = drawing.rfind("</svg>");
  if (end_of_defs == std::string_view::npos || end == std::string_view::npos) return {};
  // Ends with the group that contains everything.
  std::string body(drawing.substr(end_of_defs + 7, drawing.rfind("</g>", end) - end_of_defs - 7));
  name_colours(body);
  for (const char* unneeded :
       {" stroke-linecap=\"butt\" stroke-linejoin=\"miter\"", " color=\"black\"",
        " color=\"white\"", " font-family=\"sans-serif\" font-size=\"12.00\" ",
        "<tspan font-family=\"sans-serif\" >", "</tspan>", "<title></title>",
        " shape-rendering='crispEdges'", " xml:space=\"preserve\""}) {
    body = replaced(body, unneeded, "");
  }
  body = replaced(body, "xlink:href", "href");
  name_marks(body, plot);
  drop_empty_groups(body);
  body = replaced(body, "\n\n", "\n");
  return fmt::format(
      "<svg class=\"plot\" id=\"{0}\" viewBox=\"0 0 {1} {2}\" role=\"img\" "
      "aria-label=\"{3}\">{4}</svg>",
      plot.id, Plot::kWidth, plot.height, html_escaped(plot.alt), body);
}

std::string shape_definitions(std::string_view drawing) {
  const std::string shapes = replaced(between(drawing, "<defs>", "<filter"), "xlink:href", "href");
  return fmt::format("<svg class=\"shapes\" aria-hidden=\"true\"><defs>{}</defs></svg>", shapes);
}

}  // namespace strata::cli
