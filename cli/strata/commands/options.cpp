#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "commands/command.h"
#include "contenders/contender.h"
#include "input/usage_error.h"
#include "output/table.h"
#include "output/text.h"

namespace strata::cli {
namespace {

constexpr const char* kOptionsExamples = R"(Examples:
  strata options
  STRATA_SOFT_LIMIT=80% strata options
  strata options --json

Values are those of this environment. What is set is marked with *, what is not understood with !;
then the exit status is 1.)";

/// The options as reported by the library: strata_options_json() of strata/malloc.h.
nlohmann::json ask_library(const std::string& library) {
  // While it is loaded, the library sees no variable: it would print warnings that the table states
  // better.
  char* none[] = {nullptr};
  char** const variables = std::exchange(::environ, none);
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ::environ = variables;
  if (handle == nullptr) throw UsageError(fmt::format("could not load {}", ::dlerror()));
  using Writer = std::size_t (*)(char*, std::size_t);
  const auto write = reinterpret_cast<Writer>(::dlsym(handle, "strata_options_json"));
  std::string text(write(nullptr, 0), '\0');
  write(text.data(), text.size() + 1);
  return nlohmann::json::parse(text);
}

class OptionsCommand final : public Command {
 public:
  explicit OptionsCommand(CLI::App& app)
      : Command(app, "options", "List the malloc's options with their current values",
                kOptionsExamples) {
    add_flag("--json", wants_json_, "Print them as JSON, as strata_options_json() writes it");
    add_library_option(library_, "Ask this libstrata.so instead of the one beside strata");
  }

  const char* synopsis() const override { return "[options]"; }

  int execute(const CommandLine&) override {
    Contender strata = parse_contender(kStrata, library_);
    check_preload(strata);
    const nlohmann::json options = ask_library(strata.library);
    if (wants_json_) {
      fmt::print("{}\n", options.dump(2));
    } else {
      print(options);
    }
    const auto is_mistake = [](const nlohmann::json& of) {
      return of["state"] == "invalid" || of["state"] == "unknown";
    };
    return std::ranges::any_of(options, is_mistake) ? 1 : 0;
  }

 private:
  static void print(const nlohmann::json& options) {
    Table table({{""}, {"option", false}, {"value", false}, {"default", false}});
    std::string unknown;
    for (const nlohmann::json& option : options) {
      const std::string name = option["name"];
      const std::string state = option["state"];
      if (state == "unknown") {
        unknown += fmt::format("! {} is not an option\n", printable(name));
        continue;
      }
      if (state == "invalid") {
        table.add_row({"!", name, option["value"], option["default"]}, Style::kBad,
                      fmt::format("'{}' is not understood; give {}", printable(option["text"]),
                                  std::string(option["accepts"])),
                      Style::kBad);
        continue;
      }
      const bool is_set = state == "set";
      table.add_row({is_set ? "*" : "", name, option["value"], option["default"]},
                    is_set ? Style::kBold : Style::kPlain, option["sentence"], Style::kDim);
    }
    fmt::print("{}{}", table.to_text(wants_colour(stdout), terminal_columns(stdout)), unknown);
  }

  bool wants_json_ = false;
  std::string library_;
};

}  // namespace

std::unique_ptr<Command> make_options_command(CLI::App& app) {
  return std::make_unique<OptionsCommand>(app);
}

}  // namespace strata::cli
