#include <fmt/format.h>

#include <filesystem>

#include "bench/comparison.h"
#include "commands/measuring_command.h"
#include "commands/result_tables.h"
#include "contenders/contender.h"
#include "input/usage_error.h"
#include "measure/machine.h"
#include "output/say.h"
#include "output/table.h"
#include "output/text.h"
#include "process/program.h"

namespace strata::cli {
namespace {

constexpr const char* kCompareExamples = R"(Allocators:
  system, strata, jemalloc, mimalloc, tcmalloc, tbbmalloc, or name=/path/to/lib.so.
  Group: general (the default: system, strata and all of the others that this machine has).

Examples:
  strata compare -- python3 app.py
  strata compare --allocators system,strata,mine=./libmine.so --runs 9 -- ./server --self-test
  strata compare --json results.json -- sort --parallel=2 < words.txt
  strata compare --allocators strata --vary cache_bytes=1m,32m -- ./server --self-test

Exit status: 0 if every allocator completed, 1 if one failed, 2 for bad input.
Each run reads standard input from the start if it is a file, else it has none. What a run leaves
in the background is killed before the next one; what has a session of its own (setsid) stays.)";

constexpr std::size_t kLongestTitle = 90;

class CompareCommand final : public MeasuringCommand {
 public:
  explicit CompareCommand(CLI::App& app)
      : MeasuringCommand(app, "compare", "Run a command under several allocators and compare them",
                         kCompareExamples, "600") {
    add_option("--warmup", warmup_, "N", "Runs under each that are not counted (default 1)");
    add_option("--scenario", scenario_, "NAME",
               "Name in the results (default: that of the program)");
    add_flag("--show-output", shows_output_, "Show what the command prints, on standard error");
  }

  int execute(const CommandLine& line) override {
    ComparisonPlan plan = read_plan(line);
    ResultOutputs outputs = open_outputs();
    SignalWatch signals;
    return measure_and_publish(
        outputs, signals, [&](Progress& progress) { return measure(plan, signals, progress); },
        [&](const Results& results, std::FILE* stream) { print(plan, results, stream); });
  }

 private:
  ComparisonPlan read_plan(const CommandLine& line) {
    ComparisonPlan plan;
    plan.command = measured_command(line);
    plan.runs = runs();
    plan.warmup = static_cast<int>(parse_count("--warmup", warmup_, 0, kMostRuns));
    plan.timeout_s = timeout_s();
    try {
      plan.program = find_program(plan.command.front());
    } catch (const UsageError& error) {
      throw UsageError(error.what());  // the shell's 126 and 127 are only for `run`
    }
    plan.scenario =
        scenario_.empty() ? std::filesystem::path(plan.program).filename().string() : scenario_;
    plan.contenders = checked(parse_contenders(allocators(), library()), plan.program);
    std::string why_not = why_not_preloadable(plan.program);
    for (const Contender& contender : plan.contenders) {
      if (!contender.library.empty() && !why_not.empty()) {
        throw UsageError(fmt::format("{} {}; compare a program that takes preloaded libraries",
                                     plan.program, why_not));
      }
    }
    warn_of_own_malloc(plan.program, plan.command.front());
    return plan;
  }

  std::vector<Row> measure(const ComparisonPlan& plan, SignalWatch& signals,
                           Progress& progress) const {
    int told_round = 0;
    ComparisonEvents events;
    events.on_start = [&](int round, const Contender& contender) {
      const std::string where = run_name(plan, round);
      if (round != told_round) progress.milestone(fmt::format("{}: {} ...", plan.scenario, where));
      told_round = round;
      progress.step(fmt::format("{}: {}, {} ...", plan.scenario, where, contender.name));
    };
    events.on_end = [&](int round, const Contender& contender, const OutputCapture& output) {
      if (!shows_output_) return;
      progress.clear();
      say("--- {}, round {}\n{}", contender.name, round, output.head());
    };
    return run_comparison(plan, signals, events);
  }

  /// "5 runs each, interleaved, after 1 to warm up"
  static std::string method(const ComparisonPlan& plan) {
    std::string text = counted(plan.runs, "run") + " each";
    if (plan.contenders.size() > 1) text += ", interleaved";
    if (plan.warmup > 0) text += fmt::format(", after {} to warm up", plan.warmup);
    return text;
  }

  static void print(const ComparisonPlan& plan, const Results& results, std::FILE* stream) {
    bool colour = wants_colour(stream);
    std::string title = shell_quoted(plan.command);
    if (title.size() > kLongestTitle) {
      title = fmt::format("{}...", head_of(title, kLongestTitle - 3));
    }
    fmt::print(stream, "{}\n", styled(title, Style::kBold, colour));
    fmt::print(stream, "{}\n", styled(method(plan), Style::kDim, colour));
    fmt::print(stream, "{}\n\n",
               styled(with_plain_spaces(machine_line(results.machine)), Style::kDim, colour));
    fmt::print(stream, "{}\n{}", comparison_table(results.rows, colour, terminal_columns(stream)),
               comparison_notes(results.rows, colour));
    std::string own = linked_allocator(plan.program);
    if (!own.empty()) {
      fmt::print(stream, "{} is linked with {}: that is what its 'system' row measured.\n",
                 plan.command.front(), own);
    }
  }

  std::string warmup_ = "1";
  std::string scenario_;
  bool shows_output_ = false;
};

}  // namespace

std::unique_ptr<Command> make_compare_command(CLI::App& app) {
  return std::make_unique<CompareCommand>(app);
}

}  // namespace strata::cli
