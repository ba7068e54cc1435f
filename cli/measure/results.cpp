#include "measure/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "strata-results/1";
constexpr const char* kSummaryParts[] = {"median", "min", "max", "n"};

/// Seconds are fractions, down to the nanosecond that a clock can tell; bytes and counts are
/// written as the whole numbers they are.
Json number(std::string_view metric, double value) {
  if (metric.ends_with("_s")) return std::round(value * 1e9) / 1e9;
  bool is_whole = std::floor(value) == value && std::abs(value) < 1e15;
  if (is_whole) return static_cast<std::int64_t>(value);
  return value;
}

Json summary_json(std::string_view metric, const Summary& summary) {
  return {{"median", number(metric, summary.median)},
          {"min", number(metric, summary.min)},
          {"max", number(metric, summary.max)},
          {"n", summary.n}};
}

/// Text that is not UTF-8 (a file name, a program's last words) must not cost the results.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json row_json(const Row& row) {
  Json json;
  json["scenario"] = row.scenario;
  json["contender"] = row.contender;
  if (!row.version.empty()) json["version"] = row.version;
  if (!row.library.empty()) json["library"] = row.library;
  json["params"] = row.params;
  json["metrics"] = Json::object();
  for (const auto& [name, summary] : row.metrics) {
    json["metrics"][name] = summary_json(name, summary);
  }
  json["ok"] = row.ok;
  if (!row.ok) json["reason"] = row.reason;
  if (!row.last_output.empty()) json["last_output"] = row.last_output;
  return json;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_value(const Json& value) {
  return csv_field(value.is_string() ? value.get<std::string>() : dump(value, -1));
}

/// The names in the order in which they first appear.
void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

const Summary* Row::metric(std::string_view name) const noexcept {
  for (const auto& [key, summary] : metrics) {
    if (key == name) return &summary;
  }
  return nullptr;
}

std::string Results::to_json() const {
  Json json;
  json["schema"] = kSchema;
  json["strata"] = STRATA_VERSION;
  json["machine"] = machine;
  json["rows"] = Json::array();
  for (const Row& row : rows) json["rows"].push_back(row_json(row));
  return dump(json, 2) + "\n";
}

std::string Results::to_csv() const {
  std::vector<std::string> params;
  std::vector<std::string> metrics;
  for (const Row& row : rows) {
    for (const auto& [name, value] : row.params.items()) add_name(params, name);
    for (const auto& [name, summary] : row.metrics) add_name(metrics, name);
  }
  std::string text = "scenario,contender,version,library,ok,reason";
  for (const std::string& name : params)
    text += fmt::format(",{}", csv_field(fmt::format("params.{}", name)));
  for (const std::string& name : metrics) {
    for (const char* part : kSummaryParts) text += fmt::format(",{}.{}", name, part);
  }
  text += '\n';
  for (const Row& row : rows) {
    text +=
        fmt::format("{},{},{},{},{},{}", csv_field(row.scenario), csv_field(row.contender),
                    csv_field(row.version), csv_field(row.library), row.ok, csv_field(row.reason));
    for (const std::string& name : params) {
      text += ',';
      if (row.params.contains(name)) text += csv_value(row.params[name]);
    }
    for (const std::string& name : metrics) {
      const Summary* summary = row.metric(name);
      Json json = summary != nullptr ? summary_json(name, *summary) : Json::object();
      for (const char* part : kSummaryParts) {
        text += ',';
        if (json.contains(part)) text += csv_value(json[part]);
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace strata::cli
