#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "explain/explanation.h"

namespace strata::cli {

/// The table of a page with every place of `order`: sorted by a click on a column's title, searched
/// by function, line or caller.
std::string places_table(const Explanation& explanation, const std::vector<std::size_t>& order);

}  // namespace strata::cli
