#include "replay/replay.h"

#include "bench/catalogue.h"
#include "commands/measuring_command.h"
#include "input/usage_error.h"

namespace strata::cli {
namespace {

constexpr const char* kReplayExamples = R"(Examples:
  strata record -o app.trace -- ./app
  strata replay app.trace
  strata replay app.trace --allocators system,mine=./libmine.so --json results.json
  strata replay app.trace --pace recorded

Each thread makes its own calls in their order, and waits for another thread when it needs an object
that thread allocates. Every object's ends and a word of each OS page are written and checked; --touch
all writes everything. Peak gain is the growth of the process under load: live objects plus what the
allocator holds in addition.

Exit status: 0 if every allocator completed, 1 if one failed, 2 for bad input.)";

class ReplayCommand final : public MeasuringCommand {
 public:
  explicit ReplayCommand(CLI::App& app)
      : MeasuringCommand(app, "replay", "Make a recorded program's calls under several allocators",
                         kReplayExamples, "0") {
    add_words(files_, "FILE", "Traces that strata record wrote");
    add_option("--pace", pace_, "max|recorded", "How fast (default max)");
    add_option("--touch", touch_, "written|all|none",
               "What is written into objects (default written: ends and pages)");
    add_option("--sample-rate", sample_rate_, "SHARE",
               "Share of calls timed individually (default 0.02)");
  }

  const char* synopsis() const override { return "FILE... [options]"; }

  int execute(const CommandLine&) override {
    if (files_.empty()) throw UsageError("name a trace; to make one: strata record -- ...");
    const Catalogue catalogue = read_catalogue();
    const ReplayOptions options = read_options(replay_scenario(catalogue));
    BenchPlan plan = read_plan(catalogue);
    return measure_plan(plan, files_, options);
  }

 private:
  static void refuse_unless(const cell::Option& option, const std::string& value) {
    const std::string why = option.why_not(value);
    if (!why.empty()) throw UsageError(why);
  }

  ReplayOptions read_options(const cell::Scenario& scenario) const {
    refuse_unless(cell::Option::choice("pace", "max", {"max", "recorded"}, {}), pace_);
    refuse_unless(*scenario.option("touch"), touch_);
    ReplayOptions options;
    options.touch = touch_;
    options.keeps_pace = pace_ == "recorded";
    return options;
  }

  BenchPlan read_plan(const Catalogue& catalogue) {
    BenchPlan plan;
    plan.catalogue = &catalogue;
    plan.runs = runs();
    plan.load.sample_rate = parse_share("--sample-rate", sample_rate_);
    plan.timeout_s = timeout_s();
    plan.contenders = checked(parse_contenders(allocators(), library()));
    return plan;
  }

  std::vector<std::string> files_;
  std::string pace_ = "max";
  std::string touch_ = "written";
  std::string sample_rate_ = "0.02";
};

}  // namespace

std::unique_ptr<Command> make_replay_command(CLI::App& app) {
  return std::make_unique<ReplayCommand>(app);
}

}  // namespace strata::cli
