#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <sstream>
#include <system_error>

#include "commands/command.h"
#include "input/usage_error.h"
#include "output/say.h"
#include "output/text.h"
#include "process/signal_watch.h"

namespace strata::cli {
namespace {

constexpr const char* kDescription =
    "strata: run programs on Strata's malloc, compare allocators, measure them";
constexpr const char* kExamples = R"(Examples:
  strata run -- python3 app.py
  strata compare -- python3 app.py
  strata bench churn --threads 1,2 --json results.json
  strata report results.json -o report.html

More about a command: strata COMMAND --help)";

using Commands = std::vector<std::unique_ptr<Command>>;

/// Keeps our own files and pipes off the number of a closed standard stream. Reading or writing
/// that stream still fails, as before.
void keep_standard_numbers() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    ::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// Makes writes to a closed pipe, or beyond `ulimit -f`, fail like others, so that results are kept
/// and temporary files removed. Uses a handler, because the commands we start would inherit
/// "ignore".
void let_writes_fail() {
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (is_ignored_signal(signal)) continue;
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(signal, &action, nullptr);
  }
}

/// A reader that closes the pipe, such as `head`, needs no error message, unless SIGPIPE is
/// ignored.
void end_if_nobody_reads_output() {
  if (is_ignored_signal(SIGPIPE)) return;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&output, 1, 0) <= 0 || (output.revents & POLLERR) == 0) return;
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
}

/// Writes all of it: the parser does not know everything that a command takes, and its versions lay
/// out what they know in different ways.
class HelpFormatter final : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(const Commands& commands) : commands_(commands) {}

  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    std::string words;
    std::string options;
    std::string commands;
    for (const CLI::Option* option : app->get_options({})) {
      if (option->get_positional()) {
        words += item(option->get_name(true) + " ...", option->get_description());
        continue;
      }
      const std::string unit = option->get_type_name();
      options += item(option->get_name(false, true) + (unit.empty() ? "" : " " + unit),
                      option->get_description());
    }
    for (const CLI::App* command : app->get_subcommands({})) {
      commands += item(command->get_name(), command->get_description());
    }
    return fmt::format("{}\nUsage: strata {}\n{}{}{}\n{}\n", app->get_description(), usage(*app),
                       list("Positionals", words), list("Options", options),
                       list("Subcommands", commands), app->get_footer());
  }

 private:
  static std::string item(const std::string& name, const std::string& sentence) {
    constexpr std::size_t kColumn = 28;
    const bool is_long = name.size() + 2 >= kColumn;
    return fmt::format("  {:<{}}{}\n", is_long ? fmt::format("{}\n{:{}}", name, "", kColumn) : name,
                       kColumn - 2, sentence);
  }
  static std::string list(const char* title, const std::string& items) {
    return items.empty() ? "" : fmt::format("\n{}:\n{}", title, items);
  }
  std::string usage(const CLI::App& app) const {
    for (const auto& command : commands_) {
      if (&command->parser() == &app) return app.get_name() + " " + command->synopsis();
    }
    return "COMMAND [options] [-- command]";
  }

  const Commands& commands_;
};

/// \errors  UsageError for words that the parser left over; it accepts any, so that the message is
///          ours.
void refuse_leftovers(const Command& command) {
  const CLI::App& parser = command.parser();
  std::vector<std::string> rest = parser.remaining();
  if (rest.empty()) return;
  if (rest.front().starts_with('-')) {
    throw UsageError(fmt::format("unknown option '{}'", rest.front()));
  }
  if (!command.takes_command()) {
    throw UsageError(fmt::format("'{}' is not understood; strata {} takes options only",
                                 rest.front(), parser.get_name()));
  }
  throw UsageError(
      fmt::format("'{}' is not understood here; a command to run comes after --, as "
                  "in: strata {} -- {}",
                  rest.front(), parser.get_name(), rest.front()));
}

int dispatch(CLI::App& app, const Commands& commands, const CommandLine& line) {
  // The parser takes words in reverse order.
  std::vector<std::string> reversed(line.options.rbegin(), line.options.rend());
  app.parse(std::move(reversed));
  // Words before the command's name, or all words if none is a command.
  const std::vector<std::string> rest = app.remaining();
  for (const auto& command : commands) {
    if (!rest.empty() || !app.got_subcommand(&command->parser())) continue;
    if (line.has_separator && !command->takes_command()) {
      throw UsageError(
          fmt::format("'--' is not accepted: strata {} runs no command; strata run, strata compare "
                      "and strata record do",
                      command->parser().get_name()));
    }
    if (!command->judges_leftovers()) refuse_leftovers(*command);
    return command->act(line);
  }
  std::string known;
  for (const auto& command : commands) append_item(known, command->parser().get_name());
  if (rest.empty()) throw UsageError(fmt::format("name a command: {}", known));
  const bool is_option = rest.front().starts_with('-');
  throw UsageError(
      fmt::format("unknown {} '{}'; {}: {}", is_option ? "option" : "command", rest.front(),
                  is_option ? "options come after a command" : "the commands are", known));
}

/// "strata compare", or "strata" if no command is known yet.
std::string usage_name(const CLI::App& app) {
  for (const CLI::App* chosen : app.get_subcommands()) return "strata " + chosen->get_name();
  return "strata";
}

int report(const CLI::App& app, std::string_view sentence, int status) {
  std::string name = usage_name(app);
  say("{}: {}\n", name, sentence);
  if (status == 2) say("Usage: {} --help\n", name);
  return status;
}

int report_unwritten(const CLI::App& app, const std::error_code& why) {
  const std::string reason = why ? ": " + why.message() : "";
  return report(app, "could not write to standard output" + reason, 1);
}

/// Writes the last text. Fails unless all output was really written.
int with_output_written(const CLI::App& app, int status, std::string_view text = {}) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 &&
      std::ferror(stdout) == 0) {
    return status;
  }
  const std::error_code why(errno, std::generic_category());
  end_if_nobody_reads_output();
  return status != 0 ? status : report_unwritten(app, why);
}

int run_main(const std::vector<std::string>& arguments) {
  CLI::App app(kDescription, "strata");
  Commands commands;
  app.formatter(std::make_shared<HelpFormatter>(commands));
  app.set_version_flag("--version", "strata " STRATA_VERSION, "Print the version and exit");
  app.footer(kExamples);
  app.allow_extras();
  app.require_subcommand(0, 1);
  commands = make_commands(app);
  try {
    return with_output_written(app, dispatch(app, commands, split_at_separator(arguments)));
  } catch (const CLI::Success& success) {  // help and version
    std::ostringstream text;
    const int status = app.exit(success, text);
    return with_output_written(app, status, text.str());
  } catch (const CLI::ArgumentMismatch& error) {  // "--runs: 1 required N missing"
    std::string text = error.what();
    return report(app, text.substr(0, text.find(':')) + " needs a value", 2);
  } catch (const CLI::ValidationError& error) {  // "--json: needs a value; …"
    std::string text = error.what();
    text.erase(std::min(text.find(':'), text.size() - 1), 1);
    return report(app, text, 2);
  } catch (const CLI::ParseError& error) {
    return report(app, error.what(), 2);
  } catch (const UsageError& error) {
    return report(app, error.what(), error.status());
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::broken_pipe) end_if_nobody_reads_output();
    if (std::ferror(stdout) == 0) return report(app, error.what(), 1);
    return report_unwritten(app, error.code());
  } catch (const std::exception& error) {
    return report(app, error.what(), 1);
  }
}

}  // namespace
}  // namespace strata::cli

int main(int argc, char** argv) {
  strata::cli::keep_standard_numbers();
  strata::cli::let_writes_fail();
  return strata::cli::run_main(std::vector<std::string>(argv + 1, argv + argc));
}
