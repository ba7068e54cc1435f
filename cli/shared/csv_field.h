#pragma once

#include <string>
#include <string_view>

namespace strata {

/// The text as a field of CSV: quoted where RFC 4180 wants it.
inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string field = "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
}

}  // namespace strata
