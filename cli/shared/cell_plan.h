#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/scenario.h"

namespace strata::cell {

/// What one process of the matrix is to do: `strata` writes it as words of a command line, which
/// strata-cell reads.
struct CellPlan {
  std::string scenario;
  std::string contender;  ///< empty: the malloc of the process
  int threads = 1;
  double seconds = 0;     ///< when the load ends; 0: never, `ops` decides
  std::uint64_t ops = 0;  ///< of all threads, after which it ends; 0: none, `seconds` decides
  int warmup = 0;         ///< batches of each thread that are run and not counted
  std::uint64_t seed = 1;
  double sample_rate = 0;  ///< the share of the operations that is timed one by one
  int board_fd = -1;       ///< -1: not watched, nothing rests
  int findings_fd = 1;
  OptionValues options;  ///< of the scenario

  /// "churn", "--threads=2", …
  std::vector<std::string> words() const;
  /// \errors  std::invalid_argument with a sentence for words that are no plan.
  static CellPlan from_words(const std::vector<std::string>& words);

  bool operator==(const CellPlan&) const = default;
};

}  // namespace strata::cell
