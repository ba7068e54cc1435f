#include "commands/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "input/arguments.h"
#include "input/usage_error.h"
#include "output/text.h"
#include "process/program.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

/// Asks the library for its options, with these settings added to its environment. Empty if the
/// output is anything else.
nlohmann::json options_with(const Settings& settings, const std::string& library) {
  Environment environment = Environment::with_allocator({});
  environment.set(settings);
  const std::string answer =
      ask_program(own_path(), {"strata", "options", "--json", "--library", library}, environment);
  nlohmann::json options = nlohmann::json::parse(answer, nullptr, false);
  return options.is_array() ? options : nlohmann::json::array();
}

bool has_name(const Settings& settings, const std::string& name) {
  return std::ranges::find(settings, name, &Settings::value_type::first) != settings.end();
}

/// "cache_bytes" for STRATA_CACHE_BYTES.
std::string short_name(std::string_view variable) {
  std::string name(variable.substr(std::string_view("STRATA_").size()));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

void expect_understood(const nlohmann::json& option, std::string_view where) {
  if (option["state"] != "invalid") return;
  const auto text = [&](const char* key) { return option[key].get<std::string>(); };
  throw UsageError(
      fmt::format("{}: {} is '{}'; give {}", where, text("name"), text("text"), text("accepts")));
}

}  // namespace

Settings parse_settings(const std::vector<std::string>& words) {
  Settings settings;
  for (const std::string& word : words) settings.push_back(parse_setting("--set", word));
  return settings;
}

void vary(std::vector<Contender>& contenders, const std::string& word) {
  const auto [name, text] = parse_setting("--vary", word);
  const std::vector<std::string> values = split_list("--vary", text);
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) != value)
      throw UsageError(fmt::format("--vary has {} twice", *value));
    if (printable(*value) != *value)
      throw UsageError(fmt::format("--vary: '{}' cannot be part of a name; give it with --set",
                                   printable(*value)));
  }
  std::vector<Contender> varied;
  for (Contender& contender : contenders) {
    if (!is_strata(contender)) {
      varied.push_back(std::move(contender));
      continue;
    }
    if (has_name(contender.settings, name))
      throw UsageError(fmt::format("--vary: {} has a value already; give it once", name));
    for (const std::string& value : values) {
      Contender with_value = contender;
      with_value.name += fmt::format(" {}={}", short_name(name), value);
      with_value.settings.emplace_back(name, value);
      varied.push_back(std::move(with_value));
    }
  }
  contenders = std::move(varied);
}

void check_settings(const char* option, const Settings& settings, const std::string& library) {
  if (settings.empty()) return;
  const nlohmann::json options = options_with(settings, library);
  if (options.empty()) return;
  for (const auto& [name, value] : settings) {
    auto found = std::ranges::find_if(
        options, [&wanted = name](const nlohmann::json& each) { return each["name"] == wanted; });
    if (found == options.end() || (*found)["state"] == "unknown") {
      throw UsageError(fmt::format("{}: {} is not an option; to list the options: strata options",
                                   option, name));
    }
    expect_understood(*found, option);
  }
}

void check_settings_of_program(const Settings& settings, const std::string& program) {
  if (settings.empty()) return;
  if (program.empty() || linked_allocator(program).find(kStrata) == std::string::npos) {
    throw UsageError(fmt::format(
        "--set has no effect: Strata is not among the allocators; add strata{}",
        program.empty() ? " to --allocators"
                        : fmt::format(", or, for a program that has Strata linked in statically, "
                                      "set {} in the environment",
                                      settings.front().first)));
  }
  const std::string library = linked_library(program);
  check_settings("--set", settings, library.empty() ? parse_contender(kStrata).library : library);
}

Settings settings_of_environment(const std::string& library, const Settings& replacing) {
  const Environment environment = Environment::inherited();
  Settings found;
  const auto is_ours = [](const auto& variable) { return variable.first.starts_with("STRATA_"); };
  if (std::ranges::none_of(environment.variables(), is_ours)) {
    return found;
  }
  for (const nlohmann::json& option : options_with(replacing, library)) {
    const std::string name = option["name"];
    if (has_name(replacing, name)) continue;
    expect_understood(option, "the environment");
    if (option["state"] == "set") found.emplace_back(name, environment.get(name));
  }
  return found;
}

}  // namespace strata::cli
