#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>

namespace strata::os {

// In place of substr() and starts_with(): their exceptions are in the C++ library, which programs
// in C do not have, and without optimisation the call stays.

constexpr std::string_view start_of(std::string_view text, std::size_t bytes) noexcept {
  return {text.data(), std::min(bytes, text.size())};
}

constexpr bool begins_with(std::string_view text, std::string_view start) noexcept {
  return start_of(text, start.size()) == start;
}

/// Takes the part of `text` up to the separator, and the separator.
inline std::string_view take_part(std::string_view& text, char separator) noexcept {
  const std::string_view part = start_of(text, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

/// Whether the whole text is a number that fits.
template <typename Number>
bool is_number(std::string_view text, Number& value, int base = 10) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace strata::os
