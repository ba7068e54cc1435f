#pragma once

#include <string>

#include "report/cells.h"

namespace strata::cli {

/// One line per row of the results, sortable by each column: the metrics that most rows have,
/// ratios with their intervals, latencies, and why a row failed.
std::string results_table(const Arrangement& all);

/// Every metric of one cell, a line each, a column for each contender.
std::string cell_table(const Arrangement& all, const Cell& cell);

/// The throughput of several threads over that of one, of the same contender and load: a line per
/// load and number of threads, a column for each contender, and the geometric means over the loads.
/// Empty if no sweep of the scenario is of threads.
std::string speedup_table(const Arrangement& all, const std::string& scenario);

/// Which contenders failed in the cell, why, and their last output; empty if none did.
std::string failure_list(const Arrangement& all, const Cell& cell);

/// Machines and versions that made the numbers.
std::string machine_html(const Arrangement& all);

}  // namespace strata::cli
