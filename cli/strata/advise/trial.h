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

/// A number with and without a change.
struct Difference {
  double without = 0;  ///< both are medians
  double with = 0;
  std::optional<Ratio> ratio;  ///< with to without

  /// Whether the change saves at least this share and this amount, beyond chance.
  bool is_less(double share, double amount) const noexcept;
  bool is_more(double share, double amount) const noexcept;
};

/// What a candidate saves, measured by replaying the trace with and without it in turns.
struct Trial {
  Candidate candidate;
  Difference cpu_s;
  Difference peak_bytes;
  std::string failure;  ///< why it could not be measured; else empty

  /// Whether time or memory is less, and the other is not more.
  bool is_worth_it() const noexcept;
};

struct TrialPlan {
  const Catalogue* catalogue = nullptr;
  std::string trace;
  Contender allocator;  ///< serves all other calls
  int runs = 7;
};

/// Called before each run with a description of it.
using OnTrial = std::function<void(const std::string& what)>;

/// Measures all candidates.
/// \returns  A trial per candidate, in order; none after an interruption.
/// \errors  std::runtime_error if the trace cannot be replayed without changes.
std::vector<Trial> try_candidates(const TrialPlan& plan, const Explanation& explanation,
                                  const std::vector<Candidate>& candidates, SignalWatch& signals,
                                  const TemporaryFolder& folder, const OnTrial& on_trial);

/// The best worthwhile trial of each place, largest saving first.
std::vector<Trial> best_trials(const std::vector<Trial>& trials);

}  // namespace strata::cli
