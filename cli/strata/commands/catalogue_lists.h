#pragma once

#include <vector>

#include "bench/catalogue.h"

/// \file  What `strata bench list` prints.

namespace strata::cli {

/// Prints the scenarios with their options.
void print_scenarios(const std::vector<const cell::Scenario*>& scenarios);
/// Prints all scenarios and contenders, a line each.
void print_catalogue(const Catalogue& catalogue);

}  // namespace strata::cli
