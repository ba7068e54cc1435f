#include "shared/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/words.h"

namespace strata::cell {
namespace {

const std::string* find_value(const OptionValues& values, std::string_view name) {
  const auto found = std::ranges::find(values, name, &OptionValues::value_type::first);
  return found != values.end() ? &found->second : nullptr;
}

}  // namespace

NLOHMANN_JSON_SERIALIZE_ENUM(Fits, {{Fits::kMalloc, "malloc"},
                                    {Fits::kBlocks, "blocks"},
                                    {Fits::kHeaps, "heaps"},
                                    {Fits::kAll, "all"}})
NLOHMANN_JSON_SERIALIZE_ENUM(Option::Kind, {{Option::Kind::kCount, "count"},
                                            {Option::Kind::kReal, "real"},
                                            {Option::Kind::kChoice, "choice"},
                                            {Option::Kind::kSizes, "sizes"},
                                            {Option::Kind::kPath, "path"},
                                            {Option::Kind::kFlag, "flag"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Option, name, kind, unit, default_value, lowest, highest,
                                   choices, ceiling, sentence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Scenario, name, purpose, origin, fits, takes_threads,
                                   takes_seconds, settle_s, is_listed, shown, options)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InProcessContender, name, kind, version, sentence)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Description, scenarios, contenders)

const Option* Scenario::option(std::string_view option_name) const {
  const auto found = std::ranges::find(options, option_name, &Option::name);
  return found != options.end() ? &*found : nullptr;
}

OptionValues Scenario::values(const OptionValues& given) const {
  OptionValues all;
  for (const Option& option : options) {
    const std::string* value = find_value(given, option.name);
    all.emplace_back(option.name, value != nullptr ? *value : option.default_value);
  }
  return all;
}

std::string Scenario::why_not(const OptionValues& given) const {
  for (const auto& [name_given, value] : given) {
    const Option* known = option(name_given);
    if (known == nullptr) return fmt::format("{} has no option --{}", name, name_given);
    if (std::string why = known->why_not(value); !why.empty()) return why;
  }
  const OptionValues all = values(given);
  for (const Option& limited : options) {
    if (limited.ceiling.empty()) continue;
    const std::string& value = *find_value(all, limited.name);
    const std::string& most = *find_value(all, limited.ceiling);
    if (*parse_number<std::int64_t>(value) <= *parse_number<std::int64_t>(most)) continue;
    return fmt::format("--{} {} is above --{} {}", limited.name, value, limited.ceiling, most);
  }
  return {};
}

std::string Description::to_json() const { return nlohmann::json(*this).dump(1) + "\n"; }

Description Description::from_json(std::string_view text) {
  return nlohmann::json::parse(text).get<Description>();
}

}  // namespace strata::cell
