#pragma once

#include <string_view>

namespace strata::cli {

/// Whether a metric ranks, and which way; its name tells (docs/results.md).
enum class Better {
  kLess,
  kMore,     ///< rates and shares: _per_s, _share
  kNeither,  ///< how much was done is no measure of how well: it has no ratio and no winner
};
Better better(std::string_view metric);

}  // namespace strata::cli
