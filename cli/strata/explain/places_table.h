#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "explain/explanation.h"

namespace strata::cli {

/// The page's table of the places in `order`: sortable by column, searchable by function, line or
/// caller.
std::string places_table(const Explanation& explanation, const std::vector<std::size_t>& order);

}  // namespace strata::cli
