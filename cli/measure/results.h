#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/statistics.h"

/// \file  Results as every command writes them: docs/results.md tells the format to people,
/// docs/results-schema.json to machines.

namespace strata::cli {

/// The reason of a row without any completed run, when somebody stopped us.
inline constexpr const char* kInterruptedTooEarly = "interrupted before its first run ended";

/// One contender under one set of parameters. A row that failed is a row, with its reason.
struct Row {
  std::string scenario;
  std::string contender;
  std::string version;
  std::string library;
  nlohmann::ordered_json params = nlohmann::ordered_json::object();
  /// A metric's name ends in its unit: _s, _bytes; without one it is a count. In the order in which
  /// they shall be read.
  std::vector<std::pair<std::string, Summary>> metrics;
  bool ok = true;
  std::string reason;       ///< why not ok
  std::string last_output;  ///< the last words of a failed command

  /// nullptr if the row has no such metric.
  const Summary* metric(std::string_view name) const noexcept;
};

struct Results {
  nlohmann::ordered_json machine;
  std::vector<Row> rows;

  /// {"schema":"strata-results/1", …}, indented, with a newline at the end.
  std::string to_json() const;

  /// One line per row behind a line of names; a column for every parameter and every number of
  /// every metric that any row has. RFC 4180 quoting.
  std::string to_csv() const;
};

}  // namespace strata::cli
