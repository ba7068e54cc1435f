#pragma once

#include <map>
#include <string>

#include "shared/scenario.h"

/// \file  The scenarios of this program. What they say of themselves is shared/scenario.h's.

namespace strata::cell {

class Cell;

/// A scenario and how to run it.
struct Load {
  Scenario scenario;
  /// Does everything: draws the operations, runs them, verifies them, tells what came out. Called
  /// once in a process of its own.
  void (*run)(Cell& cell);
};

/// All of them by name.
inline std::map<std::string, Load>& loads() {
  static std::map<std::string, Load> all;
  return all;
}

/// A file of scenarios/ adds its scenario with one of these at namespace scope.
template <void (*kRun)(Cell& cell)>
struct Registration {
  explicit Registration(const Scenario& scenario) {
    loads().emplace(scenario.name, Load{scenario, kRun});
  }
};

}  // namespace strata::cell
