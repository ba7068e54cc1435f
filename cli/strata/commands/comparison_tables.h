#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/results.h"

namespace strata::cli {

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
