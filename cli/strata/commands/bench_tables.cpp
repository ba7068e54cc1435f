#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "commands/result_tables.h"
#include "measure/machine.h"
#include "measure/metric.h"
#include "output/table.h"
#include "output/text.h"
#include "output/units.h"

namespace strata::cli {
namespace {

/// The number of latency kinds that fit beside the metrics.
constexpr std::size_t kShownLatencies = 2;
constexpr NamedPercentile kShownPercentiles[] = {{"p50", 0.5}, {"p99", 0.99}};

/// "0.55" or, with the interval, "0.55 (0.54-0.57)".
std::string ratio_text(const Row& row, const std::string& metric, bool with_interval) {
  const RatioTo* ratio = row.ratio(metric);
  if (ratio == nullptr) return {};
  std::string text = format_ratio(ratio->ratio);
  if (!with_interval || !ratio->low) return text;
  return fmt::format("{} ({}-{})", text, format_ratio(*ratio->low), format_ratio(*ratio->high));
}

std::string latency_text(double ns) { return column_unit("_ns", ns).format(ns); }

/// The table of one cell: metrics and, in a matrix, a few percentiles. A single cell has all
/// percentiles, in separate tables.
class CellTable {
 public:
  CellTable(const cell::Scenario& scenario, std::span<const Row> rows, bool is_alone)
      : rows_(rows) {
    for (const std::string& metric : scenario.shown) {
      bool has_it =
          std::ranges::any_of(rows, [&](const Row& row) { return row.metric(metric) != nullptr; });
      if (has_it) metrics_.push_back(metric);
    }
    for (const Row& row : rows) add_names(is_alone ? kinds_below_ : kinds_beside_, row.latencies);
    if (kinds_beside_.size() > kShownLatencies) kinds_beside_.resize(kShownLatencies);
  }

  std::string to_text(bool colour, std::optional<std::size_t> width) const {
    std::string text = metrics_table().to_text(colour, width);
    for (const std::string& kind : kinds_below_) {
      text += '\n';
      text += latency_table(kind).to_text(colour, width);
    }
    return text;
  }

 private:
  bool is_first(const std::string& metric) const { return metric == metrics_.front(); }
  bool has_ratio(const std::string& metric) const {
    return rows_.size() > 1 && better(metric) != Better::kNeither;
  }
  static Style style_of(const Row& row) {
    return names_strata(row.contender) ? Style::kBold : Style::kPlain;
  }

  Table metrics_table() const {
    std::vector<Table::Column> columns = {{"allocator", false}};
    for (const std::string& metric : metrics_) {
      columns.push_back({column_title(metric)});
      if (is_first(metric)) columns.push_back({"spread"});
      if (has_ratio(metric)) columns.push_back({"ratio"});
    }
    for (const std::string& kind : kinds_beside_) {
      for (const NamedPercentile& percentile : kShownPercentiles) {
        bool is_lowest = percentile.share == kShownPercentiles[0].share;
        columns.push_back({is_lowest ? fmt::format("{} {}", kind, percentile.name)
                                     : std::string(percentile.name)});
      }
    }
    Table table(std::move(columns));
    for (const Row& row : rows_) add_row(table, row);
    return table;
  }

  Table latency_table(const std::string& kind) const {
    std::vector<Table::Column> columns = {{kind, false}, {"mean"}};
    for (const NamedPercentile& percentile : kPercentiles) columns.push_back({percentile.name});
    columns.push_back({"max"});
    columns.push_back({"samples"});
    Table table(std::move(columns));
    for (const Row& row : rows_) {
      const Latency* latency = row.ok ? row.latency(kind) : nullptr;
      if (latency == nullptr) continue;
      std::vector<std::string> fields = {row.contender, latency_text(latency->mean_ns())};
      for (const NamedPercentile& percentile : kPercentiles) {
        fields.push_back(latency_text(latency->percentile_ns(percentile.share)));
      }
      fields.push_back(latency_text(latency->max_ns));
      fields.push_back(std::to_string(latency->count));
      table.add_row(std::move(fields), style_of(row));
    }
    return table;
  }

  void add_row(Table& table, const Row& row) const {
    if (!row.ok) {
      table.add_remark(row.contender,
                       fmt::format("{}: {}", row.is_broken ? "broken" : "failed", row.reason),
                       Style::kBad);
      return;
    }
    std::vector<std::string> fields = {row.contender};
    for (const std::string& metric : metrics_) {
      Unit unit = column_unit(metric, largest_median(rows_, metric));
      const Summary* summary = row.metric(metric);
      fields.push_back(summary != nullptr ? unit.format(summary->median) : "");
      if (is_first(metric)) {
        fields.push_back(summary != nullptr ? format_spread(summary->spread(), summary->n) : "");
      }
      if (has_ratio(metric)) fields.push_back(ratio_text(row, metric, is_first(metric)));
    }
    for (const std::string& kind : kinds_beside_) {
      const Latency* latency = row.latency(kind);
      for (const NamedPercentile& percentile : kShownPercentiles) {
        fields.push_back(latency != nullptr ? latency_text(latency->percentile_ns(percentile.share))
                                            : "");
      }
    }
    table.add_row(std::move(fields), style_of(row));
  }

  std::span<const Row> rows_;
  std::vector<std::string> metrics_;
  std::vector<std::string> kinds_beside_;  ///< the metrics, with a few percentiles each
  std::vector<std::string> kinds_below_;   ///< in tables of their own
};

std::string method(const BenchPlan& plan) {
  std::string text = counted(plan.runs, "run") + " each, a process for each";
  if (plan.contenders.size() > 1) text += ", interleaved";
  bool takes_seconds =
      plan.load.seconds > 0 && std::ranges::any_of(plan.cells, [](const BenchCell& cell) {
        return cell.scenario->takes_seconds;
      });
  if (takes_seconds) text += fmt::format("; {:g} s", plan.load.seconds);
  if (plan.load.ops > 0)
    text += fmt::format("{} {} operations", takes_seconds ? " or" : ";", plan.load.ops);
  return text;
}

void print_last_outputs(std::span<const Row> rows, std::FILE* stream) {
  std::string shown;
  for (const Row& row : rows) {
    if (row.last_output.empty() || row.last_output == shown) continue;
    shown = row.last_output;
    fmt::print(stream, "Last output of {} ({}):\n{}", row.contender, row.scenario,
               printable_lines(row.last_output, "  "));
  }
}

}  // namespace

void print_bench(const BenchPlan& plan, const Results& results, const BenchOutcome& outcome,
                 std::FILE* stream) {
  const bool colour = wants_colour(stream);
  auto dim = [&](const std::string& text) {
    fmt::print(stream, "{}\n", styled(text, Style::kDim, colour));
  };
  const std::optional<std::size_t> width = terminal_columns(stream);
  dim(method(plan));
  dim(with_plain_spaces(machine_line(results.machine)));
  std::span<const Row> rest(results.rows);
  double timer_cost_ns = 0;
  for (std::size_t i = 0; i < outcome.rows_of_cells.size(); ++i) {
    const BenchCell& cell = plan.cells[i];
    const std::span<const Row> rows = rest.first(outcome.rows_of_cells[i]);
    rest = rest.subspan(rows.size());
    if (rows.empty()) continue;
    fmt::print(stream, "\n{}\n{}", styled(cell.title(), Style::kBold, colour),
               CellTable(*cell.scenario, rows, plan.cells.size() == 1).to_text(colour, width));
    for (const Row& row : rows) {
      for (const auto& [kind, latency] : row.latencies) {
        timer_cost_ns = std::max(timer_cost_ns, latency.timer_cost_ns);
      }
    }
  }
  fmt::print(stream, "\n");
  std::string legend = "Medians. spread: (largest - smallest run) / median.";
  if (plan.contenders.size() > 1) {
    legend += " Ratios to the first row, with a 95% interval where there are six runs.";
  }
  dim(legend);
  if (timer_cost_ns > 0) {
    dim(fmt::format("Latencies include reading the clock, {:.0f} ns.", timer_cost_ns));
  }
  for (const std::string& note : outcome.notes) dim(note + ".");
  print_last_outputs(results.rows, stream);
}

}  // namespace strata::cli
