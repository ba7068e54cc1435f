#include "harness/scenario.h"

#include <fmt/format.h>

#include <algorithm>

namespace strata::cell {
namespace {

std::vector<Scenario>& registered() {
  static std::vector<Scenario> all;
  return all;
}

Option make_option(Option::Kind kind, std::string name, std::string default_value, std::string unit,
                   std::string sentence) {
  Option option;
  option.kind = kind;
  option.name = std::move(name);
  option.default_value = std::move(default_value);
  option.unit = std::move(unit);
  option.sentence = std::move(sentence);
  return option;
}

}  // namespace

Option Option::count(std::string name, std::uint64_t default_value, std::uint64_t lowest,
                     std::uint64_t highest, std::string unit, std::string sentence) {
  Option option = make_option(Kind::kCount, std::move(name), std::to_string(default_value),
                              std::move(unit), std::move(sentence));
  option.lowest = static_cast<double>(lowest);
  option.highest = static_cast<double>(highest);
  return option;
}

Option Option::real(std::string name, double default_value, double lowest, double highest,
                    std::string unit, std::string sentence) {
  Option option = make_option(Kind::kReal, std::move(name), fmt::format("{:g}", default_value),
                              std::move(unit), std::move(sentence));
  option.lowest = lowest;
  option.highest = highest;
  return option;
}

Option Option::choice(std::string name, std::string default_value, std::vector<std::string> choices,
                      std::string sentence) {
  Option option = make_option(Kind::kChoice, std::move(name), std::move(default_value), {},
                              std::move(sentence));
  option.choices = std::move(choices);
  return option;
}

Option Option::choice_or_file(std::string name, std::string default_value,
                              std::vector<std::string> choices, std::string sentence) {
  Option option =
      choice(std::move(name), std::move(default_value), std::move(choices), std::move(sentence));
  option.kind = Kind::kChoiceOrFile;
  return option;
}

Option Option::flag(std::string name, std::string sentence) {
  Option option = make_option(Kind::kFlag, std::move(name), "no", {}, std::move(sentence));
  option.choices = {"no", "yes"};
  return option;
}

Registration::Registration(Scenario scenario) {
  std::vector<Scenario>& all = registered();
  auto next = std::find_if(all.begin(), all.end(),
                           [&](const Scenario& other) { return scenario.name < other.name; });
  all.insert(next, std::move(scenario));
}

const std::vector<Scenario>& scenarios() { return registered(); }

}  // namespace strata::cell
