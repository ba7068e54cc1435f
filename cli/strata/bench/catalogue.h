#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "contenders/contender.h"

/// \file  What strata-cell can do, as it says itself.

namespace strata::cli {

/// An option of a scenario; cell/harness/scenario.h says what the fields mean.
struct ScenarioOption {
  std::string name;  ///< without the dashes
  std::string kind;  ///< count, real, choice, choice-or-file, flag
  std::string unit;
  std::string default_value;
  double lowest = 0;
  double highest = 0;
  std::vector<std::string> choices;
  std::string sentence;
  std::string ceiling = {};  ///< the option that this one must not exceed

  bool is_flag() const { return kind == "flag"; }
  /// "NUMBER", "immediate|window|FILE": what the option accepts.
  std::string value_name() const;
  /// "default 64, 1 to 67108864 bytes"
  std::string range() const;
  /// \errors  UsageError naming the option, the text and what it may be.
  void check(const std::string& text) const;
};

struct ScenarioInfo {
  std::string name;
  std::string purpose;
  std::string origin;
  std::string fits;  ///< malloc, blocks, heaps, all
  bool takes_threads = true;
  bool takes_seconds = true;
  double settle_s = 0;
  std::vector<std::string> shown;
  std::vector<ScenarioOption> options;

  const ScenarioOption* option(std::string_view option_name) const;
};

/// A contender that lives in the measured process.
struct InProcessContender {
  std::string name;
  std::string kind;  ///< blocks or heaps
  std::string version;
  std::string sentence;
};

struct Catalogue {
  std::vector<ScenarioInfo> scenarios;
  std::vector<ScenarioInfo> unlisted;  ///< loads of other commands than bench
  std::vector<InProcessContender> contenders;

  /// \errors  UsageError naming those there are.
  const ScenarioInfo& scenario(const std::string& name) const;
  /// nullptr if there is none of this name.
  const InProcessContender* contender(const std::string& name) const;
  /// Whether it may take part; the malloc, by preload, always does.
  bool fits(const ScenarioInfo& scenario, const Contender& contender) const;
};

/// Asks strata-cell.
/// \errors  std::runtime_error if it is missing or does not answer.
Catalogue read_catalogue();

/// Who takes part: "system,strata,bitmap-pool,mine=/lib.so"; the groups `general`, `pools`, `heaps`
/// and `all` stand for those that this machine and these scenarios have.
/// \errors  UsageError as parse_contenders has it, and for one that fits none of the scenarios.
std::vector<Contender> parse_bench_contenders(const std::string& list, const Catalogue& catalogue,
                                              const std::vector<const ScenarioInfo*>& scenarios,
                                              const std::string& strata_library);

}  // namespace strata::cli
