#include "shared/cell_plan.h"

#include <fmt/format.h>

#include <optional>
#include <stdexcept>
#include <type_traits>

#include "shared/words.h"

namespace strata::cell {
namespace {

/// Calls visit(name, field) for each option that every scenario takes. The only list of them.
template <typename Plan, typename Visit>
void for_each_field(Plan& plan, Visit visit) {
  visit("contender", plan.contender);
  visit("threads", plan.threads);
  visit("seconds", plan.seconds);
  visit("ops", plan.ops);
  visit("warmup", plan.warmup);
  visit("seed", plan.seed);
  visit("sample-rate", plan.sample_rate);
  visit("board-fd", plan.board_fd);
  visit("findings-fd", plan.findings_fd);
}

template <typename Field>
void read_field(const std::string& name, const std::string& text, Field& field) {
  if constexpr (std::is_same_v<Field, std::string>) {
    field = text;
  } else {
    const std::optional<Field> value = parse_number<Field>(text);
    if (!value) {
      throw std::invalid_argument(fmt::format("--{} is '{}', which is not a number", name, text));
    }
    field = *value;
  }
}

}  // namespace

std::vector<std::string> CellPlan::words() const {
  std::vector<std::string> words = {scenario};
  const auto add = [&](const std::string& name, const auto& value) {
    words.push_back(fmt::format("--{}={}", name, value));
  };
  for_each_field(*this, add);
  for (const auto& [name, value] : options) add(name, value);
  return words;
}

CellPlan CellPlan::from_words(const std::vector<std::string>& words) {
  if (words.empty()) throw std::invalid_argument("name a scenario");
  CellPlan plan;
  plan.scenario = words.front();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) {
      throw std::invalid_argument(fmt::format("'{}' is not --option=value", word));
    }
    const std::string name = word.substr(2, equals - 2);
    const std::string text = word.substr(equals + 1);
    bool is_common = false;
    for_each_field(plan, [&](const char* field_name, auto& field) {
      if (name != field_name) return;
      read_field(name, text, field);
      is_common = true;
    });
    if (is_common) continue;
    // The last value given wins, as for the fields.
    std::erase_if(plan.options, [&](const auto& option) { return option.first == name; });
    plan.options.emplace_back(name, text);
  }
  return plan;
}

}  // namespace strata::cell
