#pragma once

#include <string>
#include <vector>

#include "contenders/contender.h"
#include "shared/scenario.h"

/// \file  What strata-cell can do, as it says itself.

namespace strata::cli {

struct Catalogue {
  std::vector<cell::Scenario> scenarios;
  std::vector<cell::Scenario> unlisted;  ///< loads of other commands than bench
  std::vector<cell::InProcessContender> contenders;

  /// \errors  UsageError naming those there are.
  const cell::Scenario& scenario(const std::string& name) const;
  /// nullptr if there is none of this name.
  const cell::InProcessContender* contender(const std::string& name) const;
  /// Whether it may take part; the malloc, by preload, always does.
  bool fits(const cell::Scenario& scenario, const Contender& contender) const;
};

/// Asks strata-cell.
/// \errors  std::runtime_error if it is missing or does not answer.
Catalogue read_catalogue();

/// Who takes part: "system,strata,bitmap-pool,mine=/lib.so"; the groups `general`, `pools`, `heaps`
/// and `all` stand for those that this machine and these scenarios have.
/// \errors  UsageError as parse_contenders has it, and for one that fits none of the scenarios.
std::vector<Contender> parse_bench_contenders(const std::string& list, const Catalogue& catalogue,
                                              const std::vector<const cell::Scenario*>& scenarios,
                                              const std::string& strata_library);

}  // namespace strata::cli
