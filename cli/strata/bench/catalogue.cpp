#include "bench/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "input/arguments.h"
#include "input/usage_error.h"
#include "process/run_process.h"

namespace strata::cli {
namespace {

/// \errors  UsageError for an unknown name, with all known ones.
void refuse_unknown(const std::string& name, const Catalogue& catalogue) {
  std::vector<std::string> known = known_contenders();
  bool is_known = std::ranges::find(known, name) != known.end();
  if (is_known || name.find('=') != std::string::npos) return;
  for (const cell::InProcessContender& contender : catalogue.contenders)
    known.push_back(contender.name);
  throw UsageError(
      fmt::format("unknown allocator '{}'; known are {}, the groups general, pools, heaps and all; "
                  "or give name=/path/to/lib.so",
                  name, fmt::join(known, ", ")));
}

/// \errors  UsageError for the name of a trace that is not there.
void refuse_absent_trace(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored)) {
    throw UsageError(
        fmt::format("'{}' is a folder; give a scenario, or the file of a trace", name));
  }
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(".trace");
  if (is_path && !std::filesystem::exists(name, ignored)) {
    throw UsageError(fmt::format("there is no file '{}'; strata record makes traces", name));
  }
}

}  // namespace

const cell::Scenario& Catalogue::scenario(const std::string& name) const {
  std::vector<std::string> known;
  for (const cell::Scenario& scenario : scenarios) {
    if (scenario.name == name) return scenario;
    known.push_back(scenario.name);
  }
  refuse_absent_trace(name);
  throw UsageError(
      fmt::format("unknown scenario '{}'; the scenarios are: {}", name, fmt::join(known, ", ")));
}

const cell::InProcessContender* Catalogue::contender(const std::string& name) const {
  const auto found = std::ranges::find(contenders, name, &cell::InProcessContender::name);
  return found != contenders.end() ? &*found : nullptr;
}

bool Catalogue::fits(const cell::Scenario& scenario, const Contender& candidate) const {
  if (!candidate.is_in_process || scenario.fits == cell::Fits::kAll) return true;
  const cell::InProcessContender* info = contender(candidate.name);
  return info != nullptr && info->kind == scenario.fits;
}

Catalogue read_catalogue() {
  std::string program = helper_path("strata-cell");
  const std::string answer =
      ask_program(program, {"strata-cell", "--describe"}, Environment::with_allocator({}));
  try {
    cell::Description description = cell::Description::from_json(answer);
    Catalogue catalogue;
    for (cell::Scenario& scenario : description.scenarios) {
      auto& list = scenario.is_listed ? catalogue.scenarios : catalogue.unlisted;
      list.push_back(std::move(scenario));
    }
    catalogue.contenders = std::move(description.contenders);
    return catalogue;
  } catch (const nlohmann::json::exception&) {
    throw std::runtime_error(
        fmt::format("{} does not list its scenarios; it answered: {}", program,
                    answer.substr(0, std::min<std::size_t>(answer.size(), 200))));
  }
}

std::vector<Contender> parse_bench_contenders(const std::string& list, const Catalogue& catalogue,
                                              const std::vector<const cell::Scenario*>& scenarios,
                                              const std::string& strata_library) {
  std::vector<Contender> contenders;
  auto in_process = [](const cell::InProcessContender& info) {
    return Contender{info.name, {}, info.version, true};
  };
  auto fits_any = [&](const cell::InProcessContender& info) {
    return std::ranges::any_of(scenarios, [&](const cell::Scenario* scenario) {
      return catalogue.fits(*scenario, in_process(info));
    });
  };
  auto all_of_kind = [&](cell::Fits kind) {
    std::vector<Contender> group;
    for (const cell::InProcessContender& candidate : catalogue.contenders) {
      if (candidate.kind == kind && fits_any(candidate)) group.push_back(in_process(candidate));
    }
    return group;
  };
  for (const std::string& text : split_list("--allocators", list)) {
    const bool is_all = text == "all";
    const bool is_group = is_all || text == kGeneral || text == "pools" || text == "heaps";
    if (is_all || text == kGeneral) add_group(contenders, default_contenders(strata_library));
    if (is_all || text == "pools") add_group(contenders, all_of_kind(cell::Fits::kBlocks));
    if (is_all || text == "heaps") add_group(contenders, all_of_kind(cell::Fits::kHeaps));
    if (is_group) continue;
    const cell::InProcessContender* named = catalogue.contender(text);
    if (named == nullptr) {
      refuse_unknown(text, catalogue);
      add_named(contenders, parse_contender(text, strata_library));
      continue;
    }
    if (!fits_any(*named)) {
      throw UsageError(
          fmt::format("{} does not fit {}; see: strata bench list", text,
                      scenarios.size() == 1 ? scenarios.front()->name : "any of these scenarios"));
    }
    add_named(contenders, in_process(*named));
  }
  if (contenders.empty()) {
    throw UsageError(
        fmt::format("none of --allocators {} fits these scenarios; see: strata bench list", list));
  }
  expect_use_of(strata_library, contenders);
  return contenders;
}

}  // namespace strata::cli
