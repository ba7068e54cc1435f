#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "commands/command.h"
#include "commands/leaks.h"
#include "commands/settings.h"
#include "contenders/contender.h"
#include "input/usage_error.h"
#include "output/say.h"
#include "output/whole_file.h"
#include "process/program.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

constexpr const char* kRunExamples = R"(Examples:
  strata run -- python3 app.py
  strata run --stats -- ./server --port 8080
  strata run --set checks=full -- ./tests
  strata run --profile heap.pb.gz -- ./app    (then: strata profile heap.pb.gz,
                                               strata report heap.pb.gz -o heap.html)
  strata run --leaks -- ./app

The command takes the place of strata: its exit status, signals, input and output are its own.
With --leaks, strata stays until the command ends, and returns its exit status.
Programs that it starts run on Strata, too.)";

class RunCommand final : public Command {
 public:
  explicit RunCommand(CLI::App& app)
      : Command(app, "run", "Run a command on Strata's malloc", kRunExamples) {
    add_flag("--stats", wants_stats_, "Print the allocator's statistics to stderr at exit");
    add_option("--profile", profile_, "FILE",
               "Write a heap profile to FILE at exit; %p is replaced by the process ID");
    add_option("--profile-rate", rate_, "BYTES",
               "Average distance between samples (default 512k; 1: every allocation)");
    add_flag("--leaks", wants_leaks_, "Record every allocation; list what is still live at exit");
    add_list_option("--set", settings_, "NAME=VALUE",
                    "Set an option of the library, STRATA_NAME; may be repeated");
    add_library_option(library_, "Use this libstrata.so instead of the one beside strata");
  }

  int execute(const CommandLine& line) override {
    const std::vector<std::string>& command = measured_command(line);
    ProcessPlan plan;
    plan.environment = Environment::inherited();
    const Settings settings = parse_settings(settings_);
    for (const auto& setting : settings) refuse_setting_of_option(setting.first);
    plan.environment.set(settings);
    set_profile(plan.environment);
    if (wants_stats_) plan.environment.set("STRATA_STATS", "exit");
    plan.program = find_program(command.front());
    plan.arguments = command;
    Contender strata = parse_contender(kStrata, library_);
    check_preload(strata);
    check_settings("--set", settings, strata.library);
    plan.environment.preload(strata.library);
    std::string why_not = why_not_preloadable(plan.program);
    if (!why_not.empty()) {
      say("strata: warning: {} {}; it runs without Strata\n", command.front(), why_not);
    }
    warn_of_own_malloc(plan.program, command.front());
    if (wants_leaks_) return run_for_leaks(std::move(plan), profile_);
    refuse_start(plan, become_process(plan));
  }

 private:
  /// Refuses a --set that an option of this command would silently override.
  void refuse_setting_of_option(std::string_view name) const {
    constexpr std::pair<const char*, std::string_view> kSet[] = {
        {"--stats", "STRATA_STATS"},
        {"--profile", "STRATA_PROFILE"},
        {"--profile-rate", "STRATA_PROFILE_RATE"},
        {"--leaks", "STRATA_LEAKS"},
        {"--leaks", "STRATA_PROFILE"},
        {"--leaks", "STRATA_PROFILE_RATE"},
    };
    for (const auto& [option, setting] : kSet) {
      if (setting != name || !is_given(option)) continue;
      throw UsageError(
          fmt::format("{} and --set of {} exclude each other; give one of them", option, setting));
    }
  }

  void set_profile(Environment& environment) const {
    const bool has_rate = is_given("--profile-rate");
    const bool has_profile = is_given("--profile");
    if (has_rate && !has_profile) throw UsageError("--profile-rate needs --profile FILE");
    if (has_rate && wants_leaks_) {
      throw UsageError("--profile-rate has no effect with --leaks, which records every allocation");
    }
    if (has_profile) {
      expect_writable("--profile", profile_);
      // Absolute, because the command may change its folder.
      environment.set("STRATA_PROFILE", std::filesystem::absolute(profile_).string());
    }
    if (has_rate) {
      const std::int64_t most = std::int64_t{1} << 30;
      environment.set("STRATA_PROFILE_RATE",
                      std::to_string(parse_size("--profile-rate", rate_, 1, most)));
    }
  }

  bool wants_leaks_ = false;
  std::string profile_;
  std::string rate_;
  bool wants_stats_ = false;
  std::vector<std::string> settings_;
  std::string library_;
};

}  // namespace

std::unique_ptr<Command> make_run_command(CLI::App& app) {
  return std::make_unique<RunCommand>(app);
}

}  // namespace strata::cli
