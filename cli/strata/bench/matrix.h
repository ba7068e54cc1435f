#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/catalogue.h"
#include "contenders/contender.h"
#include "shared/cell_plan.h"

namespace strata::cli {

/// A scenario with one set of parameters, the same for all contenders.
struct BenchCell {
  const cell::Scenario* scenario = nullptr;
  int threads = 1;
  cell::OptionValues options;          ///< all options of the scenario
  std::string varying;                 ///< the swept ones: "threads=2 size=64"
  nlohmann::ordered_json params = {};  ///< for results; null: the options

  /// "churn threads=2"
  std::string title() const {
    return varying.empty() ? scenario->name : scenario->name + " " + varying;
  }
};

/// What `strata bench` is to run.
struct BenchPlan {
  const Catalogue* catalogue = nullptr;
  std::vector<Contender> contenders;
  std::vector<BenchCell> cells;
  int runs = 6;
  cell::CellPlan load;  ///< common to all cells: duration, repetitions, seed
  double timeout_s = 0;
  double settle_s = -1;  ///< negative: the scenario's default

  /// How long to watch a process of the scenario after its load.
  double settle_of(const cell::Scenario& scenario) const {
    return settle_s >= 0 ? settle_s : scenario.settle_s;
  }
};

/// Options as the user gave them: name -> list of values.
using SweptOptions = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// For each scenario, every combination of the thread counts and the values of its options. Options
/// that a scenario does not have do not multiply it.
/// \errors  UsageError for a value out of range, one given twice, and one above the option that
///          limits it.
std::vector<BenchCell> make_cells(const std::vector<const cell::Scenario*>& scenarios,
                                  const std::vector<int>& threads, const SweptOptions& options);

/// The cell's parameters for results, with numbers as numbers.
nlohmann::ordered_json params_of(const BenchPlan& plan, const BenchCell& cell);

}  // namespace strata::cli
