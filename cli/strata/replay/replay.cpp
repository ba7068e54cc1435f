#include "replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "output/units.h"

namespace strata::cli {
namespace {

constexpr const char* kScenario = "replay";

}  // namespace

const cell::Scenario& replay_scenario(const Catalogue& catalogue) {
  const auto found = std::ranges::find(catalogue.unlisted, kScenario, &cell::Scenario::name);
  if (found == catalogue.unlisted.end()) {
    throw std::runtime_error("this installation is incomplete: strata-cell cannot replay");
  }
  return *found;
}

BenchCell replay_cell(const BenchPlan& plan, const Planned& planned, const ReplayOptions& options) {
  BenchCell cell;
  cell.scenario = &replay_scenario(*plan.catalogue);
  cell.options = cell.scenario->values({{"plan", planned.plan},
                                        {"touch", options.touch},
                                        {"route", options.route},
                                        {"map", options.map}});
  const std::string name = std::filesystem::path(planned.trace).filename().string();
  cell.varying = name;
  cell.params = {{"trace", name},
                 {"calls", planned.calls},
                 {"threads", planned.threads},
                 {"pace", options.keeps_pace ? "recorded" : "max"},
                 {"touch", options.touch},
                 {"runs", plan.runs},
                 {"sample_rate", plan.load.sample_rate}};
  return cell;
}

std::string describe(const Planned& planned) {
  std::string text = fmt::format("{}: {} {}, {} calls in {:.3g} s, {} live at most", planned.trace,
                                 planned.threads, planned.threads == 1 ? "thread" : "threads",
                                 planned.calls, static_cast<double>(planned.duration_ns) * 1e-9,
                                 bytes_text(planned.peak_live_bytes));
  if (planned.dropped_events > 0) {
    text += fmt::format("; the recorder dropped {} events", planned.dropped_events);
  }
  if (planned.is_cut) text += "; the recording ends before the program";
  return text;
}

}  // namespace strata::cli
