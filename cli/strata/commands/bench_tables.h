#pragma once

#include <cstdio>
#include <vector>

#include "bench/catalogue.h"
#include "bench/matrix.h"
#include "bench/run_cells.h"
#include "measure/results.h"

/// \file  What `strata bench` prints for people.

namespace strata::cli {

/// A table for each cell: the metrics that its scenario shows, with ratios to the first contender
/// and the interval of the first of them, and latencies.
/// \param outcome  of the plan; its rows are those of the results
void print_bench(const BenchPlan& plan, const Results& results, const BenchOutcome& outcome,
                 std::FILE* stream);

/// All scenarios and contenders with a line each; of named scenarios, their options.
void print_catalogue(const Catalogue& catalogue,
                     const std::vector<const cell::Scenario*>& scenarios, std::FILE* stream);

}  // namespace strata::cli
