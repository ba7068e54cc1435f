#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/scenario.h"

namespace strata::cell {

/// What one process of the matrix runs. `strata` passes it to strata-cell as command-line words.
struct CellPlan {
  std::string scenario;
  std::string contender;  ///< empty: the malloc of the process
  int threads = 1;
  double seconds = 0;     ///< the load ends after this time; 0: no limit, `ops` ends it
  std::uint64_t ops = 0;  ///< the load ends after this many, summed over threads; 0: no limit
  int warmup = 0;         ///< uncounted batches that each thread runs first
  std::uint64_t seed = 1;
  double sample_rate = 0;  ///< the share of the operations that is timed one by one
  int board_fd = -1;       ///< -1: not watched, so the cell never rests
  int findings_fd = 1;
  OptionValues options;  ///< of the scenario

  /// "churn", "--threads=2", …
  std::vector<std::string> words() const;
  /// \errors  std::invalid_argument, with a sentence, if the words are not a valid plan.
  static CellPlan from_words(const std::vector<std::string>& words);

  bool operator==(const CellPlan&) const = default;
};

}  // namespace strata::cell
