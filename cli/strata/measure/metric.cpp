#include "measure/metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "shared/words.h"

namespace strata::cli {
namespace {

/// What a name's suffix means; the first match counts.
struct Ending {
  std::string_view suffix;
  Quantity quantity;
  double scale;  ///< base units per unit
  Better better;
  double parts;                ///< parts of a unit in files; 0: unrounded
  std::string_view in_column;  ///< replaces the suffix in a column heading…
  std::string_view in_words;   ///< …and in sentences
};
constexpr Ending kEndings[] = {
    {"ns_per_op", Quantity::kSeconds, 1e-9, Better::kLess, 0, "time/op", "time per operation"},
    {"_per_s", Quantity::kPerSecond, 1, Better::kMore, 1e9, "/s", " per second"},
    {"_ns", Quantity::kSeconds, 1e-9, Better::kLess, 1e3, "", ""},
    {"_s", Quantity::kSeconds, 1, Better::kLess, 1e9, "", ""},
    {"_bytes", Quantity::kBytes, 1, Better::kLess, 0, "", ""},
    {"_share", Quantity::kCount, 1, Better::kMore, 0, " share", " share"},
    {"", Quantity::kCount, 1, Better::kLess, 0, "", ""},
};

/// Metrics with more properties than their name tells.
struct Known {
  std::string_view name;
  std::string_view spoken;  ///< empty: derived from the name
  bool is_amount = false;   ///< of work
};
constexpr Known kKnown[] = {
    {"ops_per_s", "operations per second"},
    {"first_ns_per_op", "time per operation, first round"},
    {"elapsed_s", "time to finish"},
    {"startup_s", "time to start"},
    {"cpu_s", "CPU time"},
    {"peak_rss_bytes", "peak memory (RSS)"},
    {"start_rss_bytes", "memory before the load (RSS)"},
    {"loaded_rss_bytes", "memory at the end of the load (RSS)"},
    {"after_rss_bytes", "memory kept after the load (RSS)"},
    {"first_faults", "page faults, first round"},
    {"steady_faults", "page faults, steady state"},
    {"load_minor_faults", "page faults under load"},
    {"ops", "operations", true},
    {"sent", "", true},
    {"dropped", "", true},
    {"received", "", true},
    {"left", "", true},
    {"samples", "", true},
    {"peak_live_bytes", "", true},
    {"table_bytes", "tables of the harness", true},
};

const Ending& ending_of(std::string_view metric) {
  return *std::ranges::find_if(
      kEndings, [&](const Ending& ending) { return metric.ends_with(ending.suffix); });
}

const Known* find_known(std::string_view metric) {
  const Known* found = std::ranges::find(kKnown, metric, &Known::name);
  return found != std::end(kKnown) ? found : nullptr;
}

/// "after_rss" -> "after RSS".
std::string with_blanks(std::string_view name) {
  std::string words;
  while (!name.empty()) {
    const std::string_view word = take_word(name, '_');
    if (!words.empty()) words += ' ';
    words += word == "rss" ? "RSS" : word == "pss" ? "PSS" : word == "cpu" ? "CPU" : word;
  }
  return words;
}

std::string titled(std::string_view metric, std::string_view Ending::*text) {
  const Ending& ending = ending_of(metric);
  metric.remove_suffix(ending.suffix.size());
  std::string title = with_blanks(metric);
  std::string_view rest = ending.*text;
  bool joins = title.empty() || rest.empty() || rest.front() == '/' || rest.front() == ' ';
  return fmt::format("{}{}{}", title, joins ? "" : " ", rest);
}

}  // namespace

Better better(std::string_view metric) {
  const Known* known = find_known(metric);
  return known != nullptr && known->is_amount ? Better::kNeither : ending_of(metric).better;
}

Quantity quantity_of(std::string_view metric) { return ending_of(metric).quantity; }

double scale_of(std::string_view metric) { return ending_of(metric).scale; }

double file_parts(std::string_view metric) { return ending_of(metric).parts; }

std::string column_title(std::string_view metric) { return titled(metric, &Ending::in_column); }

std::string spoken_name(std::string_view metric) {
  const Known* known = find_known(metric);
  if (known != nullptr && !known->spoken.empty()) return std::string(known->spoken);
  return titled(metric, &Ending::in_words);
}

Unit column_unit(std::string_view metric, double largest) {
  const Ending& ending = ending_of(metric);
  bool is_amount = better(metric) == Better::kNeither && ending.quantity == Quantity::kCount;
  if (is_amount) return Unit::whole();  // so that numbers sent and lost can be added up
  return Unit::of_column(ending.quantity, largest, ending.scale);
}

std::string brief_metric(std::string_view metric, double value) {
  const Ending& ending = ending_of(metric);
  return brief(ending.quantity, value * ending.scale);
}

}  // namespace strata::cli
