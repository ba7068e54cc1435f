#include "commands/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "input/usage_error.h"
#include "process/ask_program.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

/// Asks the library for its options, with these settings added to its environment. Empty if the
/// output is anything else.
nlohmann::json options_with(const Settings& settings, const std::string& library) {
  Environment environment = Environment::with_allocator({});
  for (const auto& [name, value] : settings) environment.set(name, value);
  const std::string answer =
      ask_program(own_path(), {"strata", "options", "--json", "--library", library}, environment);
  nlohmann::json options = nlohmann::json::parse(answer, nullptr, false);
  return options.is_array() ? options : nlohmann::json::array();
}

void expect_understood(const nlohmann::json& option, std::string_view where) {
  if (option["state"] != "invalid") return;
  const auto text = [&](const char* key) { return option[key].get<std::string>(); };
  throw UsageError(
      fmt::format("{}: {} is '{}'; give {}", where, text("name"), text("text"), text("accepts")));
}

}  // namespace

void check_settings(const Settings& settings, const std::string& library) {
  if (settings.empty()) return;
  const nlohmann::json options = options_with(settings, library);
  if (options.empty()) return;
  for (const auto& [name, value] : settings) {
    auto found = std::find_if(
        options.begin(), options.end(),
        [&wanted = name](const nlohmann::json& option) { return option["name"] == wanted; });
    if (found == options.end() || (*found)["state"] == "unknown") {
      throw UsageError(
          fmt::format("--set: {} is not an option; to list the options: strata options", name));
    }
    expect_understood(*found, "--set");
  }
}

Settings settings_of_environment(const std::string& library, const Settings& replacing) {
  const Environment environment = Environment::inherited();
  Settings found;
  const auto is_ours = [](const auto& variable) { return variable.first.starts_with("STRATA_"); };
  if (std::none_of(environment.variables().begin(), environment.variables().end(), is_ours)) {
    return found;
  }
  for (const nlohmann::json& option : options_with(replacing, library)) {
    const std::string name = option["name"];
    if (std::any_of(replacing.begin(), replacing.end(),
                    [&](const auto& setting) { return setting.first == name; })) {
      continue;
    }
    expect_understood(option, "the environment");
    if (option["state"] == "set") found.emplace_back(name, environment.get(name));
  }
  return found;
}

}  // namespace strata::cli
