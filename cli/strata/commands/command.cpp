#include "commands/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "input/usage_error.h"
#include "shared/trace/reader.h"

namespace strata::cli {
namespace {

/// Refuses an option as a value: the parser would take any next word.
CLI::Validator no_option() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.starts_with("--") ? fmt::format("needs a value; '{}' is an option", text)
                                      : std::string();
      },
      "");
}

}  // namespace

int Command::act(const CommandLine& line) {
  try {
    return execute(line);
  } catch (const trace::TraceError& error) {
    throw UsageError(error.what());
  }
}

Command::Command(CLI::App& app, const char* name, const char* description, const char* examples)
    : parser_(app.add_subcommand(name, description)) {
  parser_->footer(examples);
  parser_->allow_extras();  // main() refuses them with our own message
}

void Command::add_flag(const char* name, bool& value, const char* description) {
  parser_->add_flag(name, value, description);
}

void Command::add_option(const char* name, std::string& value, const char* unit,
                         const std::string& description) {
  parser_->add_option(name, value, description)
      ->type_name(unit)
      ->check(no_option())
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Command::add_library_option(std::string& value, const char* description) {
  add_option("--library", value, "FILE", description);
  const auto why_not = [](const std::string& text) -> std::string {
    return text.empty() ? "needs a value; give the path of a libstrata.so" : "";
  };
  parser_->get_option("--library")->check(CLI::Validator(why_not, ""));
}

void Command::add_list_option(const char* name, std::vector<std::string>& values, const char* unit,
                              const char* description) {
  parser_->add_option(name, values, description)
      ->type_name(unit)
      ->check(no_option())
      ->expected(1)
      ->allow_extra_args(false)  // neither the next word nor, in [a,b], a part is a further value
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Command::add_words(std::vector<std::string>& values, const char* unit,
                        const char* description) {
  parser_->add_option(unit, values, description)->type_name("")->expected(0, -1);
}

bool Command::is_given(const char* option) const { return parser_->count(option) > 0; }

std::string Command::first_given() const {
  const std::vector<CLI::Option*>& given = parser_->parse_order();
  return given.empty() ? "" : given.front()->get_name();
}

std::vector<std::string> Command::leftovers() const { return parser_->remaining(); }

const std::vector<std::string>& Command::measured_command(const CommandLine& line) const {
  if (line.command.empty()) {
    throw UsageError(
        fmt::format("no command to run; put it after --, as in: strata {} -- python3 app.py",
                    parser_->get_name()));
  }
  return line.command;
}

std::vector<std::unique_ptr<Command>> make_commands(CLI::App& app) {
  std::vector<std::unique_ptr<Command>> commands;
  for (const auto make :
       {make_run_command, make_compare_command, make_bench_command, make_replay_command,
        make_explain_command, make_advise_command, make_report_command, make_profile_command,
        make_record_command, make_trace_command, make_options_command}) {
    commands.push_back(make(app));
  }
  return commands;
}

}  // namespace strata::cli
