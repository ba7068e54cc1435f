#include <fmt/format.h>

#include "commands/command.h"
#include "input/usage_error.h"

namespace strata::cli {

const std::vector<std::string>& Command::measured_command(const CommandLine& line) const {
  if (line.command.empty()) {
    throw UsageError(
        fmt::format("no command to run; put it after --, as in: strata {} -- python3 app.py",
                    parser_->get_name()));
  }
  return line.command;
}

CLI::Validator Command::no_option() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.starts_with("--") ? fmt::format("needs a value; '{}' is an option", text)
                                      : std::string();
      },
      "");
}

namespace {

class UsageFormatter final : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string words) : words_(std::move(words)) { column_width(28); }
  std::string make_usage(const CLI::App* app, std::string) const override {
    return fmt::format("Usage: strata {} {}\n", app->get_name(), words_);
  }

 private:
  std::string words_;
};

}  // namespace

void Command::set_usage(std::string words) {
  parser_->formatter(std::make_shared<UsageFormatter>(std::move(words)));
}

std::vector<std::unique_ptr<Command>> make_commands(CLI::App& app) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_run_command(app));
  commands.push_back(make_compare_command(app));
  commands.push_back(make_bench_command(app));
  commands.push_back(make_replay_command(app));
  commands.push_back(make_explain_command(app));
  commands.push_back(make_advise_command(app));
  commands.push_back(make_report_command(app));
  commands.push_back(make_profile_command(app));
  commands.push_back(make_record_command(app));
  commands.push_back(make_trace_command(app));
  commands.push_back(make_options_command(app));
  return commands;
}

}  // namespace strata::cli
