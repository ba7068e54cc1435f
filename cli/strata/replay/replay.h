#pragma once

#include <string>

#include "bench/matrix.h"
#include "replay/plan_writer.h"

namespace strata::cli {

/// How a trace is replayed.
struct ReplayOptions {
  std::string touch = "written";  ///< all, none
  std::string route = "none";     ///< what routed calls go to (cell/replay/routes.h)
  std::string map = "none";       ///< where addresses and sizes are written at the end
  bool keeps_pace = false;
};

/// The scenario that replays.
/// \errors  std::runtime_error if strata-cell has none.
const cell::Scenario& replay_scenario(const Catalogue& catalogue);

/// The cell of the plan's matrix that replays it.
BenchCell replay_cell(const BenchPlan& plan, const Planned& planned, const ReplayOptions& options);

/// "app.trace: 3 threads, 1204 calls in 1.2 s, 12.4 MiB live at most"
std::string describe(const Planned& planned);

}  // namespace strata::cli
