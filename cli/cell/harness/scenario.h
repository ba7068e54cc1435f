#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// \file  What a scenario says of itself. It lives in the measured program, strata-cell; `strata`
/// learns from there what scenarios and options exist (strata-cell --describe).

namespace strata::cell {

class Cell;

/// Which contenders a scenario fits. The malloc always takes part: system, strata, the peers and
/// any library by preload.
enum class Fits {
  kMalloc,  ///< no others
  kBlocks,  ///< also those of one block size: pools
  kHeaps,   ///< also those of any size: heaps, std::pmr resources
  kAll,     ///< all of these
};

/// An option of a scenario, `--name VALUE`. On the command line each takes a list, "16,64,256",
/// and is then a dimension of the matrix; a cell sees one value.
struct Option {
  enum class Kind { kCount, kReal, kChoice, kChoiceOrFile, kFlag };
  Kind kind = Kind::kCount;
  std::string name;           ///< without the dashes
  std::string default_value;  ///< of a flag "no"
  std::string unit;           ///< "bytes", "blocks", "us"; of choices empty
  std::string sentence;       ///< for the help
  double lowest = 0;          ///< kCount, kReal
  double highest = 0;
  std::vector<std::string> choices;  ///< kChoice, kChoiceOrFile
  std::string ceiling;               ///< kCount: the option that this one must not exceed; or empty

  static Option count(std::string name, std::uint64_t default_value, std::uint64_t lowest,
                      std::uint64_t highest, std::string unit, std::string sentence);
  static Option real(std::string name, double default_value, double lowest, double highest,
                     std::string unit, std::string sentence);
  static Option choice(std::string name, std::string default_value,
                       std::vector<std::string> choices, std::string sentence);
  /// What is none of the choices is the path of a file of sizes (shared/sizes.h).
  static Option choice_or_file(std::string name, std::string default_value,
                               std::vector<std::string> choices, std::string sentence);
  static Option flag(std::string name, std::string sentence);

  /// The same option, never above the one of this name.
  Option at_most(std::string other) && {
    ceiling = std::move(other);
    return std::move(*this);
  }
};

/// A load and how to run it.
struct Scenario {
  std::string name;
  std::string purpose;  ///< one line: which question it answers
  std::string origin;   ///< whose idea it is; empty: ours
  Fits fits = Fits::kMalloc;
  std::vector<Option> options;
  /// The metrics that the table shows, the most telling first; its ratio decides the order.
  std::vector<std::string> shown = {"ns_per_op", "peak_rss_bytes"};
  bool takes_threads = true;  ///< whether --threads means anything
  bool takes_seconds = true;  ///< whether --seconds ends it
  /// How long the process is watched after everything is freed, unless --settle says otherwise: an
  /// allocator that gives memory back after a second or two shall have done so.
  double settle_s = 3;
  /// Does everything: draws the operations, runs them, verifies them, reports. Called once in a
  /// process of its own.
  void (*run)(Cell& cell) = nullptr;
};

/// All of them by name.
const std::vector<Scenario>& scenarios();

/// A file of scenarios/ adds its scenario with one of these at namespace scope.
struct Registration {
  explicit Registration(Scenario scenario);
};

}  // namespace strata::cell
