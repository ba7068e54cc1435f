#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "advise/pattern.h"
#include "bench/catalogue.h"
#include "contenders/contender.h"
#include "measure/statistics.h"
#include "process/signal_watch.h"
#include "process/temporary_folder.h"

namespace strata::cli {

/// A number with a change and without it.
struct Difference {
  double without = 0;  ///< medians
  double with = 0;
  std::optional<Ratio> ratio;  ///< with to without

  /// Less by this share and this amount at least, whatever chance did.
  bool is_less(double share, double amount) const noexcept;
  bool is_more(double share, double amount) const noexcept;
};

/// What a candidate would change, measured by replaying the trace with and without it in turns.
struct Trial {
  Candidate candidate;
  Difference cpu_s;
  Difference peak_bytes;
  std::string failure;  ///< why it could not be measured

  /// Time or memory is less, and the other is not more.
  bool is_worth_it() const noexcept;
};

struct TrialPlan {
  const Catalogue* catalogue = nullptr;
  std::string trace;
  Contender allocator;  ///< that all other calls go to
  int runs = 7;
};

/// Called before each run with what is about to be tried.
using OnTrial = std::function<void(const std::string& what)>;

/// Measures all candidates.
/// \returns  One for each, in their order; after an interruption, none.
/// \errors  std::runtime_error if the trace cannot be replayed as it is.
std::vector<Trial> try_candidates(const TrialPlan& plan, const Explanation& explanation,
                                  const std::vector<Candidate>& candidates, SignalWatch& signals,
                                  const TemporaryFolder& folder, const OnTrial& on_trial);

/// Of each place the best that is worth it, the largest saving first.
std::vector<Trial> best_trials(const std::vector<Trial>& trials);

}  // namespace strata::cli
