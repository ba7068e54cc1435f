#include "bench/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "input/usage_error.h"

namespace strata::cli {
namespace {

nlohmann::ordered_json value_of(const cell::Option& option, const std::string& text) {
  if (option.kind == cell::Option::Kind::kCount) return std::stoll(text);
  if (option.kind == cell::Option::Kind::kReal) return std::stod(text);
  if (option.is_flag()) return text == "yes";
  return text;
}

/// \errors  UsageError with the sentence, if there is one.
void refuse(const std::string& why) {
  if (!why.empty()) throw UsageError(why);
}

/// \errors  UsageError if one value stands twice: its two cells would be the same.
void refuse_repeats(const std::string& option, const std::vector<nlohmann::ordered_json>& values) {
  std::set<std::string> seen;
  for (const nlohmann::ordered_json& value : values) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (!seen.insert(text).second) {
      throw UsageError(fmt::format("--{} has {} twice", option, text));
    }
  }
}

/// One dimension of a scenario's matrix.
struct Dimension {
  std::string name;
  std::vector<std::string> values;
};

std::vector<std::string> texts(const std::vector<int>& numbers) {
  std::vector<std::string> result;
  for (int number : numbers) result.push_back(std::to_string(number));
  return result;
}

std::vector<Dimension> dimensions_of(const cell::Scenario& scenario,
                                     const std::vector<int>& threads, const SweptOptions& options) {
  std::vector<Dimension> dimensions;
  if (scenario.takes_threads) dimensions.push_back({"threads", texts(threads)});
  for (const cell::Option& option : scenario.options) {
    Dimension dimension{option.name, {option.default_value}};
    for (const auto& [name, values] : options) {
      if (name != option.name) continue;
      std::vector<nlohmann::ordered_json> meant;
      for (const std::string& value : values) {
        refuse(option.why_not(value));
        meant.push_back(value_of(option, value));
      }
      refuse_repeats(name, meant);
      dimension.values = values;
    }
    dimensions.push_back(std::move(dimension));
  }
  return dimensions;
}

BenchCell make_cell(const cell::Scenario& scenario, const std::vector<Dimension>& dimensions,
                    const std::vector<std::size_t>& chosen) {
  BenchCell cell;
  cell.scenario = &scenario;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const auto& [name, values] = dimensions[i];
    const std::string& value = values[chosen[i]];
    if (values.size() > 1) {
      cell.varying += fmt::format("{}{}={}", cell.varying.empty() ? "" : " ", name, value);
    }
    if (i == 0 && scenario.takes_threads) {
      cell.threads = std::stoi(value);
    } else {
      cell.options.emplace_back(name, value);
    }
  }
  refuse(scenario.why_not(cell.options));
  return cell;
}

}  // namespace

std::vector<BenchCell> make_cells(const std::vector<const cell::Scenario*>& scenarios,
                                  const std::vector<int>& threads, const SweptOptions& options) {
  refuse_repeats("threads", std::vector<nlohmann::ordered_json>(threads.begin(), threads.end()));
  std::vector<BenchCell> cells;
  for (const cell::Scenario* scenario : scenarios) {
    const std::vector<Dimension> dimensions = dimensions_of(*scenario, threads, options);
    std::vector<std::size_t> chosen(dimensions.size(), 0);
    for (bool is_done = false; !is_done;) {
      cells.push_back(make_cell(*scenario, dimensions, chosen));
      // Counts on like an odometer, the last dimension fastest.
      std::size_t digit = dimensions.size();
      while (digit > 0 && ++chosen[digit - 1] == dimensions[digit - 1].values.size()) {
        chosen[--digit] = 0;
      }
      is_done = digit == 0;
    }
  }
  return cells;
}

nlohmann::ordered_json params_of(const BenchPlan& plan, const BenchCell& cell) {
  if (!cell.params.is_null()) return cell.params;
  nlohmann::ordered_json params;
  if (cell.scenario->takes_threads) params["threads"] = cell.threads;
  for (const auto& [name, text] : cell.options) {
    std::string key = name;
    std::replace(key.begin(), key.end(), '-', '_');
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
