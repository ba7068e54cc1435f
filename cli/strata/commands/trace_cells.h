#pragma once

#include <string>
#include <vector>

#include "bench/matrix.h"
#include "process/temporary_folder.h"
#include "replay/replay.h"

namespace strata::cli {

/// Plans the replay of each trace and adds its cell to the plan; the folder holds what the cells
/// read until they were run. A signal that interrupts ends this process, and leaves no folder.
/// \returns  A sentence about each trace.
/// \errors   As write_plan() has them.
std::vector<std::string> add_trace_cells(BenchPlan& plan, const std::vector<std::string>& traces,
                                         const ReplayOptions& options, TemporaryFolder& folder,
                                         SignalWatch& signals, bool is_quiet);

}  // namespace strata::cli
