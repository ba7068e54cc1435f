#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// \file  Text for people, in UTF-8 characters.

namespace strata::cli {

/// The number of code points.
std::size_t display_width(std::string_view text);

/// The first or last bytes of UTF-8 text: at most `bytes`, never part of a character.
std::string_view head_of(std::string_view text, std::size_t bytes);
std::string_view tail_of(std::string_view text, std::size_t bytes);

/// Cuts the middle out of a name that exceeds this many bytes.
std::string shortened(const std::string& name, std::size_t most_bytes);

/// Makes foreign text safe for a line of a terminal: a space for a tab, "?" for other control
/// characters.
std::string printable(const std::string& text);
/// The same for a block of lines, each with the indent and a newline.
std::string printable_lines(std::string_view block, std::string_view indent);

/// A space for each no-break space: what a terminal or a pipe gets, so that a search for "1.5 MiB"
/// finds it. Pages keep them.
std::string with_plain_spaces(std::string_view text);

/// Wraps text at words into lines of at most `width` characters, unless a word is longer.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// "1 thread", "12 threads"
template <typename Count>
std::string counted(Count count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

/// Replaces each `from` by `to`.
/// \pre  `from` is not empty
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

/// Formats a command for a shell, quoted where necessary.
std::string shell_quoted(const std::vector<std::string>& command);

/// Appends an item to "a, b".
void append_item(std::string& list, std::string_view item, std::string_view separator = ", ");

}  // namespace strata::cli
