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
#include "process/environment.h"

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

/// Takes the library's variables out of our environment while it is being loaded: it would warn of
/// what the table says better.
class WithoutVariables {
 public:
  WithoutVariables() {
    for (const std::string& entry : Environment::inherited().entries()) {
      if (!entry.starts_with(kPrefix)) continue;
      const std::size_t equals = entry.find('=');
      hidden_.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
      ::unsetenv(hidden_.back().first.c_str());
    }
  }
  ~WithoutVariables() {
    for (const auto& [name, value] : hidden_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  WithoutVariables(const WithoutVariables&) = delete;
  WithoutVariables& operator=(const WithoutVariables&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> hidden_;
};

/// The options as the library itself tells them: strata_options_json() of strata/malloc.h.
nlohmann::json ask_library(const std::string& library) {
  void* handle;
  {
    const WithoutVariables hidden;
    handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) throw UsageError(fmt::format("could not load {}", ::dlerror()));
  using Writer = std::size_t (*)(char*, std::size_t);
  const auto write = reinterpret_cast<Writer>(::dlsym(handle, "strata_options_json"));
  if (write == nullptr) {
    throw UsageError(fmt::format("{} lists no options; it is not Strata's library", library));
  }
  std::string text(write(nullptr, 0), '\0');
  write(text.data(), text.size() + 1);
  // The environment may hold any bytes.
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/true);
}

/// Text of the environment on one line of a terminal.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

class OptionsCommand final : public Command {
 public:
  explicit OptionsCommand(CLI::App& app) : Command(app, "options", kDescription, kExamples) {
    add_flag("--json", wants_json_, "Print them as JSON, as strata_options_json() writes it");
    add_option("--library", library_, "FILE",
               "Ask this libstrata.so instead of the one beside strata");
  }

  const char* synopsis() const override { return "[options]"; }

  int execute(const CommandLine&) override {
    Contender strata = parse_contender(kStrata, library_);
    check_preload(strata);
    const nlohmann::json options = ask_library(strata.library);
    if (wants_json_) {
      fmt::print("{}\n", options.dump(2));
      const auto is_invalid = [](const nlohmann::json& of) { return of["state"] == "invalid"; };
      return std::any_of(options.begin(), options.end(), is_invalid) ? 1 : 0;
    }
    Table table({{""}, {"option", false}, {"value", false}, {"default", false}});
    bool all_understood = true;
    std::set<std::string> known;
    for (const nlohmann::json& option : options) {
      const std::string name = option["name"];
      const std::string state = option["state"];
      known.insert(name);
      const bool is_invalid = state == "invalid";
      all_understood &= !is_invalid;
      table.add_row({is_invalid       ? "!"
                     : state == "set" ? "*"
                                      : "",
                     name, printable(option["value"]), option["default"]},
                    is_invalid       ? Style::kBad
                    : state == "set" ? Style::kBold
                                     : Style::kPlain,
                    is_invalid
                        ? fmt::format("'{}' is not understood; give {}", printable(option["text"]),
                                      std::string(option["accepts"]))
                        : std::string(option["sentence"]),
                    is_invalid ? Style::kBad : Style::kDim);
    }
    fmt::print("{}", table.to_text(wants_colour(stdout), terminal_columns(stdout)));
    for (const std::string& entry : Environment::inherited().entries()) {
      const std::string name = entry.substr(0, entry.find('='));
      if (!name.starts_with(kPrefix) || known.contains(name)) continue;
      fmt::print("{} is not an option\n", printable(name));
      all_understood = false;
    }
    return all_understood ? 0 : 1;
  }

 private:
  bool wants_json_ = false;
  std::string library_;
};

}  // namespace

std::unique_ptr<Command> make_options_command(CLI::App& app) {
  return std::make_unique<OptionsCommand>(app);
}

}  // namespace strata::cli
