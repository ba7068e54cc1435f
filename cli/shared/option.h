#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strata::cell {

/// An option of a scenario, `--name VALUE`, declared in the scenario's file. The command line takes
/// a list, "16,64,256", which becomes a dimension of the matrix; a cell gets one value.
struct Option {
  enum class Kind { kCount, kReal, kChoice, kSizes, kPath, kFlag };
  Kind kind = Kind::kCount;
  std::string name;           ///< without the dashes
  std::string default_value;  ///< of a flag "no"
  std::string sentence;       ///< for the help
  std::string unit = {};      ///< kCount, kReal: "bytes", "blocks", "ticks"; may be empty
  double lowest = 0;          ///< kCount, kReal
  double highest = 0;
  std::vector<std::string> choices = {};  ///< kChoice, kSizes, kFlag
  /// kCount: the option whose value is the upper limit of this one; may be empty
  std::string ceiling = {};

  static Option count(std::string name, std::uint64_t default_value, std::uint64_t lowest,
                      std::uint64_t highest, std::string unit, std::string sentence);
  static Option real(std::string name, double default_value, double lowest, double highest,
                     std::string unit, std::string sentence);
  static Option choice(std::string name, std::string default_value,
                       std::vector<std::string> choices, std::string sentence);
  /// --size-dist: how sizes are drawn (shared/sizes.h), by name or from a file.
  static Option sizes(std::string default_value);
  /// A file, or "none".
  static Option path(std::string name, std::string sentence);
  static Option flag(std::string name, std::string sentence);

  /// Requires this option's value to be at most that of option `other`.
  Option at_most(std::string other) && {
    ceiling = std::move(other);
    return std::move(*this);
  }

  bool is_number() const { return kind == Kind::kCount || kind == Kind::kReal; }
  bool is_flag() const { return kind == Kind::kFlag; }
  /// The placeholder for the value in the help: "N", "bytes", "fixed|mixed|pareto|FILE".
  std::string value_name() const;
  /// "default 64, 1 to 67108864 bytes"; empty for a flag.
  std::string range() const;
  /// Returns why `text` is not a valid value: a sentence that names the option, the text and the
  /// allowed values. Empty if it is valid.
  std::string why_not(const std::string& text) const;

  bool operator==(const Option&) const = default;
};

}  // namespace strata::cell
