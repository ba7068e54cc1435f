#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/option.h"

/// \file  What a scenario says of itself, and what strata-cell says of all it has.

namespace strata::cell {

/// Which contenders a scenario fits; of a contender, what it is. The malloc always takes part:
/// system, strata, the peers and any library by preload.
enum class Fits {
  kMalloc,  ///< no others
  kBlocks,  ///< also those of one block size: pools
  kHeaps,   ///< also those of any size: heaps, std::pmr resources
  kAll,     ///< all of these
};

/// Values of options by their names.
using OptionValues = std::vector<std::pair<std::string, std::string>>;

/// A load as people choose it.
struct Scenario {
  std::string name;
  std::string purpose;      ///< one line: which question it answers
  std::string origin = {};  ///< whose idea it is; empty: ours
  Fits fits = Fits::kMalloc;
  std::vector<Option> options = {};
  /// The metrics that the table shows, the most important first; its ratio decides the order.
  std::vector<std::string> shown = {"ns_per_op", "peak_rss_bytes"};
  bool takes_threads = true;  ///< whether --threads means anything
  bool takes_seconds = true;  ///< whether --seconds ends it
  /// How long the process is watched after everything is freed, unless --settle says otherwise: an
  /// allocator that gives memory back after a second or two has done so by then.
  double settle_s = 3;
  bool is_listed = true;  ///< whether `strata bench` offers it

  /// nullptr if there is none of this name.
  const Option* option(std::string_view option_name) const;
  /// Every option in its order: with its value of `given` or its default.
  OptionValues values(const OptionValues& given) const;
  /// The first reason why these are not values of this scenario's options, a sentence; or empty.
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

/// All that strata-cell has: `strata-cell --describe` writes it, `strata` reads it.
struct Description {
  std::vector<Scenario> scenarios;
  std::vector<InProcessContender> contenders;

  std::string to_json() const;
  /// \errors  nlohmann::json::exception for what to_json() did not write.
  static Description from_json(std::string_view text);
};

}  // namespace strata::cell
