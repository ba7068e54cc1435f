#pragma once

#include <string_view>
#include <vector>

#include "shared/trace/reader.h"

/// \file  Parsers for the lines of a trace's text blocks. They return false for a malformed line.

namespace strata::trace {

bool parse_property(std::string_view line, Properties& out);
bool parse_thread(std::string_view line, std::vector<Thread>& out);
bool parse_module(std::string_view line, std::vector<Module>& out);

}  // namespace strata::trace
