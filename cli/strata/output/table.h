#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

/// How a piece of text is shown on a terminal; nothing of it is seen in a pipe.
enum class Style { kPlain, kBold, kDim, kGood, kBad };

/// Whether this stream is a terminal that understands escape sequences, which TERM=dumb denies.
bool understands_escapes(std::FILE* stream);

/// Whether such a terminal wants colours: NO_COLOR is respected.
bool wants_colour(std::FILE* stream);

/// How many characters a line of this stream has room for; nothing if it is no terminal.
std::optional<std::size_t> terminal_columns(std::FILE* stream);

/// The text with the style's escape sequences around it, or as it is.
std::string styled(std::string_view text, Style style, bool colour);

/// Columns of text lined up under their titles: the first to the left, numbers to the right. A row
/// may end in a remark that is as long as it likes.
class Table {
 public:
  struct Column {
    std::string title;
    bool is_number = true;
  };
  explicit Table(std::vector<Column> columns);

  /// Missing fields are empty, and each is made printable(). `remark` stands after the last column.
  void add_row(std::vector<std::string> fields, Style style = Style::kPlain,
               std::string remark = {}, Style remark_style = Style::kPlain);

  /// A row of its name and a remark that starts in the second column, as for a failure.
  void add_remark(std::string name, std::string remark, Style remark_style);

  /// All lines, titles first, none with spaces at its end. What does not fit into `width` goes, the
  /// last column first, and a line says so: wrapped lines are no table. Remarks take several lines.
  std::string to_text(bool colour, std::optional<std::size_t> width = {}) const;

 private:
  struct Line {
    std::vector<std::string> fields;
    Style style;
    std::string remark;
    Style remark_style;
  };
  std::vector<Column> columns_;
  std::vector<Line> lines_;
};

}  // namespace strata::cli
