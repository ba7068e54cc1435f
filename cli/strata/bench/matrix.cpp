#include "bench/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "input/usage_error.h"

namespace strata::cli {
namespace {

constexpr const char* kThreads = "threads";

nlohmann::ordered_json value_of(const cell::Option& option, const std::string& text) {
  if (option.kind == cell::Option::Kind::kCount) return std::stoll(text);
  if (option.kind == cell::Option::Kind::kReal) return std::stod(text);
  if (option.is_flag()) return text == "yes";
  return text;
}

/// \errors  UsageError with the sentence, unless it is empty.
void refuse(const std::string& why) {
  if (!why.empty()) throw UsageError(why);
}

/// \errors  UsageError if a value is repeated, which would give two equal cells.
void refuse_repeats(const std::string& option, const std::vector<nlohmann::ordered_json>& values) {
  std::set<std::string> seen;
  for (const nlohmann::ordered_json& value : values) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!seen.insert(text).second) {
      throw UsageError(fmt::format("--{} has {} twice", option, text));
    }
  }
}

/// The values of each option of the scenario.
SweptOptions dimensions_of(const cell::Scenario& scenario, const std::vector<int>& threads,
                           const SweptOptions& options) {
  SweptOptions dimensions;
  if (scenario.takes_threads) {
    std::vector<std::string> numbers;
    for (int number : threads) numbers.push_back(std::to_string(number));
    dimensions.emplace_back(kThreads, std::move(numbers));
  }
  for (const cell::Option& option : scenario.options) {
    std::vector<std::string> values = {option.default_value};
    for (const auto& [name, given] : options) {
      if (name != option.name) continue;
      std::vector<nlohmann::ordered_json> meant;
      for (const std::string& value : given) {
        refuse(option.why_not(value));
        meant.push_back(value_of(option, value));
      }
      refuse_repeats(name, meant);
      values = given;
    }
    dimensions.emplace_back(option.name, std::move(values));
  }
  return dimensions;
}

/// Combines each cell with every value of the dimension.
std::vector<BenchCell> swept(const std::vector<BenchCell>& cells, const std::string& name,
                             const std::vector<std::string>& values) {
  std::vector<BenchCell> all;
  for (const BenchCell& cell : cells) {
    for (const std::string& value : values) {
      BenchCell& next = all.emplace_back(cell);
      if (values.size() > 1) {
        next.varying += fmt::format("{}{}={}", cell.varying.empty() ? "" : " ", name, value);
      }
      if (name == kThreads) {
        next.threads = std::stoi(value);
      } else {
        next.options.emplace_back(name, value);
      }
    }
  }
  return all;
}

}  // namespace

std::vector<BenchCell> make_cells(const std::vector<const cell::Scenario*>& scenarios,
                                  const std::vector<int>& threads, const SweptOptions& options) {
  refuse_repeats(kThreads, std::vector<nlohmann::ordered_json>(threads.begin(), threads.end()));
  std::vector<BenchCell> all;
  for (const cell::Scenario* scenario : scenarios) {
    std::vector<BenchCell> cells(1);
    cells.front().scenario = scenario;
    for (const auto& [name, values] : dimensions_of(*scenario, threads, options)) {
      cells = swept(cells, name, values);
    }
    for (const BenchCell& cell : cells) refuse(scenario->why_not(cell.options));
    all.insert(all.end(), cells.begin(), cells.end());
  }
  return all;
}

nlohmann::ordered_json params_of(const BenchPlan& plan, const BenchCell& cell) {
  if (!cell.params.is_null()) return cell.params;
  nlohmann::ordered_json params;
  if (cell.scenario->takes_threads) params[kThreads] = cell.threads;
  for (const auto& [name, text] : cell.options) {
    std::string key = name;
    std::ranges::replace(key, '-', '_');
    params[key] = value_of(*cell.scenario->option(name), text);
  }
  params["runs"] = plan.runs;
  const cell::CellPlan& load = plan.load;
  if (load.seconds > 0 && cell.scenario->takes_seconds) params["seconds"] = load.seconds;
  if (load.ops > 0) params["ops"] = load.ops;
  params["warmup"] = load.warmup;
  params["seed"] = load.seed;
  params["sample_rate"] = load.sample_rate;
  params["settle_s"] = plan.settle_of(*cell.scenario);
  return params;
}

}  // namespace strata::cli
