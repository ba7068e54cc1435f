#pragma once

#include <string>
#include <string_view>

namespace strata {

/// Returns the text as a CSV field, quoted where RFC 4180 requires it.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

}  // namespace strata
