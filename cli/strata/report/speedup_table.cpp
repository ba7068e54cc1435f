#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "output/units.h"
#include "report/html.h"
#include "report/plot_parts.h"
#include "report/results_tables.h"

namespace strata::cli {
namespace {

/// The speedups of one load with a number of threads, or of all loads together.
struct SpeedupRow {
  std::string load;
  double threads;
  std::map<int, double> of;  ///< by series
  std::string workers;       ///< threads or processes, where a scenario can have either
};

/// What runs side by side in the row's load; empty if its scenario has no such option.
std::string workers_of(const Row& row) {
  const auto workers = row.params.find("workers");
  return workers != row.params.end() && workers->is_string() ? workers->get<std::string>() : "";
}

std::vector<SpeedupRow> speedups(const Arrangement& all, const Sweep& sweep) {
  std::map<int, double> alone;
  std::vector<SpeedupRow> rows;
  for (const auto& [threads, index] : sweep.points) {
    SpeedupRow row{sweep.fixed, threads, {}, workers_of(*all.cells[index].entries.front().row)};
    for (const Entry& entry : all.cells[index].entries) {
      const Summary* rate = entry.row->metric("ops_per_s");
      if (!entry.row->ok || rate == nullptr || rate->median <= 0) continue;
      if (threads == 1) alone[entry.series] = rate->median;
      auto one = alone.find(entry.series);
      if (one != alone.end()) row.of[entry.series] = rate->median / one->second;
    }
    if (threads > 1 && !row.of.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

/// Means over the loads, per number of threads, of threads and processes apart; only for contenders
/// that scaled in every load.
std::vector<SpeedupRow> means_of(const std::vector<SpeedupRow>& rows) {
  struct Sum {
    std::size_t loads = 0;
    std::map<int, std::pair<std::size_t, double>> logs;  ///< their number and sum
  };
  std::map<std::pair<std::string, double>, Sum> sums;
  for (const SpeedupRow& row : rows) {
    Sum& sum = sums[{row.workers, row.threads}];
    ++sum.loads;
    for (const auto& [series, factor] : row.of) {
      ++sum.logs[series].first;
      sum.logs[series].second += std::log(factor);
    }
  }
  const bool is_of_both = !sums.empty() && sums.begin()->first.first != sums.rbegin()->first.first;
  std::vector<SpeedupRow> means;
  for (const auto& [of, sum] : sums) {
    if (sum.loads < 2) continue;
    const auto& [workers, threads] = of;
    SpeedupRow row{fmt::format("geometric mean of {}{}{}", sum.loads, is_of_both ? ", " : "",
                               is_of_both ? workers : ""),
                   threads,
                   {},
                   workers};
    for (const auto& [series, logs] : sum.logs) {
      if (logs.first != sum.loads) continue;
      row.of[series] = std::exp(logs.second / static_cast<double>(sum.loads));
    }
    means.push_back(std::move(row));
  }
  return means;
}

}  // namespace

std::string speedup_table(const Arrangement& all, const std::string& scenario) {
  std::vector<SpeedupRow> rows;
  for (const Sweep& sweep : all.sweeps) {
    if (sweep.scenario != scenario || !sweep.is_of_threads()) continue;
    std::vector<SpeedupRow> more = speedups(all, sweep);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (rows.empty()) return {};
  std::vector<SpeedupRow> means = means_of(rows);
  rows.insert(rows.begin(), means.begin(), means.end());
  std::set<int> who_scaled;
  for (const SpeedupRow& row : rows) {
    for (const auto& [series, factor] : row.of) who_scaled.insert(series);
  }
  std::string html =
      "<h3>Speed-up: the throughput over that of one thread of the same contender</h3>\n" +
      table_start("sortable");
  html += column_head("load", false) + column_head("threads");
  for (int series : who_scaled) html += column_head(who(all, series).name);
  html += kTableBody;
  for (const SpeedupRow& row : rows) {
    double best = 0;
    for (const auto& [series, factor] : row.of) best = std::max(best, factor);
    html += fmt::format("<tr><th scope=\"row\">{}</th>",
                        html_escaped(row.load.empty() ? scenario : row.load));
    html += number_field(row.threads, brief(Quantity::kCount, row.threads));
    for (int series : who_scaled) {
      auto own = row.of.find(series);
      html += own == row.of.end() ? kNoField
                                  : number_field(own->second, brief(Quantity::kRatio, own->second),
                                                 own->second == best && row.of.size() > 1);
    }
    html += "</tr>\n";
  }
  return html + kTableEnd;
}

}  // namespace strata::cli
