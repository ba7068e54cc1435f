#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/catalogue.h"
#include "contenders/contender.h"
#include "shared/cell_plan.h"

namespace strata::cli {

/// One set of parameters of one scenario: what all contenders of it do.
struct BenchCell {
  const cell::Scenario* scenario = nullptr;
  int threads = 1;
  cell::OptionValues options;          ///< every one of the scenario
  std::string varying;                 ///< those that the sweep varies: "threads=2 size=64"
  nlohmann::ordered_json params = {};  ///< what results say of it; null: the options

  /// "churn threads=2"
  std::string title() const {
    return varying.empty() ? scenario->name : scenario->name + " " + varying;
  }
};

/// What `strata bench` is asked to do.
struct BenchPlan {
  const Catalogue* catalogue = nullptr;
  std::vector<Contender> contenders;
  std::vector<BenchCell> cells;
  int runs = 6;
  cell::CellPlan load;  ///< what all cells have in common: how long, how often, with which seed
  double timeout_s = 0;
  double settle_s = -1;  ///< below 0: as the scenario says

  /// How long a process of the scenario is watched after its load.
  double settle_of(const cell::Scenario& scenario) const {
    return settle_s >= 0 ? settle_s : scenario.settle_s;
  }
};

/// Options of scenarios as a person gave them: name -> the list of values.
using SweptOptions = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// Every combination of the threads and of the values of every option, for each scenario in turn;
/// an option that a scenario does not have does not multiply it.
/// \errors  UsageError for a value out of range, one given twice, and one above another that it
///          must not exceed.
std::vector<BenchCell> make_cells(const std::vector<const cell::Scenario*>& scenarios,
                                  const std::vector<int>& threads, const SweptOptions& options);

/// What results say of a cell's parameters, numbers as numbers.
nlohmann::ordered_json params_of(const BenchPlan& plan, const BenchCell& cell);

}  // namespace strata::cli
