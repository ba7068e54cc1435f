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

/// A subcommand. Its constructor declares its options to the parser; execute() runs it. Options
/// arrive as text and execute() checks them, so that all error messages are ours.
class Command {
 public:
  virtual ~Command() = default;

  /// \returns  The exit status.
  /// \errors   UsageError for bad input.
  int act(const CommandLine& line);

  /// Does the work of act().
  /// \errors   UsageError for bad input, TraceError for a bad trace.
  virtual int execute(const CommandLine& line) = 0;

  /// The usage line after "strata NAME".
  virtual const char* synopsis() const { return "[options] -- command"; }

  /// Whether it runs a command, given after "--".
  bool takes_command() const { return std::string_view(synopsis()).ends_with("-- command"); }

  /// Whether execute() checks the words that the parser does not know.
  virtual bool judges_leftovers() const { return false; }

  const CLI::App& parser() const noexcept { return *parser_; }

 protected:
  /// `examples` are shown at the end of the help.
  Command(CLI::App& app, const char* name, const char* description, const char* examples);

  void add_flag(const char* name, bool& value, const char* description);

  /// Adds an option that takes text; if repeated, the last one counts.
  void add_option(const char* name, std::string& value, const char* unit,
                  const std::string& description);

  /// Adds --library, which selects the libstrata.so to use as Strata's.
  void add_library_option(std::string& value, const char* description);

  /// Adds an option that may be repeated.
  void add_list_option(const char* name, std::vector<std::string>& values, const char* unit,
                       const char* description);

  /// Adds positional words: files, names.
  void add_words(std::vector<std::string>& values, const char* unit, const char* description);

  bool is_given(const char* option) const;
  /// The first option given, such as "--json"; empty if none was.
  std::string first_given() const;
  /// The option's text, if it was given.
  std::optional<std::string> if_given(const char* option, const std::string& text) const {
    return is_given(option) ? std::optional(text) : std::nullopt;
  }

  /// The words that the parser did not know.
  std::vector<std::string> leftovers() const;

  /// The words after "--".
  /// \errors  UsageError if there are none.
  const std::vector<std::string>& measured_command(const CommandLine& line) const;

 private:
  CLI::App* parser_;
};

/// Creates all subcommands, in the order of the help. Add new ones in command.cpp.
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
