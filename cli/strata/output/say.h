#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "output/text.h"

namespace strata::cli {

/// Prints to standard error. If that is closed or full, the failure is ignored: results and exit
/// status stay the same.
template <typename... Values>
void say(fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = with_plain_spaces(fmt::format(format, std::forward<Values>(values)...));
  [[maybe_unused]] const std::size_t written = std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Prints each note as a warning.
inline void warn_of(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) say("strata: warning: {}\n", printable(note));
}

}  // namespace strata::cli
