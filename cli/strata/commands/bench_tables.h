#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "bench/catalogue.h"
#include "bench/matrix.h"
#include "measure/results.h"

/// \file  What `strata bench` prints for people.

namespace strata::cli {

/// A table for each cell: the metrics that its scenario shows, with ratios to the first contender
/// and the interval of the first of them, and latencies.
void print_bench(const BenchPlan& plan, const Results& results,
                 const std::vector<std::string>& notes, std::FILE* stream);

/// All scenarios and contenders with a line each; of named scenarios, their options.
void print_catalogue(const Catalogue& catalogue,
                     const std::vector<const cell::Scenario*>& scenarios, std::FILE* stream);

}  // namespace strata::cli
