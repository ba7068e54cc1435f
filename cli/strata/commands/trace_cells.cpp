#include "commands/trace_cells.h"

#include <fmt/format.h>

#include "output/progress.h"

namespace strata::cli {

std::vector<std::string> add_trace_cells(BenchPlan& plan, const std::vector<std::string>& traces,
                                         const ReplayOptions& options, TemporaryFolder& folder,
                                         SignalWatch& signals, bool is_quiet) {
  Progress progress(!is_quiet);
  std::vector<std::string> about;
  PlanOptions what;
  what.keeps_times = options.keeps_pace;
  for (const std::string& trace : traces) {
    const std::string file = folder.file(fmt::format("{}.plan", about.size()));
    const Planned planned{
        trace, file, write_plan(trace, file, what, [&](double share) {
          progress.step(fmt::format("reading {}: {:.0f}% ...", trace, 100 * share));
          end_if_interrupted(signals, folder);
        })};
    about.push_back(describe(planned));
    plan.cells.push_back(replay_cell(*plan.catalogue, planned, options));
  }
  progress.clear();
  end_if_interrupted(signals, folder);
  return about;
}

}  // namespace strata::cli
