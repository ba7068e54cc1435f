#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/matrix.h"
#include "bench/run_cells.h"
#include "measure/results.h"

/// \file  What `strata bench` and `strata compare` print for people.

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

/// The rows of a comparison as a table: medians, ratios to `system` (or, without it, to the first
/// row), marks for the fastest and the leanest, reasons of failures. Omits columns that exceed
/// `width`.
std::string comparison_table(const std::vector<Row>& rows, bool colour,
                             std::optional<std::size_t> width = {});

/// Notes for readers of the table, a line each: how to read it, a lead within the noise, the last
/// output of failed commands.
std::string comparison_notes(const std::vector<Row>& rows, bool colour);

/// The row that the ratios refer to; nullptr if it failed.
const Row* baseline_of(const std::vector<Row>& rows);

}  // namespace strata::cli
