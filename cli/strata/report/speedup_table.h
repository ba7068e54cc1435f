#pragma once

#include <string>

#include "report/cells.h"

namespace strata::cli {

/// The speedup of several threads over one, for the same contender and load: a line per load and
/// number of threads, a column per contender, and the geometric means over the loads. Empty if no
/// sweep of the scenario is over threads.
std::string speedup_table(const Arrangement& all, const std::string& scenario);

}  // namespace strata::cli
