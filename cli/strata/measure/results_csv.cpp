#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "measure/results.h"
#include "shared/words.h"

namespace strata::cli {
namespace {

/// The columns stand in this order; those of a group in the order in which rows have them.
enum class Group { kRow, kDetails, kParams, kMetrics, kRatios, kLatencies };
using Column = std::pair<Group, std::string>;  ///< and its title
using Fields = std::vector<std::pair<Column, std::string>>;

std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : json_line(value);
}

/// What only some commands measure.
bool has_details(const Row& row) {
  return row.failed_allocations || !row.label.empty() || row.is_broken;
}

Fields fields_of(const Row& row, const std::string& measured, bool with_details) {
  using enum Group;
  Fields fields;
  const auto add = [&](Group group, std::string title, std::string text) {
    fields.push_back({{group, std::move(title)}, std::move(text)});
  };
  const auto number = [](std::string_view metric, double value) {
    return text_of(json_number(metric, value));
  };
  const auto ratio_text = [](std::optional<double> ratio) {
    return ratio ? fmt::format("{:.4f}", *ratio) : std::string();
  };
  add(kRow, "scenario", row.scenario);
  add(kRow, "contender", row.contender);
  add(kRow, "version", row.version);
  add(kRow, "library", row.library);
  add(kRow, "ok", row.ok ? "true" : "false");
  add(kRow, "reason", row.reason);
  add(kRow, "measured", measured);
  if (with_details) {
    add(kDetails, "label", row.label);
    add(kDetails, "broken", row.is_broken ? "true" : "false");
    add(kDetails, "failed_allocations",
        row.failed_allocations ? std::to_string(*row.failed_allocations) : "");
  }
  for (const auto& [name, value] : row.params.items()) {
    add(kParams, "params." + name, text_of(value));
  }
  for (const auto& [name, summary] : row.metrics) {
    add(kMetrics, name + ".median", number(name, summary.median));
    add(kMetrics, name + ".min", number(name, summary.min));
    add(kMetrics, name + ".max", number(name, summary.max));
    add(kMetrics, name + ".n", std::to_string(summary.n));
  }
  for (const auto& [name, ratio] : row.ratios) {
    const std::string title = "ratios." + name;
    add(kRatios, title + ".to", ratio.to);
    add(kRatios, title + ".ratio", ratio_text(ratio.ratio));
    add(kRatios, title + ".low", ratio_text(ratio.low));
    add(kRatios, title + ".high", ratio_text(ratio.high));
    add(kRatios, title + ".n", std::to_string(ratio.n));
  }
  for (const auto& [kind, latency] : row.latencies) {
    const std::string title = "latencies." + kind;
    add(kLatencies, title + ".timer_cost_ns", number("_ns", latency.timer_cost_ns));
    add(kLatencies, title + ".count", std::to_string(latency.count));
    add(kLatencies, title + ".mean", number("_ns", latency.mean_ns()));
    add(kLatencies, title + ".max", number("_ns", latency.max_ns));
    for (const auto& [name, share] : kPercentiles) {
      add(kLatencies, fmt::format("{}.{}", title, name),
          number("_ns", latency.percentile_ns(share)));
    }
  }
  return fields;
}

}  // namespace

std::string Results::to_csv() const {
  const bool with_details = std::ranges::any_of(rows, has_details);
  std::vector<Fields> lines = {fields_of({}, {}, with_details)};  // its columns are always there
  for (const Row& row : rows) lines.push_back(fields_of(row, measured, with_details));
  std::vector<Column> columns;
  std::map<Column, std::string> of_line;
  for (const Fields& fields : lines) {
    for (const auto& [column, text] : fields) {
      if (of_line.try_emplace(column).second) columns.push_back(column);
    }
  }
  std::ranges::stable_sort(columns, {}, &Column::first);
  std::string csv;
  const auto add_line = [&](auto text_of_column) {
    std::vector<std::string> texts;
    for (const Column& column : columns) texts.push_back(csv_field(text_of_column(column)));
    csv += fmt::format("{}\n", fmt::join(texts, ","));
  };
  add_line([](const Column& column) { return column.second; });
  for (std::size_t i = 1; i < lines.size(); ++i) {
    for (auto& [column, text] : of_line) text.clear();
    for (auto& [column, text] : lines[i]) of_line[column] = std::move(text);
    add_line([&](const Column& column) { return of_line[column]; });
  }
  return csv;
}

}  // namespace strata::cli
