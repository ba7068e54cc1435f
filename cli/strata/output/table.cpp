#include "output/table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

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

std::string Table::to_text(bool colour, std::optional<std::size_t> width) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t widest = display_width(columns_[i].title);
    for (const Line& line : lines_) {
      if (i < line.fields.size()) widest = std::max(widest, display_width(line.fields[i]));
    }
    widths.push_back(widest);
  }
  if (!width) widths[0] = std::min(widths[0], kWidestName);
  std::size_t shown = columns_.size();
  std::size_t needed = kGap * (shown - 1);
  for (std::size_t column : widths) needed += column;
  if (width && needed > *width) {
    const std::size_t cut = std::min(widths[0], std::max(*width / 2, kNarrowestName));
    needed -= widths[0] - cut;
    widths[0] = cut;
  }
  for (; width && needed > *width && shown > kFewestColumns; --shown) {
    needed -= kGap + widths[shown - 1];
  }
  auto joined = [&](auto cell_at, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) text.append(kGap, ' ');
      const std::string& cell = cell_at(i);
      const bool is_cut = width && i == 0 && display_width(cell) > widths[0];
      text += padded(is_cut ? shortened(cell, widths[0]) : cell, widths[i], columns_[i].is_number);
    }
    return text;
  };
  std::string titles =
      joined([&](std::size_t i) -> const std::string& { return columns_[i].title; }, shown);
  std::string text = styled(without_trailing_spaces(titles), Style::kDim, colour) + "\n";
  for (const Line& line : lines_) {
    std::string fields = joined([&](std::size_t i) -> const std::string& { return line.fields[i]; },
                                std::min(shown, line.fields.size()));
    if (line.remark.empty()) {
      text += styled(without_trailing_spaces(fields), line.style, colour) + "\n";
      continue;
    }
    const std::size_t room = width ? std::max(*width, kNarrowestRemark) : std::string::npos;
    const std::size_t beside = display_width(fields) + kGap;
    if (beside + display_width(line.remark) <= room) {
      text += styled(fields, line.style, colour) + std::string(kGap, ' ');
      text += styled(line.remark, line.remark_style, colour) + "\n";
      continue;
    }
    const bool is_below = beside + kNarrowestRemark > room;
    const std::string indent(is_below ? kIndent : beside, ' ');
    text += is_below ? styled(without_trailing_spaces(fields), line.style, colour) + "\n" + indent
                     : styled(fields, line.style, colour) + std::string(kGap, ' ');
    std::string next;
    for (const std::string& part : wrapped(line.remark, room - indent.size())) {
      text += next + styled(part, line.remark_style, colour) + "\n";
      next = indent;
    }
  }
  if (shown < columns_.size()) {
    std::string note = fmt::format("({} more in a wider terminal)", columns_.size() - shown);
    text += styled(note, Style::kDim, colour) + "\n";
  }
  return with_plain_spaces(text);
}

}  // namespace strata::cli
