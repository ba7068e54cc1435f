#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "span/page_heap.h"

namespace strata {

/// What a user may set in the environment. Defaults stand here, everything else about an option in
/// option_table().
struct Options {
  enum class Checks : std::uint8_t { kBasic, kFull };
  enum class Stats : std::uint8_t { kOff, kExit };

  Checks checks = Checks::kBasic;
  Stats stats = Stats::kOff;
  HugePages huge_pages = HugePages::kAuto;
  std::size_t cache_bytes = std::size_t{32} << 20;
  std::size_t release_delay_ms = 1000;
};

/// One row: all that is known about an option. Parser, warnings and documentation follow from it.
struct OptionRow {
  enum class Unit : std::uint8_t { kChoice, kBytes, kMilliseconds };

  std::string_view name;  ///< STRATA_<name> in the environment
  Unit unit;
  std::string_view choices;  ///< kChoice: the words, separated by '|', in the order of the enum
  std::size_t least;         ///< the range of a number, both ends included
  std::size_t most;
  std::string_view sentence;
  std::size_t (*get)(const Options&);
  void (*set)(Options&, std::size_t);
};

std::span<const OptionRow> option_table() noexcept;

/// Reads STRATA_… from the environment. What cannot be understood is named in one warning each on
/// standard error, and the default stands.
void read_options(Options& options) noexcept;

/// Sets one option from its text. \returns False, and nothing changes, if the text does not fit the
/// row.
bool set_option(const OptionRow& row, std::string_view text, Options& options) noexcept;

}  // namespace strata
