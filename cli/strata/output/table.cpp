#include "output/table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "output/text.h"

namespace strata::cli {
namespace {

constexpr std::size_t kGap = 2;
/// A name and a number.
constexpr std::size_t kFewestColumns = 2;
/// Names are not cut below it.
constexpr std::size_t kNarrowestName = 12;
/// Without a width no name is cut, but one beyond this moves only its own row: the name of a C++
/// function may take two thousand characters.
constexpr std::size_t kWidestName = 60;
/// Minimum width of a remark beside its row; with less room it goes below.
constexpr std::size_t kNarrowestRemark = 30;
constexpr std::size_t kIndent = 4;

/// By style.
constexpr const char* kEscapes[] = {"", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};

std::string padded(std::string_view text, std::size_t width, bool to_the_right) {
  std::size_t used = display_width(text);
  std::string spaces(width > used ? width - used : 0, ' ');
  return to_the_right ? spaces + std::string(text) : std::string(text) + spaces;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

bool understands_escapes(std::FILE* stream) {
  const char* terminal = std::getenv("TERM");
  if (terminal != nullptr && std::string_view(terminal) == "dumb") return false;
  return ::isatty(::fileno(stream)) == 1;
}

bool wants_colour(std::FILE* stream) {
  const char* refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  return understands_escapes(stream);
}

std::optional<std::size_t> terminal_columns(std::FILE* stream) {
  winsize size{};
  if (::ioctl(::fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return size.ws_col;
}

std::string styled(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::kPlain || text.empty()) return std::string(text);
  return fmt::format("{}{}\033[0m", kEscapes[static_cast<int>(style)], text);
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> fields, Style style, std::string remark,
                    Style remark_style) {
  fields.resize(columns_.size());
  for (std::string& field : fields) field = printable(field);
  lines_.push_back({std::move(fields), style, std::move(remark), remark_style});
}

void Table::add_remark(std::string name, std::string remark, Style remark_style) {
  lines_.push_back({{printable(name)}, Style::kPlain, std::move(remark), remark_style});
}

Table::Layout Table::lay_out(std::optional<std::size_t> width) const {
  Layout layout;
  std::vector<std::size_t>& widths = layout.widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = display_width(columns_[i].title);
    for (const Line& line : lines_) {
      if (i < line.fields.size()) widest = std::max(widest, display_width(line.fields[i]));
    }
    widths.push_back(widest);
  }
  if (!width) {
    widths[0] = std::min(widths[0], kWidestName);
    return layout;
  }
  const auto is_too_wide = [&] {
    return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1)) > *width;
  };
  if (is_too_wide()) widths[0] = std::min(widths[0], std::max(*width / 2, kNarrowestName));
  while (is_too_wide() && widths.size() > kFewestColumns) widths.pop_back();
  layout.cuts_names = true;
  layout.room = std::max(*width, kNarrowestRemark);
  return layout;
}

std::string Table::fields_text(const std::vector<std::string>& fields, const Layout& layout) const {
  std::string text;
  for (std::size_t i = 0; i < std::min(fields.size(), layout.widths.size()); ++i) {
    const std::size_t width = layout.widths[i];
    const bool is_cut = i == 0 && layout.cuts_names && display_width(fields[i]) > width;
    if (i > 0) text.append(kGap, ' ');
    text += padded(is_cut ? shortened(fields[i], width) : fields[i], width, columns_[i].is_number);
  }
  return text;
}

std::string Table::line_text(const Line& line, const Layout& layout, bool colour) const {
  const std::string fields = fields_text(line.fields, layout);
  const std::string alone = styled(without_trailing_spaces(fields), line.style, colour) + "\n";
  if (line.remark.empty()) return alone;
  const std::size_t beside = display_width(fields) + kGap;
  const std::size_t needed = std::min(display_width(line.remark), kNarrowestRemark);
  const bool is_below = beside + needed > layout.room;
  const std::string indent(is_below ? kIndent : beside, ' ');
  std::string text =
      is_below ? alone + indent : styled(fields, line.style, colour) + std::string(kGap, ' ');
  std::string next;
  for (const std::string& part : wrapped(line.remark, layout.room - indent.size())) {
    text += next + styled(part, line.remark_style, colour) + "\n";
    next = indent;
  }
  return text;
}

std::string Table::to_text(bool colour, std::optional<std::size_t> width) const {
  const Layout layout = lay_out(width);
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string text = line_text({std::move(titles), Style::kDim, {}, {}}, layout, colour);
  for (const Line& line : lines_) text += line_text(line, layout, colour);
  if (const std::size_t left = columns_.size() - layout.widths.size(); left > 0) {
    text += styled(fmt::format("({} more in a wider terminal)", left), Style::kDim, colour) + "\n";
  }
  return with_plain_spaces(text);
}

}  // namespace strata::cli
