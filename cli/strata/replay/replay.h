#pragma once

#include <string>

#include "bench/matrix.h"
#include "replay/plan_writer.h"

namespace strata::cli {

/// Options of a replay.
struct ReplayOptions {
  std::string touch = "written";  ///< all, none
  std::string route = "none";     ///< the replacement for routed calls (cell/replay/routes.h)
  std::string map = "none";       ///< the file for addresses and sizes at the end
  bool keeps_pace = false;
};

/// The scenario that replays traces.
/// \errors  std::runtime_error if strata-cell has none.
const cell::Scenario& replay_scenario(const Catalogue& catalogue);

/// Returns the cell that replays the planned trace.
BenchCell replay_cell(const BenchPlan& plan, const Planned& planned, const ReplayOptions& options);

/// "app.trace: 3 threads, 1204 calls in 1.2 s, 12.4 MiB live at most"
std::string describe(const Planned& planned);

}  // namespace strata::cli
