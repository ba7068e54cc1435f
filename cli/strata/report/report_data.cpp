#include "report/report_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "input/usage_error.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "strata-results/1";

/// A value of the file together with where it stands, so that whatever is wrong with it can be
/// said.
class Field {
 public:
  Field(const std::string& file, const Json& json, std::string path)
      : file_(file), json_(json), path_(std::move(path)) {}

  [[noreturn]] void refuse(std::string_view what) const {
    throw UsageError(fmt::format("'{}' cannot be read as results: {} {}", file_,
                                 path_.empty() ? "the file" : path_, what));
  }

  bool has(const char* name) const { return json_.is_object() && json_.contains(name); }

  Field at(const char* name) const {
    if (!json_.is_object()) refuse("is no object");
    if (!json_.contains(name)) inner(name, json_).refuse("is missing");
    return inner(name, json_[name]);
  }

  double number() const {
    if (!json_.is_number()) refuse("is no number");
    return json_.get<double>();
  }
  double number(const char* name) const { return at(name).number(); }

  bool boolean(const char* name) const {
    Field field = at(name);
    if (!field.json_.is_boolean()) field.refuse("is neither true nor false");
    return field.json_.get<bool>();
  }

  std::string text(const char* name) const {
    Field field = at(name);
    if (!field.json_.is_string()) field.refuse("is no text");
    return field.json_.get<std::string>();
  }
  std::string text_if_any(const char* name) const { return has(name) ? text(name) : std::string(); }

  const Json& object(const char* name) const {
    Field field = at(name);
    if (!field.json_.is_object()) field.refuse("is no object");
    return field.json_;
  }

  /// Calls back with every entry of the object, its name first; no such object is one without.
  template <typename Use>
  void each_entry(const char* name, Use&& use) const {
    if (!has(name)) return;
    Field field = at(name);
    for (const auto& [key, value] : object(name).items()) use(key, field.inner(key, value));
  }

  template <typename Use>
  void each_item(const char* name, Use&& use) const {
    if (!has(name)) return;
    at(name).each_item(use);
  }
  template <typename Use>
  void each_item(Use&& use) const {
    if (!json_.is_array()) refuse("is no list");
    for (std::size_t i = 0; i < json_.size(); ++i) {
      use(Field(file_, json_[i], fmt::format("{}[{}]", path_, i)));
    }
  }

 private:
  Field inner(std::string_view name, const Json& json) const {
    return {file_, json, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name)};
  }

  const std::string& file_;
  const Json& json_;
  std::string path_;
};

ReportRow::Latency read_latency(const std::string& kind, const Field& field) {
  ReportRow::Latency latency;
  latency.kind = kind;
  if (field.text("unit") != "ns") field.at("unit").refuse("is not ns");
  latency.timer_cost = field.number("timer_cost_ns");
  latency.max = field.number("max");
  field.object("percentiles");
  field.each_entry("percentiles", [&](const std::string& name, const Field& value) {
    latency.percentiles.emplace_back(name, value.number());
  });
  field.at("buckets").each_item([&](const Field& bucket) {
    std::vector<double> numbers;
    bucket.each_item([&](const Field& number) { numbers.push_back(number.number()); });
    if (numbers.size() != 3) bucket.refuse("is not [lower, upper, count]");
    double before = latency.buckets.empty() ? 0 : latency.buckets.back().upper;
    if (numbers[0] < before || numbers[1] <= numbers[0]) bucket.refuse("is out of order");
    latency.buckets.push_back({numbers[0], numbers[1], numbers[2]});
  });
  return latency;
}

ReportRow::Ratio read_ratio(const Field& field) {
  ReportRow::Ratio ratio;
  ratio.to = field.text("to");
  ratio.ratio = field.number("ratio");
  if (field.has("low") && field.has("high")) {
    ratio.low = field.number("low");
    ratio.high = field.number("high");
  }
  return ratio;
}

Summary read_summary(const Field& field) {
  Summary summary;
  summary.median = field.number("median");
  summary.min = field.number("min");
  summary.max = field.number("max");
  summary.n = static_cast<std::size_t>(std::max(0.0, field.number("n")));
  return summary;
}

ReportRow read_row(const Field& field) {
  ReportRow row;
  row.scenario = field.text("scenario");
  row.contender = field.text("contender");
  row.version = field.text_if_any("version");
  row.library = field.text_if_any("library");
  row.measurement = field.text_if_any("label");
  row.params = field.object("params");
  field.object("metrics");
  field.each_entry("metrics", [&](const std::string& name, const Field& value) {
    row.metrics.emplace_back(name, read_summary(value));
  });
  field.each_entry("values", [&](const std::string& name, const Field& list) {
    std::vector<double> numbers;
    list.each_item([&](const Field& number) { numbers.push_back(number.number()); });
    row.values.emplace_back(name, std::move(numbers));
  });
  field.each_entry("ratios", [&](const std::string& name, const Field& value) {
    row.ratios.emplace_back(name, read_ratio(value));
  });
  field.each_entry("latencies", [&](const std::string& kind, const Field& value) {
    row.latencies.push_back(read_latency(kind, value));
  });
  field.each_item("timeline", [&](const Field& point) {
    row.timeline.push_back(
        {point.number("t_s"), point.number("rss_bytes"), point.text_if_any("phase")});
  });
  row.is_broken = field.has("broken") && field.boolean("broken");
  row.ok = field.boolean("ok");
  if (!row.ok) row.reason = field.text("reason");
  row.last_output = field.text_if_any("last_output");
  return row;
}

template <typename Value>
const Value* found(const std::vector<std::pair<std::string, Value>>& list, std::string_view name) {
  for (const auto& [key, value] : list) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace

double ReportRow::Latency::percentile(std::string_view name) const {
  for (const auto& [key, value] : percentiles) {
    if (key == name) return value;
  }
  return 0;
}

const Summary* ReportRow::metric(std::string_view name) const { return found(metrics, name); }

const std::vector<double>* ReportRow::values_of(std::string_view metric) const {
  return found(values, metric);
}

const ReportRow::Ratio* ReportRow::ratio_of(std::string_view metric) const {
  return found(ratios, metric);
}

void ReportData::add(const std::string& name, std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw UsageError(fmt::format("'{}' is no JSON", name));
  Field field(name, json, "");
  if (std::string schema = field.text("schema"); schema != kSchema) {
    field.at("schema").refuse(fmt::format("is '{}', not '{}'", schema, kSchema));
  }
  ReportFile file;
  file.name = std::filesystem::path(name).filename().string();
  file.strata = field.text_if_any("strata");
  file.machine = field.object("machine");
  std::vector<ReportRow> added;
  field.at("rows").each_item([&](const Field& row) { added.push_back(read_row(row)); });
  for (ReportRow& row : added) {
    row.file = files.size();
    rows.push_back(std::move(row));
  }
  files.push_back(std::move(file));
}

}  // namespace strata::cli
