#include "commands/measuring_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "commands/result_tables.h"
#include "input/usage_error.h"
#include "measure/machine.h"
#include "output/say.h"
#include "output/text.h"
#include "process/environment.h"

namespace strata::cli {

MeasuringCommand::MeasuringCommand(CLI::App& app, const char* name, const char* description,
                                   const char* examples, const char* timeout)
    : Command(app, name, description, examples), name_(name), timeout_(timeout) {
  add_option("--allocators", allocators_, "A,B,...",
             "Allocators, groups, or name=FILE (default general)");
  add_list_option("--set", set_, "NAME=VALUE",
                  "Set an option of Strata's library, STRATA_NAME; may be repeated");
  add_list_option("--vary", varied_, "NAME=A,B,...",
                  "Strata takes part once with each of these values; may be repeated");
  add_option("--runs", runs_, "N", "Measured runs under each allocator (default 6)");
  add_option("--timeout", timeout_, "S",
             fmt::format("End a run after this long; 0: never (default {})", timeout));
  add_option("--label", label_, "TEXT", "Name of this measurement in the results");
  add_library_option(library_, "Use this libstrata.so as strata");
  add_option("--json", json_, "FILE", "Write the results as JSON (- for standard output)");
  add_option("--csv", csv_, "FILE", "Write the results as CSV (- for standard output)");
  add_flag("--quiet", is_quiet_, "Print neither progress nor tables");
}

// Does everything before a temporary folder exists, because an interruption meanwhile ends the
// process.
std::vector<Contender> MeasuringCommand::checked(std::vector<Contender> contenders,
                                                 const std::string& program) {
  for (const Contender& contender : contenders) {
    check_preload(contender);
    if (!contender.library.empty() || contender.is_in_process) continue;
    const std::string everywhere = preloaded_everywhere("/etc/ld.so.preload");
    if (everywhere.empty()) continue;
    say("strata: warning: /etc/ld.so.preload puts {} into every program: that is what '{}' "
        "measures\n",
        everywhere, contender.name);
  }
  find_versions(contenders);
  take_settings(contenders, program);
  return contenders;
}

void MeasuringCommand::take_settings(std::vector<Contender>& contenders,
                                     const std::string& program) {
  settings_ = parse_settings(set_);
  if (std::ranges::none_of(contenders, is_strata)) {
    if (!varied_.empty()) {
      throw UsageError("--vary needs Strata among the allocators; add strata to --allocators");
    }
    check_settings_of_program(settings_, program);
  }
  for (Contender& contender : contenders) {
    contender.settings = settings_;
    if (is_strata(contender)) check_settings("--set", settings_, contender.library);
  }
  for (const std::string& word : varied_) vary(contenders, word);
  for (const Contender& contender : contenders) {
    if (!is_strata(contender)) continue;
    if (!varied_.empty()) check_settings("--vary", contender.settings, contender.library);
    for (auto& setting : settings_of_environment(contender.library, contender.settings)) {
      if (std::ranges::find(inherited_, setting) == inherited_.end())
        inherited_.push_back(std::move(setting));
    }
  }
}

ResultOutputs MeasuringCommand::open_outputs(const std::vector<std::string>& inputs) const {
  return {if_given("--json", json_), if_given("--csv", csv_), inputs};
}

int MeasuringCommand::measure_and_publish(ResultOutputs& outputs, SignalWatch& signals,
                                          const Measure& measure, const Show& show) const {
  Results results;
  results.measured = time_of_day();
  results.machine = describe_machine();
  bool is_in_vain = false;
  int interruption = 0;
  {
    Progress progress(!is_quiet_);
    results.rows = measure(progress);
    progress.clear();
    for (Row& row : results.rows) {
      row.label = label_;
      for (const auto& [name, value] : settings_) row.params[name] = value;
      for (const auto& [name, value] : inherited_) row.params[name] = value;
    }
    const auto says_nothing = [](const Row& row) {
      return row.metrics.empty() && (row.reason.empty() || row.reason == kInterruptedTooEarly);
    };
    is_in_vain = signals.interruption() != 0 && std::ranges::all_of(results.rows, says_nothing);
    if (!is_in_vain) {  // otherwise an earlier measurement's files are worth more
      outputs.publish(results, [&](std::FILE* stream) {
        if (is_quiet_) return;
        for (const auto& [name, value] : inherited_) {
          fmt::print(stream, "strata runs with {}={}, from the environment\n", name, value);
        }
        show(results, stream);
      });
    }
    interruption = signals.interruption();
  }
  if (!is_quiet_) outputs.tell_replaced();
  if (interruption != 0) {
    say("strata: interrupted{}\n",
        is_in_vain ? " before a run was completed; no file was written or replaced"
                   : "; the results cover the runs that were completed");
    die_by_signal(interruption);
  }
  const bool all_completed = !results.rows.empty() && std::ranges::all_of(results.rows, &Row::ok);
  return all_completed ? 0 : 1;
}

/// Plans the replay of each trace and adds its cell to the plan; the folder holds the cells' input.
/// An interrupting signal ends the process and leaves no folder.
/// \returns  A sentence per trace.
std::vector<std::string> MeasuringCommand::add_replays(BenchPlan& plan,
                                                       const std::vector<std::string>& traces,
                                                       const ReplayOptions& options,
                                                       TemporaryFolder& folder,
                                                       SignalWatch& signals) const {
  Progress progress(!is_quiet_);
  std::vector<std::string> about;
  PlanOptions what;
  what.keeps_times = options.keeps_pace;
  for (const std::string& trace : traces) {
    if (std::count(traces.begin(), traces.end(), trace) > 1)
      throw UsageError(fmt::format("trace '{}' is named twice", trace));
    const std::string file = folder.file(fmt::format("{}.plan", about.size()));
    const Planned planned = write_plan(trace, file, what, [&](double share) {
      progress.step(fmt::format("reading {}: {:.0f}% ...", trace, 100 * share));
      end_if_interrupted(signals, folder);
    });
    about.push_back(describe(planned));
    plan.cells.push_back(replay_cell(plan, planned, options));
  }
  progress.clear();
  end_if_interrupted(signals, folder);
  return about;
}

int MeasuringCommand::measure_plan(BenchPlan& plan, const std::vector<std::string>& traces,
                                   const ReplayOptions& replay) const {
  ResultOutputs outputs = open_outputs(traces);
  SignalWatch signals;
  TemporaryFolder folder(fmt::format("strata-{}", name_));
  const std::vector<std::string> about = add_replays(plan, traces, replay, folder, signals);
  BenchOutcome outcome;
  const auto measure = [&](Progress& progress) {
    outcome =
        run_cells(plan, signals, [&](const std::string& what) { progress.step(what + " ..."); });
    folder.remove();  // before an interruption ends this process
    if (outcome.rows.empty() && signals.interruption() == 0) {
      throw UsageError(fmt::format(
          "nothing was measured, as no allocator fits: {}; --allocators general fits all",
          outcome.notes.front()));
    }
    return std::move(outcome.rows);
  };
  const auto show = [&](const Results& results, std::FILE* stream) {
    for (const std::string& line : about) fmt::print(stream, "{}\n", with_plain_spaces(line));
    print_bench(plan, results, outcome, stream);
  };
  return measure_and_publish(outputs, signals, measure, show);
}

}  // namespace strata::cli
