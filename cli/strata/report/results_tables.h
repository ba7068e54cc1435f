#pragma once

#include <string>

#include "report/cells.h"

namespace strata::cli {

/// A line per row of the results, sortable by column: speed and memory, ratios with intervals,
/// latencies, and reasons of failures.
std::string results_table(const Arrangement& all);

/// All metrics of a cell: a line per metric, a column per contender.
std::string cell_table(const Arrangement& all, const Cell& cell);

/// The contenders that failed in the cell, with reason and last output; empty if none did.
std::string failure_list(const Arrangement& all, const Cell& cell);

/// The speedup of several threads over one, for the same contender and load: a line per load and
/// number of threads, a column per contender, and the geometric means over the loads. Empty if no
/// sweep of the scenario is over threads.
std::string speedup_table(const Arrangement& all, const std::string& scenario);

/// The machines and versions behind the numbers.
std::string machine_html(const Arrangement& all);

}  // namespace strata::cli
