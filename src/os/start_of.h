#pragma once

#include <algorithm>
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

}  // namespace strata::os
