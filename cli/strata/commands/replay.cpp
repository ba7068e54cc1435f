#include "replay/replay.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/catalogue.h"
#include "bench/run_cells.h"
#include "commands/bench_report.h"
#include "commands/command.h"
#include "input/usage_error.h"
#include "measure/machine.h"
#include "measure/result_file.h"
#include "output/progress.h"
#include "output/table.h"
#include "process/temporary_folder.h"

namespace strata::cli {
namespace {

constexpr const char* kDescription = "Make a recorded program's calls under several allocators";
constexpr const char* kExamples = R"(Examples:
  strata record -o app.trace -- ./app
  strata replay app.trace
  strata replay app.trace --allocators system,mine=./libmine.so --json results.json
  strata replay app.trace --pace recorded

Each thread makes its own calls in their order, and waits for another where it needs what that one
makes. Every object's ends and a word of each OS page are written and checked; --touch all writes
everything. peak gain is what the process grew by under load: what lives in it, and what the allocator
holds beside.

Exit status: 0 if every allocator completed, 1 if one failed, 2 for bad input.)";

constexpr std::int64_t kMostRuns = 1'000'000;

class ReplayCommand final : public Command {
 public:
  explicit ReplayCommand(CLI::App& app) : Command(app, "replay", kDescription, kExamples) {
    add_words(files_, "FILE", "Traces that strata record wrote");
    add_option("--allocators", allocators_, "A,B,...", "Who takes part (default: all found)");
    add_option("--runs", options_runs_, "N", "Processes for each allocator (default 5)");
    add_option("--pace", pace_, "max|recorded", "How fast (default max)");
    add_option("--touch", touch_, "written|all|none",
               "What is written into objects (default written: ends and pages)");
    add_option("--sample-rate", sample_rate_, "SHARE",
               "Share of the calls that is timed one by one (default 0.02)");
    add_option("--timeout", timeout_, "S", "End a run after this long (default 0: never)");
    add_option("--label", label_, "TEXT", "What the results call this measurement");
    add_option("--library", library_, "FILE", "Use this libstrata.so as strata");
    add_option("--json", json_, "FILE", "Write the results as JSON (- for standard output)");
    add_option("--csv", csv_, "FILE", "Write the results as CSV (- for standard output)");
    add_flag("--quiet", is_quiet_, "Neither progress nor tables");
  }

  const char* synopsis() const override { return "FILE... [options]"; }

  int execute(const CommandLine& line) override {
    if (line.has_separator)
      throw UsageError("'--' has no meaning here: give the trace of a program");
    if (files_.empty()) throw UsageError("which trace? strata record makes one");
    const Catalogue catalogue = read_catalogue();
    const ReplayOptions options = read_options();
    BenchPlan plan = read_plan(catalogue, options);
    ResultOutputs outputs(if_given("--json", json_), if_given("--csv", csv_));
    TemporaryFolder folder("strata-replay");
    Progress progress(stderr, !is_quiet_);
    std::vector<std::string> about;
    for (const std::string& file : files_) {
      const Planned planned = prepare(file, folder, options, progress, about.size());
      about.push_back(describe(planned));
      plan.cells.push_back(replay_cell(catalogue, planned, options));
    }
    progress.clear();
    const auto [results, interruption] = measure(plan, progress, outputs, about);
    if (interruption != 0) {
      folder.remove();
      fmt::print(stderr, "strata: interrupted; the results are those of the runs until then\n");
      die_by_signal(interruption);
    }
    const bool all_completed = std::all_of(results.rows.begin(), results.rows.end(),
                                           [](const Row& row) { return row.ok; });
    return all_completed ? 0 : 1;
  }

 private:
  static void check_choice(const char* option, const std::string& text,
                           std::initializer_list<const char*> choices) {
    std::string known;
    for (const char* choice : choices) {
      if (text == choice) return;
      known += (known.empty() ? "" : ", ") + std::string(choice);
    }
    throw UsageError(fmt::format("{} is '{}'; give one of {}", option, text, known));
  }

  ReplayOptions read_options() const {
    check_choice("--pace", pace_, {"max", "recorded"});
    check_choice("--touch", touch_, {"written", "all", "none"});
    ReplayOptions options;
    options.touch = touch_;
    options.keeps_pace = pace_ == "recorded";
    options.runs = static_cast<int>(parse_count("--runs", options_runs_, 1, kMostRuns));
    options.sample_rate = parse_share("--sample-rate", sample_rate_);
    return options;
  }

  BenchPlan read_plan(const Catalogue& catalogue, const ReplayOptions& options) const {
    BenchPlan plan;
    plan.catalogue = &catalogue;
    plan.runs = options.runs;
    plan.sample_rate = options.sample_rate;
    plan.timeout_s = parse_seconds("--timeout", timeout_);
    plan.label = label_;
    plan.contenders = is_given("--allocators") ? parse_contenders(allocators_, library_)
                                               : default_contenders(library_);
    for (const Contender& contender : plan.contenders) check_preload(contender);
    find_versions(plan.contenders);
    return plan;
  }

  static Planned prepare(const std::string& file, const TemporaryFolder& folder,
                         const ReplayOptions& options, Progress& progress, std::size_t number) {
    return plan_trace(file, folder.file(fmt::format("{}.plan", number)), options,
                      [&](double share) {
                        progress.step(fmt::format("reading {}: {:.0f}% ...", file, 100 * share));
                      });
  }

  std::pair<Results, int> measure(const BenchPlan& plan, Progress& progress, ResultOutputs& outputs,
                                  const std::vector<std::string>& about) const {
    Results results;
    results.machine = describe_machine();
    SignalWatch signals;
    BenchOutcome outcome = run_cells(plan, signals, [&](const CellStart& start) {
      progress.step(fmt::format("[{}/{}] {}: {}, run {} of {} ...", start.number, start.total,
                                start.cell.varying, start.contender.name, start.run, plan.runs));
    });
    progress.clear();
    results.rows = std::move(outcome.rows);
    outputs.publish(results, [&](std::FILE* stream) {
      if (is_quiet_) return;
      for (const std::string& line : about) fmt::print(stream, "{}\n", line);
      print_bench(plan, results, outcome.notes, stream);
    });
    return {std::move(results), signals.interruption()};
  }

  std::vector<std::string> files_;
  std::string allocators_;
  std::string options_runs_ = "5";
  std::string pace_ = "max";
  std::string touch_ = "written";
  std::string sample_rate_ = "0.02";
  std::string timeout_ = "0";
  std::string label_;
  std::string library_;
  std::string json_;
  std::string csv_;
  bool is_quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_replay_command(CLI::App& app) {
  return std::make_unique<ReplayCommand>(app);
}

}  // namespace strata::cli
