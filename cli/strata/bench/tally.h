#pragma once

#include <string>
#include <utility>
#include <vector>

#include "contenders/contender.h"
#include "measure/results.h"

namespace strata::cli {

/// The results of a contender's runs so far: an unfinished row.
struct Tally {
  Row row;
  std::size_t runs = 0;

  /// Adds a run's value; if two have the same name, the first counts.
  void add(const std::string& metric, double value) {
    for (auto& [name, series] : row.values) {
      if (name != metric) continue;
      if (series.size() < runs) series.push_back(value);
      return;
    }
    row.values.push_back({metric, {value}});
  }

  Row finished(const std::string& scenario, const Contender& contender,
               nlohmann::ordered_json params) && {
    row.scenario = scenario;
    row.contender = contender.name;
    row.version = contender.version;
    row.library = contender.library;
    row.params = std::move(params);
    for (const auto& [name, series] : row.values) row.metrics.emplace_back(name, summarize(series));
    if (row.reason.empty() && runs == 0) row.reason = kInterruptedTooEarly;
    row.ok = row.reason.empty();
    return std::move(row);
  }
};

}  // namespace strata::cli
