#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/results.h"

namespace strata::cli {

/// The rows of one comparison as a table for people: medians, ratios to `system` (or, without it,
/// to the first row), the fastest and the leanest marked, failures with their reason in their row;
/// as many columns as fit into `width`.
std::string comparison_table(const std::vector<Row>& rows, bool colour,
                             std::optional<std::size_t> width = {});

/// What the table alone would let a reader overlook, a line each: how to read it, a lead that lies
/// within the noise, what failed commands said last.
std::string comparison_notes(const std::vector<Row>& rows, bool colour);

/// The row that ratios refer to; nullptr if it failed.
const Row* baseline_of(const std::vector<Row>& rows);

}  // namespace strata::cli
