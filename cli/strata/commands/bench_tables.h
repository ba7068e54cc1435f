#pragma once

#include <cstdio>

#include "bench/matrix.h"
#include "bench/run_cells.h"
#include "measure/results.h"

/// \file  What `strata bench` measured, in tables for people.

namespace strata::cli {

/// Prints a table per cell: the scenario's main metrics, ratios to the first contender with the
/// interval for the first metric, and latencies.
/// \param outcome  of the plan; its rows have been moved into the results
void print_bench(const BenchPlan& plan, const Results& results, const BenchOutcome& outcome,
                 std::FILE* stream);

}  // namespace strata::cli
