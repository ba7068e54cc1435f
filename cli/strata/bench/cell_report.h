#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/latency.h"

namespace strata::cli {

/// What a cell wrote (harness/report.h tells the lines).
struct CellReport {
  std::vector<std::pair<std::string, double>> metrics;
  std::vector<std::pair<std::string, Latency>> latencies;
  std::uint64_t allocations = 0;
  std::uint64_t failed_allocations = 0;
  std::string broken;  ///< the sentence, if it found corrupted memory
  std::string wrong;   ///< the sentence, if the scenario's sums do not come out
  std::string unfit;   ///< the sentence, if this contender cannot do this
  bool is_whole = false;

  double metric_or(std::string_view name, double fallback) const;
};

/// Takes in what there is; a report that was cut off is not whole.
CellReport parse_cell_report(std::string_view text);

}  // namespace strata::cli
