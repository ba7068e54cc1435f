#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// The look of text on a terminal; ignored in a pipe.
enum class Style { kPlain, kBold, kDim, kGood, kBad };

/// Whether the stream is a terminal that understands escape sequences (TERM is not "dumb").
bool understands_escapes(std::FILE* stream);

/// Whether to use colours on it; respects NO_COLOR.
bool wants_colour(std::FILE* stream);

/// The terminal's width in characters; nothing if the stream is not a terminal.
std::optional<std::size_t> terminal_columns(std::FILE* stream);

/// Returns the text within the style's escape sequences, or unchanged.
std::string styled(std::string_view text, Style style, bool colour);

/// A text table. The first column is left-aligned, numbers are right-aligned. A row may end in a
/// remark of any length.
class Table {
 public:
  struct Column {
    std::string title;
    bool is_number = true;
  };
  explicit Table(std::vector<Column> columns);

  /// Missing fields are empty; each field is made printable(). `remark` follows the last column.
  void add_row(std::vector<std::string> fields, Style style = Style::kPlain,
               std::string remark = {}, Style remark_style = Style::kPlain);

  /// Adds a row with a name and a remark from the second column on, as for a failure.
  void add_remark(std::string name, std::string remark, Style remark_style);

  /// Returns all lines, headings first, without trailing spaces. If they do not fit into `width`,
  /// cuts the middle out of names that take more than half of it, then omits the last columns, and
  /// a line says so. Remarks wrap instead. Without a width nothing is cut; a very long name moves
  /// the rest of its own row only. No-break spaces become spaces.
  std::string to_text(bool colour, std::optional<std::size_t> width = {}) const;

 private:
  struct Line {
    std::vector<std::string> fields;
    Style style;
    std::string remark;
    Style remark_style;
  };
  struct Layout {
    std::vector<std::size_t> widths;       ///< of the columns that are shown
    bool cuts_names = false;               ///< those that are wider than the first column
    std::size_t room = std::string::npos;  ///< for a row and a remark beside it
  };

  Layout lay_out(std::optional<std::size_t> width) const;
  std::string fields_text(const std::vector<std::string>& fields, const Layout& layout) const;
  std::string line_text(const Line& line, const Layout& layout, bool colour) const;

  std::vector<Column> columns_;
  std::vector<Line> lines_;
};

}  // namespace strata::cli
