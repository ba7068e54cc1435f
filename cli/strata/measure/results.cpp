#include "measure/results.h"

#include <algorithm>
#include <cmath>

#include "measure/metric.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
const Value* find_named(const std::vector<std::pair<std::string, Value>>& entries,
                        std::string_view name) noexcept {
  for (const auto& [key, value] : entries) {
    if (key == name) return &value;
  }
  return nullptr;
}

Json summary_json(std::string_view metric, const Summary& summary) {
  return {{"median", json_number(metric, summary.median)},
          {"min", json_number(metric, summary.min)},
          {"max", json_number(metric, summary.max)},
          {"n", summary.n}};
}

Json ratio_json(const RatioTo& ratio) {
  auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  Json json = {{"to", ratio.to}, {"ratio", rounded(ratio.ratio)}};
  if (ratio.low && ratio.high) {
    json["low"] = rounded(*ratio.low);
    json["high"] = rounded(*ratio.high);
  }
  json["n"] = ratio.n;
  return json;
}

Json point_json(const TimelinePoint& point) {
  Json json = {{"t_s", json_number("t_s", point.t_s)}, {"rss_bytes", point.rss_bytes}};
  if (point.pss_bytes) json["pss_bytes"] = *point.pss_bytes;
  if (point.live_bytes) json["live_bytes"] = *point.live_bytes;
  json["minor_faults"] = point.minor_faults;
  json["major_faults"] = point.major_faults;
  json["phase"] = point.phase;
  return json;
}

/// Adds what only some commands measure.
void add_details(Json& json, const Row& row) {
  for (const auto& [name, values] : row.values) {
    for (double value : values) json["values"][name].push_back(json_number(name, value));
  }
  for (const auto& [name, ratio] : row.ratios) json["ratios"][name] = ratio_json(ratio);
  for (const auto& [kind, latency] : row.latencies) json["latencies"][kind] = latency.to_json();
  for (const TimelinePoint& point : row.timeline) json["timeline"].push_back(point_json(point));
  if (row.failed_allocations) json["failed_allocations"] = *row.failed_allocations;
}

/// Deeper values are written in one line: the five numbers of a summary, the hundreds of buckets of
/// a histogram.
constexpr int kIndentedDepth = 4;

void dump(const Json& json, int depth, std::string& text) {
  if (!json.is_structured() || json.empty() || depth >= kIndentedDepth) {
    text += json_line(json);
    return;
  }
  const auto indent = static_cast<std::size_t>(2 * depth);
  text += json.is_object() ? '{' : '[';
  bool is_first = true;
  for (const auto& [key, value] : json.items()) {
    if (!is_first) text += ',';
    is_first = false;
    text += '\n';
    text.append(indent + 2, ' ');
    if (json.is_object()) text.append(json_line(Json(key))).append(": ");
    dump(value, depth + 1, text);
  }
  text += '\n';
  text.append(indent, ' ');
  text += json.is_object() ? '}' : ']';
}

Json row_json(const Row& row) {
  Json json;
  json["scenario"] = row.scenario;
  json["contender"] = row.contender;
  if (!row.version.empty()) json["version"] = row.version;
  if (!row.library.empty()) json["library"] = row.library;
  if (!row.label.empty()) json["label"] = row.label;
  json["params"] = row.params;
  json["metrics"] = Json::object();
  for (const auto& [name, summary] : row.metrics) {
    json["metrics"][name] = summary_json(name, summary);
  }
  add_details(json, row);
  json["ok"] = row.ok;
  if (row.is_broken) json["broken"] = true;
  if (!row.ok) json["reason"] = row.reason;
  if (!row.last_output.empty()) json["last_output"] = row.last_output;
  return json;
}

}  // namespace

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_number(std::string_view metric, double value) {
  if (double parts = file_parts(metric); parts > 0) return std::round(value * parts) / parts;
  bool is_whole = std::floor(value) == value && std::abs(value) < 1e15;
  if (is_whole) return static_cast<std::int64_t>(value);
  return value;
}

const Summary* Row::metric(std::string_view name) const noexcept {
  return find_named(metrics, name);
}

double Row::median(std::string_view name) const noexcept {
  const Summary* summary = metric(name);
  return summary != nullptr ? summary->median : 0;
}

double largest_median(std::span<const Row> rows, std::string_view metric) noexcept {
  double largest = 0;
  for (const Row& row : rows) {
    if (row.ok) largest = std::max(largest, row.median(metric));
  }
  return largest;
}

const std::vector<double>* Row::values_of(std::string_view name) const noexcept {
  return find_named(values, name);
}

const RatioTo* Row::ratio(std::string_view name) const noexcept { return find_named(ratios, name); }

const Latency* Row::latency(std::string_view kind) const noexcept {
  return find_named(latencies, kind);
}

std::string Results::to_json() const {
  Json json;
  json["schema"] = kResultsSchema;
  json["strata"] = strata;
  if (!measured.empty()) json["measured"] = measured;
  json["machine"] = machine;
  json["rows"] = Json::array();
  for (const Row& row : rows) json["rows"].push_back(row_json(row));
  std::string text;
  dump(json, 0, text);
  return text + "\n";
}

}  // namespace strata::cli
