#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

/// \file  Functions that take text apart.

namespace strata {

/// Removes the next word and its separator from `text` and returns the word.
inline std::string_view take_word(std::string_view& text, char separator = ' ') {
  const std::string_view word = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

/// Parses all of `text` as a finite number, or returns nothing. Accepts no leading + and no spaces;
/// independent of the locale (from_chars).
template <typename Number>
std::optional<Number> parse_number(std::string_view text, [[maybe_unused]] int base = 10) {
  Number value{};
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<Number>) {
    result = std::from_chars(text.data(), end, value);
    if (!std::isfinite(value)) return std::nullopt;
  } else {
    result = std::from_chars(text.data(), end, value, base);
  }
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace strata
