#include "harness/cell_plan.h"

#include <charconv>
#include <stdexcept>
#include <string_view>

namespace strata::cell {
namespace {

[[noreturn]] void refuse(const std::string& sentence) { throw std::invalid_argument(sentence); }

template <typename Number>
Number parse(const std::string& name, const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty()) {
    refuse("--" + name + " is '" + text + "', which is not a number");
  }
  return value;
}

const Scenario& find_scenario(const std::string& name) {
  for (const Scenario& scenario : scenarios()) {
    if (scenario.name == name) return scenario;
  }
  refuse("unknown scenario '" + name + "'");
}

void set_option(CellPlan& plan, const std::string& name, const std::string& value) {
  if (name == "contender") {
    plan.contender = value;
  } else if (name == "threads") {
    plan.threads = parse<int>(name, value);
  } else if (name == "seconds") {
    plan.seconds = parse<double>(name, value);
  } else if (name == "ops") {
    plan.ops = parse<std::uint64_t>(name, value);
  } else if (name == "warmup") {
    plan.warmup = parse<int>(name, value);
  } else if (name == "seed") {
    plan.seed = parse<std::uint64_t>(name, value);
  } else if (name == "sample-rate") {
    plan.sample_rate = parse<double>(name, value);
  } else if (name == "board-fd") {
    plan.board_fd = parse<int>(name, value);
  } else if (name == "report-fd") {
    plan.report_fd = parse<int>(name, value);
  } else if (auto found = plan.options.find(name); found != plan.options.end()) {
    found->second = value;
  } else {
    refuse("unknown option --" + name);
  }
}

}  // namespace

CellPlan parse_cell_plan(const std::vector<std::string>& words) {
  if (words.empty()) refuse("name a scenario");
  CellPlan plan;
  plan.scenario = &find_scenario(words.front());
  for (const Option& option : plan.scenario->options) {
    plan.options[option.name] = option.default_value;
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string_view word(words[i]);
    std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string_view::npos) {
      refuse("'" + words[i] + "' is not --option=value");
    }
    set_option(plan, std::string(word.substr(2, equals - 2)), std::string(word.substr(equals + 1)));
  }
  for (const Option& option : plan.scenario->options) {
    if (!option.ceiling.empty() &&
        parse<std::uint64_t>(option.name, plan.options.at(option.name)) >
            parse<std::uint64_t>(option.ceiling, plan.options.at(option.ceiling))) {
      refuse("--" + option.name + " is above --" + option.ceiling);
    }
  }
  if (plan.seconds <= 0 && plan.ops == 0 && plan.scenario->takes_seconds)
    refuse("a load needs --seconds or --ops to end");
  if (plan.threads < 1) refuse("--threads is below 1");
  return plan;
}

}  // namespace strata::cell
