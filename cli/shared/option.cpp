#include "shared/option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>

#include "shared/sizes.h"
#include "shared/words.h"

namespace strata::cell {
namespace {

/// Formats a whole number without an exponent.
std::string plain(double value) { return fmt::format("{:.15g}", value); }

template <typename Number>
bool is_between(const std::string& text, double lowest, double highest) {
  const std::optional<Number> value = parse_number<Number>(text);
  return value && static_cast<double>(*value) >= lowest && static_cast<double>(*value) <= highest;
}

/// Checks a file of sizes once, so that an unreadable one does not fail every cell.
std::string why_not_sizes(const std::string& path) {
  try {
    Sizes(path, 1);
    return {};
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace

Option Option::count(std::string name, std::uint64_t default_value, std::uint64_t lowest,
                     std::uint64_t highest, std::string unit, std::string sentence) {
  return {.kind = Kind::kCount,
          .name = std::move(name),
          .default_value = std::to_string(default_value),
          .sentence = std::move(sentence),
          .unit = std::move(unit),
          .lowest = static_cast<double>(lowest),
          .highest = static_cast<double>(highest)};
}

Option Option::real(std::string name, double default_value, double lowest, double highest,
                    std::string unit, std::string sentence) {
  return {.kind = Kind::kReal,
          .name = std::move(name),
          .default_value = fmt::format("{:g}", default_value),
          .sentence = std::move(sentence),
          .unit = std::move(unit),
          .lowest = lowest,
          .highest = highest};
}

Option Option::choice(std::string name, std::string default_value, std::vector<std::string> choices,
                      std::string sentence) {
  return {.kind = Kind::kChoice,
          .name = std::move(name),
          .default_value = std::move(default_value),
          .sentence = std::move(sentence),
          .choices = std::move(choices)};
}

Option Option::sizes(std::string default_value) {
  return {.kind = Kind::kSizes,
          .name = "size-dist",
          .default_value = std::move(default_value),
          .sentence = "how sizes are drawn; or a FILE of lines bytes,weight",
          .choices = {"fixed", "mixed", "pareto"}};
}

Option Option::path(std::string name, std::string sentence) {
  return {.kind = Kind::kPath,
          .name = std::move(name),
          .default_value = "none",
          .sentence = std::move(sentence)};
}

Option Option::flag(std::string name, std::string sentence) {
  return {.kind = Kind::kFlag,
          .name = std::move(name),
          .default_value = "no",
          .sentence = std::move(sentence),
          .choices = {"no", "yes"}};
}

std::string Option::value_name() const {
  if (is_number()) return unit.empty() ? "N" : unit;
  if (kind == Kind::kPath) return "FILE";
  return fmt::format("{}{}", fmt::join(choices, "|"), kind == Kind::kSizes ? "|FILE" : "");
}

std::string Option::range() const {
  if (is_flag()) return {};
  if (!is_number()) return fmt::format("default {}", default_value);
  return fmt::format("default {}, {} to {}{}{}", default_value, plain(lowest), plain(highest),
                     unit.empty() ? "" : " ", unit);
}

std::string Option::why_not(const std::string& text) const {
  const auto refusal = [&](const std::string& accepted) {
    return fmt::format("--{} is '{}'; give {}", name, text, accepted);
  };
  switch (kind) {
    case Kind::kCount:
      if (is_between<std::int64_t>(text, lowest, highest)) return {};
      return refusal(fmt::format("a whole number from {} to {}", plain(lowest), plain(highest)));
    case Kind::kReal:
      if (is_between<double>(text, lowest, highest)) return {};
      return refusal(fmt::format("a number from {} to {}", plain(lowest), plain(highest)));
    case Kind::kPath:
      return {};
    default:
      break;
  }
  if (std::ranges::find(choices, text) != choices.end()) return {};
  const std::string names = fmt::format("one of {}", fmt::join(choices, ", "));
  if (kind != Kind::kSizes) return refusal(names);
  if (::access(text.c_str(), R_OK) != 0) return refusal(names + ", or a file that can be read");
  const std::string why = why_not_sizes(text);
  return why.empty() ? why : fmt::format("--{}: {}", name, why);
}

}  // namespace strata::cell
