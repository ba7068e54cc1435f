#pragma once

#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "shared/trace/reader.h"

/// \file  The lines of a trace's blocks of text. What a parser does not understand it refuses with
/// false.

namespace strata::trace {

template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

/// The whole of `text` in this base.
template <typename Number>
bool parse_number(std::string_view text, int base, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_property(std::string_view line, Properties& out);
bool parse_thread(std::string_view line, std::vector<Thread>& out);
bool parse_module(std::string_view line, std::vector<Module>& out);

}  // namespace strata::trace
