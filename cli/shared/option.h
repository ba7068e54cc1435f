#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace strata::cell {

/// An option of a scenario, `--name VALUE`, declared where the scenario is. On the command line
/// each takes a list, "16,64,256", and is then a dimension of the matrix; a cell sees one value.
struct Option {
  enum class Kind { kCount, kReal, kChoice, kSizes, kPath, kFlag };
  Kind kind = Kind::kCount;
  std::string name;           ///< without the dashes
  std::string default_value;  ///< of a flag "no"
  std::string sentence;       ///< for the help
  std::string unit = {};      ///< kCount, kReal: "bytes", "blocks", "us"; may be empty
  double lowest = 0;          ///< kCount, kReal
  double highest = 0;
  std::vector<std::string> choices = {};  ///< kChoice, kSizes, kFlag
  std::string ceiling = {};  ///< kCount: the option that this one must not exceed; may be empty

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

  /// The same option, never above the one of this name.
  Option at_most(std::string other) && {
    ceiling = std::move(other);
    return std::move(*this);
  }

  bool is_number() const { return kind == Kind::kCount || kind == Kind::kReal; }
  bool is_flag() const { return kind == Kind::kFlag; }
  /// "N", "bytes", "fixed|mixed|pareto|FILE": what the help shows for the value.
  std::string value_name() const;
  /// "default 64, 1 to 67108864 bytes"; empty for a flag.
  std::string range() const;
  /// Why `text` is not a value of this option: a sentence that names the option, the text and what
  /// it may be. Empty if it is one.
  std::string why_not(const std::string& text) const;

  bool operator==(const Option&) const = default;
};

}  // namespace strata::cell
