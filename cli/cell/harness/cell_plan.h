#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario.h"

namespace strata::cell {

/// What one process of the matrix is to do, as its command line says.
struct CellPlan {
  const Scenario* scenario = nullptr;
  std::string contender;  ///< empty: the malloc of the process
  int threads = 1;
  double seconds = 0;
  std::uint64_t ops = 0;
  int warmup = 0;
  std::uint64_t seed = 1;
  double sample_rate = 0;
  std::map<std::string, std::string> options;  ///< every option of the scenario
  int board_fd = -1;                           ///< -1: not watched, nothing rests
  int report_fd = 1;
};

/// \errors  std::invalid_argument with a sentence: `strata` asks for nothing wrong, a person might.
CellPlan parse_cell_plan(const std::vector<std::string>& words);

}  // namespace strata::cell
