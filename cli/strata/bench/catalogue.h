#pragma once

#include <string>
#include <vector>

#include "contenders/contender.h"
#include "shared/scenario.h"

/// \file  What strata-cell offers, by its own description.

namespace strata::cli {

struct Catalogue {
  std::vector<cell::Scenario> scenarios;
  std::vector<cell::Scenario> unlisted;  ///< loads of other commands
  std::vector<cell::InProcessContender> contenders;

  /// \errors  UsageError, which lists the existing ones.
  const cell::Scenario& scenario(const std::string& name) const;
  /// Returns nullptr if no contender has this name.
  const cell::InProcessContender* contender(const std::string& name) const;
  /// Whether the contender can run the scenario; a malloc always can.
  bool fits(const cell::Scenario& scenario, const Contender& contender) const;
};

/// Asks strata-cell for its description.
/// \errors  std::runtime_error if it is missing or does not answer.
Catalogue read_catalogue();

/// Parses a list of contenders: "system,strata,bitmap-pool,mine=/lib.so". The groups `general`,
/// `pools`, `heaps` and `all` stand for those that this machine and these scenarios have.
/// \errors  Those of parse_contenders(); UsageError for a contender that fits none of the
///          scenarios.
std::vector<Contender> parse_bench_contenders(const std::string& list, const Catalogue& catalogue,
                                              const std::vector<const cell::Scenario*>& scenarios,
                                              const std::string& strata_library);

}  // namespace strata::cli
