#include "commands/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "input/usage_error.h"
#include "process/ask_program.h"

namespace strata::cli {
namespace {

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace

void check_settings(const Settings& settings, const std::string& library) {
  if (settings.empty()) return;
  Environment environment = Environment::with_allocator({});
  for (const auto& [name, value] : settings) environment.set(name, value);
  const std::string answer =
      ask_program(self(), {"strata", "options", "--json", "--library", library}, environment);
  const nlohmann::json options = nlohmann::json::parse(answer, nullptr, false);
  if (!options.is_array()) return;
  for (const auto& [name, value] : settings) {
    auto found = std::find_if(
        options.begin(), options.end(),
        [&wanted = name](const nlohmann::json& option) { return option["name"] == wanted; });
    if (found == options.end()) {
      throw UsageError(
          fmt::format("--set: {} is not an option; to list the options: strata options", name));
    }
    if ((*found)["state"] == "invalid") {
      throw UsageError(fmt::format("--set: {} is '{}'; give {}", name, value,
                                   (*found)["accepts"].get<std::string>()));
    }
  }
}

}  // namespace strata::cli
