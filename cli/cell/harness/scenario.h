#pragma once

#include <map>
#include <string>

#include "shared/scenario.h"

/// \file  The scenarios of this program. shared/scenario.h has their descriptions.

namespace strata::cell {

class Cell;

/// A scenario and how to run it.
struct Load {
  Scenario scenario;
  /// Does everything: draws, runs and verifies the operations, and reports the results. Called once
  /// per process.
  void (*run)(Cell& cell);
};

/// All scenarios by name.
inline std::map<std::string, Load>& loads() {
  static std::map<std::string, Load> all;
  return all;
}

/// Registers a scenario; each file of scenarios/ has one at namespace scope.
template <void (*kRun)(Cell& cell)>
struct Registration {
  explicit Registration(const Scenario& scenario) {
    loads().emplace(scenario.name, Load{scenario, kRun});
  }
};

}  // namespace strata::cell
