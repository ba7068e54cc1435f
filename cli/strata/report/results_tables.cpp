#include "report/results_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "measure/metric.h"
#include "report/html.h"
#include "report/plot_parts.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr NamedPercentile kShownPercentiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}};
constexpr const char* kKept = "after_rss_bytes";

/// Whether the row has the best median of its cell, and another row is worse.
bool is_best(const Cell& cell, const Row& row, const std::string& metric) {
  const Summary* mine = row.metric(metric);
  if (mine == nullptr || !row.ok || better(metric) == Better::kNeither) return false;
  bool is_better = false;
  for (const Entry& entry : cell.entries) {
    const Summary* other = entry.row->metric(metric);
    if (other == nullptr || !entry.row->ok) continue;
    double lead = better(metric) == Better::kMore ? mine->median - other->median
                                                  : other->median - mine->median;
    if (lead < 0) return false;
    is_better |= lead > 0;
  }
  return is_better;
}

std::string interval(const RatioTo& ratio) {
  if (!ratio.low || !ratio.high) return {};
  return fmt::format("{:.2f}–{:.2f}", *ratio.low, *ratio.high);
}

std::string ratio_field(const Cell& cell, const Row& row, const std::string& metric) {
  RatioTo ratio = ratio_to_baseline(cell, row, metric);
  if (!(ratio.ratio > 0)) return kNoField;
  return number_field(ratio.ratio, brief(Quantity::kRatio, ratio.ratio), false, interval(ratio));
}

/// The latencies of the first kind of operation.
const Latency* first_latency(const Row& row) {
  return row.latencies.empty() ? nullptr : &row.latencies.front().second;
}

struct Columns {
  bool has_params = false;
  bool has_measurements = false;
  bool has_latencies = false;
  std::vector<std::string> metrics;
  std::set<std::string> rated;  ///< metrics with a ratio column beside them
  std::size_t numbers = 0;      ///< columns of numbers
};

/// The columns that compare loads: speed, memory, latency. Everything else is in each cell's table,
/// because a table of all metrics fits on no screen and no paper.
Columns columns_of(const Arrangement& all) {
  Columns columns;
  auto add = [&](const std::string& metric) {
    bool has_it =
        std::ranges::any_of(all.cells, [&](const Cell& cell) { return cell.has(metric); });
    if (has_it) add_name(columns.metrics, metric);
  };
  columns.rated.insert(kPeakMetric);
  for (const Cell& cell : all.cells) {
    columns.rated.insert(speed_metric(cell));
    add(speed_metric(cell));
  }
  add(kPeakMetric);
  add(kKept);
  for (const Cell& cell : all.cells) {
    columns.has_params |= !cell.title.empty();
    for (const Entry& entry : cell.entries) {
      columns.has_latencies |= first_latency(*entry.row) != nullptr;
    }
  }
  for (const Series& series : all.series) columns.has_measurements |= !series.measurement.empty();
  for (const std::string& metric : columns.metrics)
    columns.numbers += columns.rated.contains(metric) ? 2 : 1;
  if (columns.has_latencies) columns.numbers += std::size(kShownPercentiles);
  return columns;
}

std::string table_row(const Cell& cell, const Entry& entry, const Columns& columns) {
  const Row& row = *entry.row;
  std::string html = fmt::format("<tr data-series=\"{}\"><th scope=\"row\">{}</th>", entry.series,
                                 html_escaped(row.contender));
  html += text_field(cell.scenario);
  if (columns.has_params) html += text_field(cell.title);
  if (columns.has_measurements) html += text_field(row.label);
  if (!row.ok) {
    std::string why = (row.is_broken ? "broken: " : "failed: ") + row.reason;
    return html + fmt::format("<td class=\"why\" data-v=\"\" colspan=\"{}\">{}</td></tr>\n",
                              columns.numbers, html_escaped(why));
  }
  for (const std::string& metric : columns.metrics) {
    const Summary* summary = row.metric(metric);
    html += summary == nullptr
                ? kNoField
                : number_field(summary->median, brief_metric(metric, summary->median),
                               is_best(cell, row, metric));
    if (columns.rated.contains(metric)) html += ratio_field(cell, row, metric);
  }
  if (columns.has_latencies) {
    const Latency* latency = first_latency(row);
    for (const auto& [name, share] : kShownPercentiles) {
      double value = latency != nullptr ? latency->percentile_ns(share) : 0;
      html += value > 0 ? number_field(value, time_text(value * 1e-9)) : kNoField;
    }
  }
  return html + "</tr>\n";
}

std::string fact_name(std::string_view key) {
  static const std::map<std::string_view, std::string_view> known = {
      {"cpu", "processor"},        {"cores", "usable cores"}, {"memory_bytes", "memory"},
      {"page_bytes", "OS page"},   {"libc", "C library"},     {"thp", "transparent huge pages"},
      {"overcommit", "overcommit"}};
  auto found = known.find(key);
  if (found != known.end()) return std::string(found->second);
  std::string name(key);
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string fact_value(std::string_view key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() && key.ends_with("_bytes")) {
    return brief(Quantity::kBytes, value.get<double>());
  }
  return json_line(value);
}

std::string facts(const ReportFile& file) {
  std::string html = "<dl>";
  for (const auto& [key, value] : file.machine.items()) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>", html_escaped(fact_name(key)),
                        html_escaped(fact_value(key, value)));
  }
  if (!file.strata.empty()) {
    html += fmt::format("<dt>measured by</dt><dd>strata {}</dd>", html_escaped(file.strata));
  }
  if (!file.measured.empty()) {
    html += fmt::format("<dt>measured</dt><dd>{}</dd>", html_escaped(file.measured));
  }
  return html + "</dl>\n";
}

}  // namespace

std::string results_table(const Arrangement& all) {
  Columns columns = columns_of(all);
  std::string html = table_start("sortable");
  html += column_head("contender", false) + column_head("scenario", false);
  if (columns.has_params) html += column_head("parameters", false);
  if (columns.has_measurements) html += column_head("measurement", false);
  for (const std::string& metric : columns.metrics) {
    html += column_head(spoken_name(metric));
    if (columns.rated.contains(metric)) html += column_head("ratio (95%)");
  }
  if (columns.has_latencies) {
    for (const auto& [name, share] : kShownPercentiles) {
      html += column_head(fmt::format("latency {}", name));
    }
  }
  html += kTableBody;
  for (const Cell& cell : all.cells) {
    for (const Entry& entry : cell.entries) html += table_row(cell, entry, columns);
  }
  return html + kTableEnd;
}

std::string cell_table(const Arrangement& all, const Cell& cell) {
  std::string html = "<details><summary>All numbers</summary>" + table_start("") +
                     "<th scope=\"col\">median (lowest–highest)</th>";
  std::vector<Entry> shown;
  std::vector<std::string> metrics;
  for (const Entry& entry : cell.entries) {
    if (entry.row->metrics.empty()) continue;
    shown.push_back(entry);
    add_names(metrics, entry.row->metrics);
    html +=
        fmt::format("<th class=\"n\" scope=\"col\">{}</th>", html_escaped(who(all, entry).name));
  }
  if (shown.empty()) return {};
  html += kTableBody;
  for (const std::string& metric : metrics) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(spoken_name(metric)));
    for (const Entry& entry : shown) {
      const Summary* summary = entry.row->metric(metric);
      if (summary == nullptr) {
        html += "<td></td>";
        continue;
      }
      std::string range = fmt::format("{}–{}", brief_metric(metric, summary->min),
                                      brief_metric(metric, summary->max));
      html += number_field(summary->median, brief_metric(metric, summary->median),
                           is_best(cell, *entry.row, metric), summary->n > 1 ? range : "");
    }
    html += "</tr>\n";
  }
  return html + kTableEnd + "</details>\n";
}

std::string failure_list(const Arrangement& all, const Cell& cell) {
  std::string html;
  for (const Entry& entry : cell.entries) {
    const Row& row = *entry.row;
    if (row.ok) continue;
    html += fmt::format("<li><b>{}</b> {}: {}", html_escaped(who(all, entry).name),
                        row.is_broken ? "is broken" : "failed", html_escaped(row.reason));
    if (!row.last_output.empty())
      html += fmt::format("<pre>{}</pre>", html_escaped(row.last_output));
    html += "</li>\n";
  }
  return html.empty() ? html : "<ul class=\"failures\">\n" + html + "</ul>\n";
}

std::string machine_html(const Arrangement& all) {
  const std::vector<ReportFile>& files = all.data.files;
  std::string html;
  bool is_same = std::ranges::all_of(files, [&](const ReportFile& file) {
    return file.machine == files.front().machine && file.strata == files.front().strata &&
           file.measured == files.front().measured;
  });
  for (const ReportFile& file : files) {
    if (files.size() > 1 && !is_same) {
      html += fmt::format("<h3>{}</h3>", html_escaped(file.name));
    }
    html += facts(file);
    if (is_same) break;
  }
  html += table_start("") +
          "<th scope=\"col\">contender</th><th scope=\"col\">version</th>"
          "<th scope=\"col\">library</th>" +
          kTableBody;
  for (const Series& series : all.series) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>{}{}</tr>\n", html_escaped(series.name),
                        text_field(series.version), text_field(series.library));
  }
  return html + kTableEnd;
}

}  // namespace strata::cli
