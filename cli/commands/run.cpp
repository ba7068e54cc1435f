#include <fmt/format.h>
#include <string.h>

#include "commands/command.h"
#include "contenders/contender.h"
#include "input/usage_error.h"
#include "process/program.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

constexpr const char* kDescription = "Run a command on Strata's malloc";
constexpr const char* kExamples = R"(Examples:
  strata run -- python3 app.py
  strata run --stats -- ./server --port 8080
  strata run --set checks=full -- ./tests

The command takes the place of strata: its exit status, signals, input and output are its own.
Programs that it starts run on Strata, too.)";

class RunCommand final : public Command {
 public:
  explicit RunCommand(CLI::App& app) : Command(app, "run", kDescription, kExamples) {
    add_flag("--stats", wants_stats_, "Print the allocator's statistics to stderr at exit");
    add_list_option("--set", settings_, "NAME=VALUE",
                    "Set an option of the library, STRATA_NAME; may be repeated");
    add_option("--library", library_, "FILE",
               "Use this libstrata.so instead of the one beside strata");
  }

  int execute(const CommandLine& line) override {
    const std::vector<std::string>& command = measured_command(line);
    ProcessPlan plan;
    plan.environment = Environment::inherited();
    for (const std::string& text : settings_) {
      auto [name, value] = parse_setting(text);
      plan.environment.set(name, value);
    }
    if (wants_stats_) plan.environment.set("STRATA_STATS", "exit");
    plan.program = find_program(command.front());
    plan.arguments = command;
    Contender strata = parse_contender(kStrata, library_);
    check_preload(strata);
    plan.environment.preload(strata.library);
    std::string why_not = why_not_preloadable(plan.program);
    if (!why_not.empty()) {
      fmt::print(stderr, "strata: warning: {} {}; it runs without Strata\n", command.front(),
                 why_not);
    }
    int error = become_process(plan);
    throw UsageError(fmt::format("could not start '{}': {}", plan.program, ::strerror(error)), 126);
  }

 private:
  bool wants_stats_ = false;
  std::vector<std::string> settings_;
  std::string library_;
};

}  // namespace

std::unique_ptr<Command> make_run_command(CLI::App& app) {
  return std::make_unique<RunCommand>(app);
}

}  // namespace strata::cli
