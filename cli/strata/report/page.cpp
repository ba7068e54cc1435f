#include "report/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "report/html.h"
#include "report/page_assets.h"
#include "report/palette.h"

namespace strata::cli {
namespace {

/// Makes the browser refuse to fetch anything, whatever a result file contains.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

std::string styles() {
  // Paper is white, whatever the screen's theme.
  return fmt::format(
      ":root{{color-scheme:light dark;{0}}}\n"
      "@media screen and (prefers-color-scheme:dark){{:root{{{1}}}}}\n{2}",
      css_variables(kLightPalette), css_variables(kDarkPalette), kPageStyle);
}

/// Replaces what is not valid UTF-8, as in a command or a file name, by U+FFFD.
std::string as_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace));
}

/// A series' mark in its colour, as in plots.
std::string swatch(const SeriesStyle& style) {
  static constexpr const char* kFilled[] = {"gpPt6",  "gpPt4",  "gpPt8",
                                            "gpPt12", "gpPt10", "gpPt14"};
  static constexpr const char* kHollow[] = {"gpPt5", "gpPt3", "gpPt7", "gpPt11", "gpPt9", "gpPt13"};
  return fmt::format(
      "<svg viewBox=\"0 0 14 14\" aria-hidden=\"true\"><use href=\"#{}\" fill=\"none\" "
      "transform=\"translate(7,7) scale(4.2)\" style=\"color:var(--s{})\"/></svg>",
      (style.label == 0 ? kFilled : kHollow)[style.shape], style.colour);
}

std::string legend_html(const std::vector<Series>& legend) {
  if (legend.empty()) return {};
  std::string html = "<nav class=\"legend\" aria-label=\"Contenders: choose one to see it alone\">";
  for (std::size_t i = 0; i < legend.size(); ++i) {
    html += fmt::format(
        "<button type=\"button\" data-series=\"{}\" aria-pressed=\"false\">{}{}"
        "</button>",
        i, swatch(legend[i].style), html_escaped(legend[i].name));
  }
  return html + "</nav>";
}

std::string contents_html(const std::vector<Section>& sections) {
  if (sections.size() < 3) return {};
  std::string html = "<nav class=\"contents\" aria-label=\"Contents\"><ul>";
  for (const Section& section : sections) {
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>", section.id, html_escaped(section.title));
  }
  return html + "</ul></nav>";
}

}  // namespace

std::string figure(const Plot& plot, const std::string& svg) {
  return fmt::format("<figure><figcaption><b>{}</b><span>{}</span></figcaption>{}</figure>\n",
                     html_escaped(plot.title), html_escaped(plot.note), svg);
}

std::string Page::to_html() const {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n",
      kPolicy, html_escaped(title), styles() + style);
  html += fmt::format("<body>\n{}\n<header><h1>{}</h1>\n{}\n{}</header>\n{}\n<main>\n", shapes,
                      html_escaped(title), lead, contents_html(sections), legend_html(legend));
  for (const Section& section : sections) {
    std::string subtitle = section.subtitle.empty() ? std::string()
                                                    : fmt::format("<p class=\"about\">{}</p>",
                                                                  html_escaped(section.subtitle));
    html += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}\n{}</section>\n", section.id,
                        html_escaped(section.title), subtitle, section.html);
  }
  return as_utf8(html + fmt::format("</main>\n<script>\n{}{}</script>\n</body>\n</html>\n",
                                    kPageScript, script));
}

}  // namespace strata::cli
