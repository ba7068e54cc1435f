#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

/// \file  Functions that take text apart, and that put it into a file.

namespace strata {

/// Removes the next word and its separator from `text` and returns the word.
inline std::string_view take_word(std::string_view& text, char separator = ' ') {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

/// Parses all of `text` as a finite number, or returns nothing. Accepts no leading + and no spaces;
/// independent of the locale (from_chars).
/// \param base  of a whole number; 10 without it
template <typename Number, std::same_as<int>... Base>
std::optional<Number> parse_number(std::string_view text, Base... base) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

/// Returns the text as a CSV field, quoted where RFC 4180 requires it.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

}  // namespace strata
