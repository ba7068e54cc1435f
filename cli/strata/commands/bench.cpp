#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "bench/catalogue.h"
#include "bench/matrix.h"
#include "commands/measuring_command.h"
#include "commands/result_tables.h"
#include "input/usage_error.h"

namespace strata::cli {
namespace {

constexpr const char* kBenchExamples =
    R"(Scenarios and their own options: strata bench list [SCENARIO...]
A list of values makes a matrix: --threads 1,2,4 --size 16,64 are six cells.
The file of a trace is a scenario, too: its calls are replayed. strata replay has more options for it.

Allocators:
  system, strata, jemalloc, mimalloc, tcmalloc, tbbmalloc, or name=/path/to/lib.so; for scenarios
  that they fit, pools and heaps of the toolkit, of std::pmr and of Boost: strata bench list.
  Groups: general (the default: system, strata and all peers), pools, heaps, all.

Examples:
  strata bench churn
  strata bench churn --threads 1,2,4 --mode window,lifetime --json results.json
  strata bench churn --allocators system,mine=./libmine.so --ops 1000000 --size 16,64,256
  strata bench churn app.trace

Exit status: 0 if every allocator completed, 1 if one failed, 2 for bad input.)";

constexpr const char* kAll = "all";
constexpr std::int64_t kMostThreads = 4096;
constexpr std::int64_t kMostBatches = 1'000'000'000;

class BenchCommand final : public MeasuringCommand {
 public:
  explicit BenchCommand(CLI::App& app)
      : MeasuringCommand(app, "bench", "Run loads under several allocators and measure them",
                         kBenchExamples, "300") {
    add_option("--threads", threads_, "N,N,...", "Number of threads (default 1)");
    add_option("--seconds", seconds_, "S", "How long a load runs (default 1)");
    add_option("--ops", ops_, "N", "Number of operations, instead of or besides --seconds");
    add_option("--warmup", warmup_, "N", "Batches per thread before measuring (default 10)");
    add_option("--seed", seed_, "N", "Seed of the random numbers (default 1)");
    add_option("--sample-rate", sample_rate_, "SHARE",
               "Share of operations timed individually (default 0.05)");
    add_option("--settle", settle_, "S", "How long memory is watched after the load (default 3)");
  }

  const char* synopsis() const override { return "SCENARIO|TRACE... [options]"; }
  bool judges_leftovers() const override { return true; }

  int execute(const CommandLine&) override {
    const Catalogue catalogue = read_catalogue();
    SweptOptions options;
    std::vector<std::string> names = take_words(catalogue, options);
    if (!names.empty() && names.front() == "list") {
      return list(catalogue, {names.begin() + 1, names.end()}, options);
    }
    const std::vector<std::string> traces = take_traces(catalogue, names);
    BenchPlan plan = read_plan(catalogue, names, traces, options);
    return measure_plan(plan, traces, {});
  }

 private:
  /// Splits the words that the parser left over into scenario names, and options with values.
  std::vector<std::string> take_words(const Catalogue& catalogue, SweptOptions& options) const {
    std::vector<std::string> names;
    std::vector<std::string> words = leftovers();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!words[i].starts_with('-')) {
        names.push_back(words[i]);
        continue;
      }
      std::size_t equals = words[i].find('=');
      const std::string shown = words[i].substr(0, equals);
      const std::string name = shown.starts_with("--") ? shown.substr(2) : std::string();
      const cell::Option* option = nullptr;
      for (const cell::Scenario& scenario : catalogue.scenarios) {
        if (option == nullptr) option = scenario.option(name);
      }
      if (option == nullptr) {
        throw UsageError(fmt::format(
            "unknown option '{}'; to list the options: strata bench list SCENARIO", shown));
      }
      std::vector<std::string> values;
      if (equals != std::string::npos) {
        values = split_list(shown, words[i].substr(equals + 1));
      } else if (option->is_flag()) {
        values = {"yes"};
      } else if (i + 1 < words.size()) {
        values = split_list(shown, words[++i]);
      } else {
        throw UsageError(fmt::format("{} needs a value", shown));
      }
      std::erase_if(options, [&](const auto& entry) { return entry.first == name; });
      options.emplace_back(name, std::move(values));
    }
    return names;
  }

  /// Removes the names of trace files from the names, unless a scenario has that name.
  static std::vector<std::string> take_traces(const Catalogue& catalogue,
                                              std::vector<std::string>& names) {
    std::vector<std::string> traces;
    std::erase_if(names, [&](const std::string& name) {
      const auto& known = catalogue.scenarios;
      const bool is_scenario = std::ranges::find(known, name, &cell::Scenario::name) != known.end();
      std::error_code ignored;
      const bool is_file = std::filesystem::is_regular_file(name, ignored);
      if (is_scenario || name == kAll || !is_file) return false;
      traces.push_back(name);
      return true;
    });
    return traces;
  }

  static std::vector<const cell::Scenario*> find_scenarios(const Catalogue& catalogue,
                                                           const std::vector<std::string>& names) {
    std::vector<const cell::Scenario*> scenarios;
    if (names == std::vector<std::string>{kAll}) {
      for (const cell::Scenario& scenario : catalogue.scenarios) scenarios.push_back(&scenario);
      return scenarios;
    }
    for (const std::string& name : names) {
      const cell::Scenario& scenario = catalogue.scenario(name);
      if (std::ranges::find(scenarios, &scenario) != scenarios.end()) {
        throw UsageError(fmt::format("scenario '{}' is named twice", name));
      }
      scenarios.push_back(&scenario);
    }
    return scenarios;
  }

  int list(const Catalogue& catalogue, const std::vector<std::string>& names,
           const SweptOptions& options) const {
    const std::string given = options.empty() ? first_given() : "--" + options.front().first;
    if (!given.empty()) throw UsageError(fmt::format("list takes no option {}", given));
    if (names.empty()) {
      print_catalogue(catalogue);
    } else {
      print_scenarios(find_scenarios(catalogue, names));
    }
    return 0;
  }

  BenchPlan read_plan(const Catalogue& catalogue, const std::vector<std::string>& names,
                      const std::vector<std::string>& traces, const SweptOptions& options) {
    if (names.empty() && traces.empty())
      throw UsageError(
          "name a scenario, as in: strata bench churn; to list them all: strata bench list");
    const std::vector<const cell::Scenario*> scenarios = find_scenarios(catalogue, names);
    std::vector<const cell::Scenario*> loads = scenarios;  // and the replay scenario, for traces
    if (!traces.empty()) loads.push_back(&replay_scenario(catalogue));
    std::vector<std::string> words = names;
    words.insert(words.end(), traces.begin(), traces.end());
    const std::string help =
        names.empty() ? "strata replay --help" : fmt::format("strata bench list {}", names.front());
    for (const auto& [name, values] : options) {
      bool is_known = std::ranges::any_of(scenarios, [&, option = name](const auto* scenario) {
        return scenario->option(option) != nullptr;
      });
      if (!is_known) {
        throw UsageError(fmt::format("--{} is not an option of {}; see: {}", name,
                                     fmt::join(words, ", "), help));
      }
    }
    auto refuse_idle = [&](const char* option, bool cell::Scenario::*takes) {
      bool is_taken = std::ranges::any_of(loads, takes);
      if (is_given(option) && !is_taken) {
        throw UsageError(fmt::format("{} has no effect on {}; to list its options: {}", option,
                                     fmt::join(words, ", "), help));
      }
    };
    refuse_idle("--threads", &cell::Scenario::takes_threads);
    refuse_idle("--seconds", &cell::Scenario::takes_seconds);
    BenchPlan plan;
    plan.catalogue = &catalogue;
    plan.runs = runs();
    plan.load = read_load();
    plan.timeout_s = timeout_s();
    if (is_given("--settle")) plan.settle_s = parse_seconds("--settle", settle_);
    plan.cells = make_cells(scenarios, read_threads(), options);
    plan.contenders = checked(parse_bench_contenders(allocators(), catalogue, loads, library()));
    return plan;
  }

  cell::CellPlan read_load() const {
    cell::CellPlan load;
    if (is_given("--ops")) {
      load.ops = static_cast<std::uint64_t>(parse_count("--ops", ops_, 1, INT64_MAX));
    }
    if (load.ops == 0 || is_given("--seconds")) {
      load.seconds = parse_seconds("--seconds", seconds_);
      if (load.seconds == 0) {
        throw UsageError(fmt::format("--seconds is '{}'; give more than 0, as in 0.5", seconds_));
      }
    }
    load.warmup = static_cast<int>(parse_count("--warmup", warmup_, 0, kMostBatches));
    load.seed = static_cast<std::uint64_t>(parse_count("--seed", seed_, 0, INT64_MAX));
    load.sample_rate = parse_share("--sample-rate", sample_rate_);
    return load;
  }

  std::vector<int> read_threads() const {
    std::vector<int> threads;
    for (const std::string& text : split_list("--threads", threads_)) {
      threads.push_back(static_cast<int>(parse_count("--threads", text, 1, kMostThreads)));
    }
    return threads;
  }

  std::string threads_ = "1";
  std::string seconds_ = "1";
  std::string ops_;
  std::string warmup_ = "10";
  std::string seed_ = "1";
  std::string sample_rate_ = "0.05";
  std::string settle_;
};

}  // namespace

std::unique_ptr<Command> make_bench_command(CLI::App& app) {
  return std::make_unique<BenchCommand>(app);
}

}  // namespace strata::cli
