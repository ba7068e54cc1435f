#include <fmt/format.h>

#include "commands/command.h"
#include "input/usage_error.h"

namespace strata::cli {

const std::vector<std::string>& Command::measured_command(const CommandLine& line) const {
  if (line.command.empty()) {
    throw UsageError(
        fmt::format("which command? Put it behind --, as in: strata {} -- python3 app.py",
                    parser_->get_name()));
  }
  return line.command;
}

std::vector<std::unique_ptr<Command>> make_commands(CLI::App& app) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_run_command(app));
  commands.push_back(make_compare_command(app));
  return commands;
}

}  // namespace strata::cli
