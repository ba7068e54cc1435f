#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "input/arguments.h"

namespace CLI {
class App;
}

namespace strata::cli {

/// A subcommand: declares its options to the parser when it is made, and acts when it is chosen.
/// Options arrive as text and are checked by execute(), so that every refusal is a sentence of
/// ours.
class Command {
 public:
  virtual ~Command() = default;

  /// \returns  The exit status.
  /// \errors   UsageError for bad input.
  int act(const CommandLine& line);

  /// What act() does.
  /// \errors   UsageError for bad input, TraceError for a bad trace.
  virtual int execute(const CommandLine& line) = 0;

  /// What comes after "strata NAME" in the line of the usage.
  virtual const char* synopsis() const { return "[options] -- command"; }

  /// Whether it runs a command, which comes after "--".
  bool takes_command() const { return std::string_view(synopsis()).ends_with("-- command"); }

  /// Whether words that the parser does not know are this command's to judge, in execute().
  virtual bool judges_leftovers() const { return false; }

  const CLI::App& parser() const noexcept { return *parser_; }

 protected:
  /// `examples` stand at the end of the help.
  Command(CLI::App& app, const char* name, const char* description, const char* examples);

  void add_flag(const char* name, bool& value, const char* description);

  /// An option that takes a text, the last one if it is repeated.
  void add_option(const char* name, std::string& value, const char* unit,
                  const std::string& description);

  /// --library, which names the libstrata.so that counts as Strata's.
  void add_library_option(std::string& value, const char* description);

  /// An option that may be given many times.
  void add_list_option(const char* name, std::vector<std::string>& values, const char* unit,
                       const char* description);

  /// Words that are no options, in order: files, names.
  void add_words(std::vector<std::string>& values, const char* unit, const char* description);

  bool is_given(const char* option) const;
  /// The first option of all that were given, "--json"; empty if none was.
  std::string first_given() const;
  /// Its text, if it was given.
  std::optional<std::string> if_given(const char* option, const std::string& text) const {
    return is_given(option) ? std::optional(text) : std::nullopt;
  }

  /// The words that the parser does not know.
  std::vector<std::string> leftovers() const;

  /// The words after "--".
  /// \errors  UsageError if there are none.
  const std::vector<std::string>& measured_command(const CommandLine& line) const;

 private:
  CLI::App* parser_;
};

/// In the order in which the help lists them; a new command is a new line in command.cpp.
std::vector<std::unique_ptr<Command>> make_commands(CLI::App& app);

std::unique_ptr<Command> make_run_command(CLI::App& app);
std::unique_ptr<Command> make_compare_command(CLI::App& app);
std::unique_ptr<Command> make_bench_command(CLI::App& app);
std::unique_ptr<Command> make_replay_command(CLI::App& app);
std::unique_ptr<Command> make_explain_command(CLI::App& app);
std::unique_ptr<Command> make_advise_command(CLI::App& app);
std::unique_ptr<Command> make_report_command(CLI::App& app);
std::unique_ptr<Command> make_profile_command(CLI::App& app);
std::unique_ptr<Command> make_record_command(CLI::App& app);
std::unique_ptr<Command> make_trace_command(CLI::App& app);
std::unique_ptr<Command> make_options_command(CLI::App& app);

}  // namespace strata::cli
