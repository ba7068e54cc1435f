#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/run_cells.h"
#include "commands/command.h"
#include "commands/settings.h"
#include "contenders/contender.h"
#include "measure/result_outputs.h"
#include "measure/results.h"
#include "output/progress.h"
#include "process/signal_watch.h"
#include "process/temporary_folder.h"
#include "replay/replay.h"

namespace strata::cli {

/// The common base of `compare`, `bench` and `replay`: the contenders, the number of runs, and the
/// outputs for results.
class MeasuringCommand : public Command {
 protected:
  static constexpr std::int64_t kMostRuns = 1'000'000;

  /// \param timeout  the default of --timeout, as text
  MeasuringCommand(CLI::App& app, const char* name, const char* description, const char* examples,
                   const char* timeout);

  int runs() const { return static_cast<int>(parse_count("--runs", runs_, 1, kMostRuns)); }
  double timeout_s() const { return parse_seconds("--timeout", timeout_); }
  const std::string& allocators() const { return allocators_; }
  /// Checks that the contenders can be preloaded, adds their versions, and gives them the settings
  /// of --set and --vary. Notes the options of Strata that --set or the environment sets: results
  /// include them.
  /// \param program  which may have Strata linked in; empty: none
  /// \errors  UsageError for a library that cannot be preloaded, for a value that Strata does not
  ///          understand, and for settings where no Strata runs.
  std::vector<Contender> checked(std::vector<Contender> contenders,
                                 const std::string& program = {});
  const std::string& library() const { return library_; }

  /// Opens the files of --json and --csv at once, so that an hour of measuring never ends in
  /// "permission denied".
  /// \param inputs  the input files, which must not be replaced
  ResultOutputs open_outputs(const std::vector<std::string>& inputs = {}) const;

  using Measure = std::function<std::vector<Row>(Progress&)>;
  using Show = std::function<void(const Results&, std::FILE*)>;

  /// Measures the contenders, writes the files, and shows the results unless --quiet is given.
  /// After an interruption before the first completed run, writes and shows nothing.
  /// \returns  The exit status. After an interruption it instead ends this process by that signal.
  int measure_and_publish(ResultOutputs& outputs, SignalWatch& signals, const Measure& measure,
                          const Show& show) const;
  /// The same for the cells of a plan, to which it adds the replays of the traces.
  /// \errors  Those of write_plan().
  int measure_plan(BenchPlan& plan, const std::vector<std::string>& traces,
                   const ReplayOptions& replay) const;

 private:
  std::vector<std::string> add_replays(BenchPlan& plan, const std::vector<std::string>& traces,
                                       const ReplayOptions& options, TemporaryFolder& folder,
                                       SignalWatch& signals) const;
  void take_settings(std::vector<Contender>& contenders, const std::string& program);

  const char* name_;
  std::string allocators_ = "general";
  std::string runs_ = "6";
  std::string timeout_;
  std::string label_;
  std::string library_;
  std::string json_;
  std::string csv_;
  bool is_quiet_ = false;
  std::vector<std::string> set_;
  std::vector<std::string> varied_;
  Settings settings_;   // of --set
  Settings inherited_;  // of the environment
};

}  // namespace strata::cli
