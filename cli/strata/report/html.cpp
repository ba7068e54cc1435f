#include "report/html.h"

#include <fmt/format.h>

#include "output/text.h"

namespace strata::cli {

std::string html_escaped(std::string_view text) {
  std::string escaped = replaced(text, "&", "&amp;");
  escaped = replaced(escaped, "<", "&lt;");
  escaped = replaced(escaped, ">", "&gt;");
  escaped = replaced(escaped, "\"", "&quot;");
  return replaced(escaped, "'", "&#39;");
}

std::string line_html(const Line& line) {
  const std::string place = line.place(true);
  return html_escaped(line.function) +
         (place.empty() ? "" : fmt::format(" <small>{}</small>", html_escaped(place)));
}

std::string notes_html(const std::vector<std::string>& notes) {
  std::string html;
  for (const std::string& note : notes) {
    html += fmt::format("<p><b>Note:</b> {}.</p>\n", html_escaped(note));
  }
  return html;
}

std::string table_start(std::string_view table_classes, std::string_view box_classes) {
  return fmt::format("<div class=\"{}\" tabindex=\"0\"><table class=\"{}\"><thead><tr>",
                     box_classes, table_classes);
}

std::string column_head(std::string_view title, bool is_number, std::string_view meaning) {
  return fmt::format("<th{} scope=\"col\"><button type=\"button\"{}>{}</button></th>",
                     is_number ? " class=\"n\"" : "",
                     meaning.empty() ? "" : fmt::format(" title=\"{}\"", html_escaped(meaning)),
                     html_escaped(title));
}

std::string number_field(double value, const std::string& text, bool is_best,
                         const std::string& small) {
  std::string more = small.empty() ? "" : fmt::format(" <small>{}</small>", html_escaped(small));
  return fmt::format("<td data-v=\"{:.9g}\"{}>{}{}</td>", value, is_best ? " class=\"best\"" : "",
                     html_escaped(text), more);
}

std::string text_field(std::string_view text) {
  return fmt::format("<td class=\"t\">{}</td>", html_escaped(text));
}

}  // namespace strata::cli
