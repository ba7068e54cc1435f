#include "output/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace strata::cli {
namespace {

/// Whether a byte continues a UTF-8 character.
bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// For the shell.
bool needs_no_quotes(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_continuation));
}

std::string_view head_of(std::string_view text, std::size_t bytes) {
  if (bytes >= text.size()) return text;
  while (bytes > 0 && is_continuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string_view tail_of(std::string_view text, std::size_t bytes) {
  std::size_t at = text.size() - std::min(bytes, text.size());
  while (at < text.size() && is_continuation(text[at])) ++at;
  return text.substr(at);
}

std::string shortened(const std::string& name, std::size_t most_bytes) {
  if (name.size() <= most_bytes) return name;
  const std::size_t head = most_bytes * 2 / 5;
  return fmt::format("{}…{}", head_of(name, head), tail_of(name, most_bytes - head - 1));
}

std::string printable(const std::string& text) {
  const auto byte = [&](std::size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // U+0080 to U+009F: some terminals treat them like ESC sequences.
    const bool is_c1 = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) <= 0x9f;
    const bool is_control = is_c1 || byte(i) < 0x20 || byte(i) == 0x7f;
    if (is_c1) ++i;
    result += text[i] == '\t' ? ' ' : is_control ? '?' : text[i];
  }
  return result;
}

std::string printable_lines(std::string_view block, std::string_view indent) {
  std::string text;
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    text += fmt::format("{}{}\n", indent, printable(std::string(block.substr(0, end))));
    block.remove_prefix(std::min(end + 1, block.size()));
  }
  return text;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!lines.empty() && display_width(lines.back()) + 1 + display_width(word) <= width) {
      lines.back().append(" ").append(word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at; (at = text.find(from)) != std::string_view::npos;) {
    result.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return result.append(text);
}

std::string with_plain_spaces(std::string_view text) { return replaced(text, "\u00a0", " "); }

std::string shell_quoted(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    const bool is_plain = !word.empty() && std::ranges::all_of(word, needs_no_quotes);
    append_item(line, is_plain ? word : fmt::format("'{}'", replaced(word, "'", "'\\''")), " ");
  }
  return line;
}

void append_item(std::string& list, std::string_view item, std::string_view separator) {
  if (!list.empty()) list += separator;
  list += item;
}

}  // namespace strata::cli
