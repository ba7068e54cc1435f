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

/// What `compare`, `bench` and `replay` have in common: what is measured, how often, and where the
/// results go.
class MeasuringCommand : public Command {
 protected:
  static constexpr std::int64_t kMostRuns = 1'000'000;

  /// `timeout` is the default of --timeout, as text.
  MeasuringCommand(CLI::App& app, const char* name, const char* description, const char* examples,
                   const char* timeout);

  int runs() const { return static_cast<int>(parse_count("--runs", runs_, 1, kMostRuns)); }
  double timeout_s() const { return parse_seconds("--timeout", timeout_); }
  const std::string& allocators() const { return allocators_; }
  /// The same contenders, known to be preloadable, with their versions. Of the one that is Strata,
  /// notes what the environment sets of its options: that is told with the results.
  /// \param settings  what Strata runs with instead
  /// \errors  UsageError for one whose library cannot be preloaded, and for a value that Strata
  ///          does not understand.
  std::vector<Contender> checked(std::vector<Contender> contenders, const Settings& settings = {});
  const std::string& library() const { return library_; }

  /// The files of --json and --csv, tried: an hour of measuring never ends in "permission denied".
  /// \param inputs  what is read, and must not be replaced
  ResultOutputs open_outputs(const std::vector<std::string>& inputs = {}) const;

  using Measure = std::function<std::vector<Row>(Progress&)>;
  using Show = std::function<void(const Results&, std::FILE*)>;

  /// Measures the contenders, writes the files, and shows the results to people unless --quiet is
  /// given. What was interrupted before any run was completed is neither written nor shown.
  /// \returns  The exit status. After an interruption it ends this process by that signal instead.
  int measure_and_publish(ResultOutputs& outputs, SignalWatch& signals, const Measure& measure,
                          const Show& show) const;
  /// The same for the cells of a plan, to which it adds the replays of the traces.
  /// \errors  As write_plan() has them.
  int measure_plan(BenchPlan& plan, const std::vector<std::string>& traces,
                   const ReplayOptions& replay) const;

 private:
  std::vector<std::string> add_replays(BenchPlan& plan, const std::vector<std::string>& traces,
                                       const ReplayOptions& options, TemporaryFolder& folder,
                                       SignalWatch& signals) const;

  const char* name_;
  std::string allocators_ = "general";
  std::string runs_ = "6";
  std::string timeout_;
  std::string label_;
  std::string library_;
  std::string json_;
  std::string csv_;
  bool is_quiet_ = false;
  Settings inherited_;
};

}  // namespace strata::cli
