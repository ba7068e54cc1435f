#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/option.h"

/// \file  The description of a scenario, and of everything that strata-cell offers.

namespace strata::cell {

/// Which contenders a scenario accepts; for a contender, its kind. Every scenario accepts a malloc:
/// the system's, strata, the peers and any preloaded library.
enum class Fits {
  kMalloc,  ///< a malloc only
  kBlocks,  ///< also pools, which have one block size
  kHeaps,   ///< also heaps and std::pmr resources, which take any size
  kAll,     ///< all of these
};

using OptionValues = std::vector<std::pair<std::string, std::string>>;

/// A scenario as the user sees it.
struct Scenario {
  std::string name;
  std::string purpose;      ///< one line: which question it answers
  std::string origin = {};  ///< whose idea it is; empty: ours
  Fits fits = Fits::kMalloc;
  std::vector<Option> options = {};
  /// The metrics of the table, most important first. The first has its spread beside it, and its
  /// ratio has an interval.
  std::vector<std::string> shown = {"ns_per_op", "peak_rss_bytes"};
  bool takes_threads = true;  ///< whether --threads applies
  bool takes_seconds = true;  ///< whether --seconds ends the load
  /// How long the process is watched after everything is freed, unless --settle overrides it.
  /// Allocators that return memory after a second or two have done so by then.
  double settle_s = 3;
  bool is_listed = true;  ///< whether `strata bench` offers it

  /// Returns nullptr if no option has this name.
  const Option* option(std::string_view option_name) const;
  /// Returns all options in their order, each with its value in `given` or its default.
  OptionValues values(const OptionValues& given) const;
  /// Returns the first reason why `given` is not valid for this scenario, as a sentence, or empty.
  std::string why_not(const OptionValues& given) const;

  bool operator==(const Scenario&) const = default;
};

/// A contender that lives in the measured process.
struct InProcessContender {
  std::string name;
  Fits kind = Fits::kBlocks;  ///< or kHeaps
  std::string version;
  std::string sentence;

  bool operator==(const InProcessContender&) const = default;
};

/// Everything that strata-cell offers: `strata-cell --describe` writes it, `strata` reads it.
struct Description {
  std::vector<Scenario> scenarios;
  std::vector<InProcessContender> contenders;

  std::string to_json() const;
  /// \errors  nlohmann::json::exception if to_json() did not write the text.
  static Description from_json(std::string_view text);
};

}  // namespace strata::cell
