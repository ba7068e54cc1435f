#pragma once

#include <cstdio>

#include "bench/matrix.h"
#include "bench/run_cells.h"
#include "measure/results.h"

/// \file  What `strata bench` prints for people.

namespace strata::cli {

/// Prints a table per cell: the scenario's main metrics, ratios to the first contender with the
/// interval for the first metric, and latencies.
/// \param outcome  of the plan; its rows have been moved into the results
void print_bench(const BenchPlan& plan, const Results& results, const BenchOutcome& outcome,
                 std::FILE* stream);

/// What `strata bench list` prints: the scenarios with their options.
void print_scenarios(const std::vector<const cell::Scenario*>& scenarios);
/// Prints all scenarios and contenders, a line each.
void print_catalogue(const Catalogue& catalogue);

}  // namespace strata::cli
