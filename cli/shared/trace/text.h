#pragma once

#include <string_view>
#include <vector>

#include "shared/trace/reader.h"

/// \file  The lines of a trace's blocks of text. What a parser does not understand it refuses with
/// false.

namespace strata::trace {

bool parse_property(std::string_view line, Properties& out);
bool parse_thread(std::string_view line, std::vector<Thread>& out);
bool parse_module(std::string_view line, std::vector<Module>& out);

}  // namespace strata::trace
