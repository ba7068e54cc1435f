#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// \file  Text for people, by characters of UTF-8.

namespace strata::cli {

/// Characters on the screen: code points of UTF-8, not bytes.
std::size_t display_width(std::string_view text);

/// The first or last bytes of UTF-8 text, at most so many, never half a character.
std::string_view head_of(std::string_view text, std::size_t bytes);
std::string_view tail_of(std::string_view text, std::size_t bytes);

/// Text of others for one line of a terminal: a space for a tab, "?" for other control characters.
std::string printable(const std::string& text);
/// A block of it, each line behind the indent and with its end.
std::string printable_lines(std::string_view block, std::string_view indent);

/// Lines of whole words, of at most `width` characters where the words allow it.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// "1 thread", "12 threads"
template <typename Count>
std::string counted(Count count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

/// With each `from` as `to`.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

/// The command as a person would type it again: quoted where the shell needs it.
std::string shell_quoted(const std::vector<std::string>& command);

/// Adds to "a, b".
void append_item(std::string& list, std::string_view item, std::string_view separator = ", ");

}  // namespace strata::cli
