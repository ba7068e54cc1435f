#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text_writer.h"
#include "span/huge_page_policy.h"

namespace strata {

/// What a user may set in the environment. The defaults are here; everything else about an option
/// is in option_table().
struct Options {
  enum class Checks : std::uint8_t { kBasic, kFrees, kFull, kAuto };
  enum class Leaks : std::uint8_t { kOff, kOn };
  enum class DeepBind : std::uint8_t { kDrop, kKeep };
  enum class Mismatches : std::uint8_t { kArrays, kAll };
  enum class Stats : std::uint8_t { kOff, kExit, kSignal, kBoth };
  /// Not a string literal, which would lie among those of reports: each process in which an option
  /// is set reads this text.
  static constexpr char kNoText[] = "";

  Checks checks = Checks::kAuto;
  Stats stats = Stats::kOff;
  HugePages huge_pages = HugePages::kAuto;
  std::size_t cache_bytes = std::size_t{32} << 20;
  std::size_t release_delay_ms = 1000;
  std::size_t soft_limit = 0;
  std::size_t hard_limit = 0;
  std::size_t stats_signal = 12;
  const char* stats_file = kNoText;  ///< as the environment has it, until keep_texts()
  const char* profile = kNoText;     ///< the same
  std::size_t profile_rate = std::size_t{512} << 10;
  std::size_t profile_signal = 0;
  Leaks leaks = Leaks::kOff;
  std::size_t guard_rate = std::size_t{1} << 17;
  DeepBind deep_bind = DeepBind::kDrop;
  Mismatches mismatches = Mismatches::kArrays;
  static constexpr std::size_t kRandomOff = 0;
  static constexpr std::size_t kRandomOn = SIZE_MAX;
  std::size_t random = kRandomOn;  ///< one of these two, or a seed

  /// Whether every free is verified with thread caches, at least for a while.
  bool verifies_frees() const noexcept {
    return checks == Checks::kFrees || checks == Checks::kAuto;
  }
  /// Whether what a free says besides the address is compared with the allocation: programs say it
  /// wrongly, and work with other allocators.
  bool compares_frees() const noexcept {
    return checks == Checks::kFrees || checks == Checks::kFull;
  }
};

/// One row: everything about one option. The parser, warnings, `strata options` and docs/options.md
/// follow from it.
struct OptionRow {
  enum class Unit : std::uint8_t {
    kChoice,        ///< one of a few words
    kNumber,        ///< a count
    kBytes,         ///< k, m and g understood
    kMilliseconds,  ///< a time
    kLimit,         ///< bytes, or a share of the memory of the container or the machine: 80%
    kSeed,          ///< on, off, or a number
    kText,          ///< any non-empty text, such as a file name
  };
  /// A value of unit kLimit with this bit is a share in percent, until settle_limits().
  static constexpr std::size_t kShare = std::size_t{1} << 63;

  std::string_view name;  ///< STRATA_<name> in the environment
  Unit unit;
  std::string_view choices;  ///< kChoice: the words, separated by '|', in the order of the enum
  std::size_t least;         ///< the range of a number or of a text's length, both ends included
  std::size_t most;
  std::string_view sentence;
  /// Its field in Options.
  struct Field {
    std::uint16_t offset;
    std::uint8_t bytes;
  } field;

  /// An address for kText.
  std::size_t value_of(const Options& options) const noexcept;
  void set_value(Options& options, std::size_t value) const noexcept;
};

/// The rows, each made when it is asked for.
class OptionTable {
 public:
  static constexpr std::size_t size() noexcept { return 17; }
  OptionRow operator[](std::size_t index) const noexcept;

  struct Iterator {
    std::size_t index;
    OptionRow operator*() const noexcept { return OptionTable{}[index]; }
    Iterator& operator++() noexcept { return ++index, *this; }
    bool operator==(const Iterator&) const noexcept = default;
  };
  Iterator begin() const noexcept { return {0}; }
  Iterator end() const noexcept { return {size()}; }
};

inline OptionTable option_table() noexcept { return {}; }

inline constexpr std::string_view kOptionPrefix = "STRATA_";

/// Reads STRATA_… from the environment; of two equal names the first counts, as for getenv. Each
/// entry that cannot be understood gets one warning on standard error, up to a bound, and its
/// default stands. Texts stay where the environment has them. A program with rights that its caller
/// lacks (set-user-ID) reads nothing, since options name files to write.
void read_options(Options& options) noexcept;

/// Turns limits that are shares into bytes. A soft limit above the hard one would never be reached:
/// one warning on standard error says so, and there is none.
/// \cost  for a share, some ten system calls
void settle_limits(Options& options) noexcept;

/// The seed of the process's random numbers: random itself, or the option's.
std::uint64_t seed_of(std::size_t random) noexcept;
/// Reads that option alone, without a warning, for heaps for which no malloc has read the options.
std::size_t random_of_environment() noexcept;

/// Whether read_options() has anything to read: an option, or a name that is none.
bool is_any_option_set() noexcept;

/// The row's text in the environment as it is now; nullptr if it is not set.
const char* option_in_environment(const OptionRow& row) noexcept;

/// The entry's name, if it is named like an option and is neither one nor a variable of the
/// project's other programs; otherwise empty.
/// \param entry  of the environment: NAME=text
std::string_view mistaken_name_in(const char* entry) noexcept;

/// Sets one option from its text.
/// \pre      for kText, a 0 ends `text`, and it outlives `options`
/// \returns  False, and nothing changes, if the text does not fit the row.
bool set_option(const OptionRow& row, std::string_view text, Options& options) noexcept;

/// Writes the value in a form that set_option() understands.
void write_value(const OptionRow& row, const Options& options, TextWriter& out) noexcept;

/// Writes what the row accepts, as the end of a sentence: "a number from 0 to 7 milliseconds".
void write_range(const OptionRow& row, TextWriter& out) noexcept;

}  // namespace strata
