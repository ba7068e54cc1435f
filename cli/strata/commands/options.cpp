#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "commands/command.h"
#include "contenders/contender.h"
#include "input/usage_error.h"
#include "output/table.h"
#include "output/text.h"
#include "process/environment.h"
#include "shared/record_settings.h"

namespace strata::cli {
namespace {

constexpr const char* kDescription = "List the malloc's options with their current values";
constexpr const char* kExamples = R"(Examples:
  strata options
  STRATA_SOFT_LIMIT=80% strata options
  strata options --json

Values are those of this environment. What is set is marked with *, what is not understood with !;
then the exit status is 1.)";
constexpr std::string_view kPrefix = "STRATA_";

/// Removes the library's variables from our environment while the library is loaded, because it
/// would print warnings that the table states better.
class WithoutVariables {
 public:
  WithoutVariables() {
    for (const auto& [name, value] : environment_.variables()) {
      if (name.starts_with(kPrefix)) ::unsetenv(name.c_str());
    }
  }
  ~WithoutVariables() {
    for (const auto& [name, value] : environment_.variables()) {
      if (name.starts_with(kPrefix)) ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  WithoutVariables(const WithoutVariables&) = delete;
  WithoutVariables& operator=(const WithoutVariables&) = delete;

 private:
  const Environment environment_ = Environment::inherited();
};

/// The options as reported by the library: strata_options_json() of strata/malloc.h.
nlohmann::json ask_library(const std::string& library) {
  void* handle;
  {
    const WithoutVariables hidden;
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) throw UsageError(fmt::format("could not load {}", ::dlerror()));
  using Writer = std::size_t (*)(char*, std::size_t);
  const auto write = reinterpret_cast<Writer>(::dlsym(handle, "strata_options_json"));
  std::string text(write(nullptr, 0), '\0');
  write(text.data(), text.size() + 1);
  return nlohmann::json::parse(text);
}

/// Variables of scripts, of tests and of the recorder are not mistakes.
bool is_of_others(std::string_view name) {
  const std::string recorder = record_settings::kFile;
  return name == "STRATA_BOOTSTRAP" || name == "STRATA_FUZZ_CORPUS" || name == "STRATA_SEED" ||
         name == recorder || name.starts_with(recorder + "_");
}

/// Adds variables that are named like options but unknown, with the state "unknown".
void add_unknown_names(nlohmann::json& options) {
  std::set<std::string> known;
  for (const nlohmann::json& option : options) known.insert(option["name"]);
  const Environment environment = Environment::inherited();
  for (const auto& [name, value] : environment.variables()) {
    if (!name.starts_with(kPrefix) || is_of_others(name) || known.contains(name)) continue;
    options.push_back({{"name", name}, {"state", "unknown"}, {"text", value}});
  }
}

class OptionsCommand final : public Command {
 public:
  explicit OptionsCommand(CLI::App& app) : Command(app, "options", kDescription, kExamples) {
    add_flag(
        "--json", wants_json_,
        "Print them as JSON, as strata_options_json() writes it; mistaken names are \"unknown\"");
    add_library_option(library_, "Ask this libstrata.so instead of the one beside strata");
  }

  const char* synopsis() const override { return "[options]"; }

  int execute(const CommandLine&) override {
    Contender strata = parse_contender(kStrata, library_);
    check_preload(strata);
    nlohmann::json options = ask_library(strata.library);
    add_unknown_names(options);
    if (wants_json_) {
      // Environment values may contain any bytes.
      fmt::print("{}\n", options.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      print(options);
    }
    const auto is_mistake = [](const nlohmann::json& of) {
      return of["state"] == "invalid" || of["state"] == "unknown";
    };
    return std::any_of(options.begin(), options.end(), is_mistake) ? 1 : 0;
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
      const bool is_invalid = state == "invalid";
      table.add_row({is_invalid       ? "!"
                     : state == "set" ? "*"
                                      : "",
                     name, option["value"], option["default"]},
                    is_invalid       ? Style::kBad
                    : state == "set" ? Style::kBold
                                     : Style::kPlain,
                    is_invalid
                        ? fmt::format("'{}' is not understood; give {}", printable(option["text"]),
                                      std::string(option["accepts"]))
                        : std::string(option["sentence"]),
                    is_invalid ? Style::kBad : Style::kDim);
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
