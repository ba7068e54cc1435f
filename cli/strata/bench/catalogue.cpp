#include "bench/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "input/arguments.h"
#include "input/usage_error.h"
#include "process/ask_program.h"
#include "process/run_process.h"
#include "shared/sizes.h"

namespace strata::cli {
namespace {

using Json = nlohmann::json;

/// A load that needs what another command prepares.
constexpr const char* kOfStrataReplay = "replay";

ScenarioOption read_option(const Json& json) {
  ScenarioOption option;
  option.name = json.at("name");
  option.kind = json.at("kind");
  option.unit = json.at("unit");
  option.default_value = json.at("default");
  option.lowest = json.at("lowest");
  option.highest = json.at("highest");
  option.choices = json.at("choices").get<std::vector<std::string>>();
  option.sentence = json.at("sentence");
  option.ceiling = json.at("ceiling");
  return option;
}

ScenarioInfo read_scenario(const Json& json) {
  ScenarioInfo scenario;
  scenario.name = json.at("name");
  scenario.purpose = json.at("purpose");
  scenario.origin = json.at("origin");
  scenario.fits = json.at("fits");
  scenario.takes_threads = json.at("takes_threads");
  scenario.takes_seconds = json.at("takes_seconds");
  scenario.settle_s = json.at("settle_s");
  scenario.shown = json.at("shown").get<std::vector<std::string>>();
  for (const Json& option : json.at("options")) scenario.options.push_back(read_option(option));
  return scenario;
}

/// A whole number without an exponent, whatever its size.
std::string plain(double value) { return fmt::format("{:.15g}", value); }

bool is_real(std::string_view text, double& value) {
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && std::isfinite(value);
}

/// A file of sizes that no cell could read would fail all of them, one by one.
void check_sizes(const std::string& option, const std::string& path) {
  try {
    cell::Sizes(path, 1);
  } catch (const std::runtime_error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// \errors  UsageError for a name that stands for nothing, with all that do.
void refuse_unknown(const std::string& name, const Catalogue& catalogue) {
  std::vector<std::string> known = known_contenders();
  bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  if (is_known || name.find('=') != std::string::npos) return;
  for (const InProcessContender& contender : catalogue.contenders) known.push_back(contender.name);
  throw UsageError(
      fmt::format("unknown allocator '{}'; known are {}, the groups general, pools, heaps and all; "
                  "or give name=/path/to/lib.so",
                  name, fmt::join(known, ", ")));
}

}  // namespace

std::string ScenarioOption::value_name() const {
  if (kind == "count" || kind == "real") return unit.empty() ? "N" : unit;
  std::string names = fmt::format("{}", fmt::join(choices, "|"));
  return kind == "choice-or-file" ? names + "|FILE" : names;
}

std::string ScenarioOption::range() const {
  if (kind == "count" || kind == "real") {
    return fmt::format("default {}, {} to {}{}{}", default_value, plain(lowest), plain(highest),
                       unit.empty() ? "" : " ", unit);
  }
  return is_flag() ? std::string() : fmt::format("default {}", default_value);
}

void ScenarioOption::check(const std::string& text) const {
  const std::string shown = "--" + name;
  if (kind == "count") {
    parse_count(shown, text, static_cast<std::int64_t>(lowest), static_cast<std::int64_t>(highest));
  } else if (kind == "real") {
    double value = 0;
    if (!is_real(text, value) || value < lowest || value > highest) {
      throw UsageError(fmt::format("{} is '{}'; give a number from {} to {}", shown, text,
                                   plain(lowest), plain(highest)));
    }
  } else if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    if (kind == "choice-or-file" && ::access(text.c_str(), R_OK) == 0) {
      return check_sizes(shown, text);
    }
    throw UsageError(fmt::format("{} is '{}'; give {}{}", shown, text, fmt::join(choices, ", "),
                                 kind == "choice-or-file" ? " or a file that can be read" : ""));
  }
}

const ScenarioOption* ScenarioInfo::option(std::string_view option_name) const {
  for (const ScenarioOption& option : options) {
    if (option.name == option_name) return &option;
  }
  return nullptr;
}

const ScenarioInfo& Catalogue::scenario(const std::string& name) const {
  std::vector<std::string> known;
  for (const ScenarioInfo& scenario : scenarios) {
    if (scenario.name == name) return scenario;
    known.push_back(scenario.name);
  }
  throw UsageError(
      fmt::format("unknown scenario '{}'; the scenarios are: {}", name, fmt::join(known, ", ")));
}

const InProcessContender* Catalogue::contender(const std::string& name) const {
  for (const InProcessContender& contender : contenders) {
    if (contender.name == name) return &contender;
  }
  return nullptr;
}

bool Catalogue::fits(const ScenarioInfo& scenario, const Contender& candidate) const {
  if (!candidate.is_in_process || scenario.fits == "all") return true;
  const InProcessContender* info = contender(candidate.name);
  return info != nullptr && info->kind == scenario.fits;
}

Catalogue read_catalogue() {
  std::string program = helper_path("strata-cell");
  Environment environment = Environment::inherited();
  environment.drop_preloaded_allocators();
  std::string answer = ask_program(program, {"strata-cell", "--describe"}, std::move(environment));
  Catalogue catalogue;
  try {
    Json json = Json::parse(answer);
    for (const Json& entry : json.at("scenarios")) {
      const bool is_listed = entry.at("name") != kOfStrataReplay;
      (is_listed ? catalogue.scenarios : catalogue.unlisted).push_back(read_scenario(entry));
    }
    for (const Json& entry : json.at("contenders")) {
      catalogue.contenders.push_back(
          {entry.at("name"), entry.at("kind"), entry.at("version"), entry.at("sentence")});
    }
  } catch (const Json::exception&) {
    throw std::runtime_error(
        fmt::format("{} does not list its scenarios; it answered: {}", program,
                    answer.substr(0, std::min<std::size_t>(answer.size(), 200))));
  }
  return catalogue;
}

std::vector<Contender> parse_bench_contenders(const std::string& list, const Catalogue& catalogue,
                                              const std::vector<const ScenarioInfo*>& scenarios,
                                              const std::string& strata_library) {
  std::vector<Contender> contenders;
  auto add = [&](Contender contender, bool is_from_group) {
    for (const Contender& other : contenders) {
      if (other.name != contender.name) continue;
      if (is_from_group) return;
      throw UsageError(fmt::format(
          "allocator '{}' is given twice; to compare two libraries, give them two names",
          contender.name));
    }
    contenders.push_back(std::move(contender));
  };
  auto in_process = [](const InProcessContender& info) {
    return Contender{info.name, {}, info.version, true};
  };
  auto fits_any = [&](const InProcessContender& info) {
    return std::any_of(scenarios.begin(), scenarios.end(), [&](const ScenarioInfo* scenario) {
      return catalogue.fits(*scenario, in_process(info));
    });
  };
  for (const std::string& text : split_list("--allocators", list)) {
    const bool is_all = text == "all";
    if (is_all || text == "general") {
      for (Contender& contender : default_contenders(strata_library)) add(contender, true);
    }
    if (is_all || text == "pools" || text == "heaps") {
      const std::string kind = text == "pools" ? "blocks" : "heaps";
      for (const InProcessContender& candidate : catalogue.contenders) {
        if ((is_all || candidate.kind == kind) && fits_any(candidate)) {
          add(in_process(candidate), true);
        }
      }
    }
    if (is_all || text == "general" || text == "pools" || text == "heaps") continue;
    const InProcessContender* named = catalogue.contender(text);
    if (named == nullptr) {
      refuse_unknown(text, catalogue);
      add(parse_contender(text, strata_library), false);
      continue;
    }
    if (!fits_any(*named)) {
      throw UsageError(
          fmt::format("{} does not fit {}; see: strata bench list", text,
                      scenarios.size() == 1 ? scenarios.front()->name : "any of these scenarios"));
    }
    add(in_process(*named), false);
  }
  if (contenders.empty()) {
    throw UsageError(
        fmt::format("none of --allocators {} fits these scenarios; see: strata bench list", list));
  }
  return contenders;
}

}  // namespace strata::cli
