#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "input/usage_error.h"
#include "measure/results.h"

namespace strata::cli {
namespace {

using Json = nlohmann::ordered_json;

// Results have a depth of six. The library copies and writes values recursively.
constexpr int kDeepest = 100;
/// Sums, products and ratios of such numbers are still finite. Smaller numbers become 0.
constexpr double kLeast = 1e-30;
constexpr double kLargest = 1e30;

/// A value of the file and its position, for error messages.
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
    if (!json_.is_object()) refuse("is not an object");
    if (!json_.contains(name)) inner(name, json_).refuse("is missing");
    return inner(name, json_[name]);
  }

  double number() const {
    if (!json_.is_number()) refuse("is not a number");
    const auto number = json_.get<double>();
    if (std::abs(number) > kLargest) refuse("is larger than anything measured");
    return std::abs(number) < kLeast ? 0 : number;
  }
  double number(const char* name) const { return at(name).number(); }
  double number_if_any(const char* name) const { return has(name) ? number(name) : 0; }

  bool boolean(const char* name) const {
    Field field = at(name);
    if (!field.json_.is_boolean()) field.refuse("is neither true nor false");
    return field.json_.get<bool>();
  }

  std::string text(const char* name) const {
    Field field = at(name);
    if (!field.json_.is_string()) field.refuse("is not a string");
    return field.json_.get<std::string>();
  }
  std::string text_if_any(const char* name) const { return has(name) ? text(name) : std::string(); }

  const Json& object(const char* name) const {
    Field field = at(name);
    if (!field.json_.is_object()) field.refuse("is not an object");
    return field.json_;
  }

  /// Calls use(name, entry) for every entry of the object; a missing object has no entries.
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
    if (!json_.is_array()) refuse("is not a list");
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

std::uint64_t whole(double number) {
  return static_cast<std::uint64_t>(std::llround(std::max(0.0, number)));
}

Latency read_latency(const Field& field) {
  Latency latency;
  if (field.text("unit") != "ns") field.at("unit").refuse("is not ns");
  latency.timer_cost_ns = field.number("timer_cost_ns");
  latency.max_ns = field.number("max");
  field.object("percentiles");  // recomputed from the buckets
  double before = 0;
  field.at("buckets").each_item([&](const Field& bucket) {
    std::vector<double> numbers;
    bucket.each_item([&](const Field& number) { numbers.push_back(number.number()); });
    if (numbers.size() != 3) bucket.refuse("is not [lower, upper, count]");
    if (numbers[0] < before || numbers[1] <= numbers[0]) bucket.refuse("is out of order");
    before = numbers[1];
    std::uint64_t samples = whole(numbers[2]);
    if (samples == 0) return;
    latency.buckets[numbers[0]] = {numbers[1], samples};
    latency.count += samples;
  });
  latency.sum_ns = field.number("mean") * static_cast<double>(latency.count);
  return latency;
}

RatioTo read_ratio(const Field& field) {
  RatioTo ratio;
  ratio.to = field.text("to");
  ratio.ratio = field.number("ratio");
  ratio.n = whole(field.number_if_any("n"));
  if (field.has("low") && field.has("high")) {
    ratio.low = field.number("low");
    ratio.high = field.number("high");
  }
  return ratio;
}

Summary read_summary(const Field& field) {
  return {field.number("median"), field.number("min"), field.number("max"),
          whole(field.number("n"))};
}

TimelinePoint read_point(const Field& field) {
  TimelinePoint point;
  point.t_s = field.number("t_s");
  point.rss_bytes = whole(field.number("rss_bytes"));
  if (field.has("pss_bytes")) point.pss_bytes = whole(field.number("pss_bytes"));
  if (field.has("live_bytes")) point.live_bytes = whole(field.number("live_bytes"));
  point.minor_faults = whole(field.number_if_any("minor_faults"));
  point.major_faults = whole(field.number_if_any("major_faults"));
  point.phase = field.text_if_any("phase");
  return point;
}

Row read_row(const Field& field) {
  Row row;
  row.scenario = field.text("scenario");
  row.contender = field.text("contender");
  row.version = field.text_if_any("version");
  row.library = field.text_if_any("library");
  row.label = field.text_if_any("label");
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
    row.latencies.emplace_back(kind, read_latency(value));
  });
  field.each_item("timeline",
                  [&](const Field& point) { row.timeline.push_back(read_point(point)); });
  if (field.has("failed_allocations")) {
    row.failed_allocations = whole(field.number("failed_allocations"));
  }
  row.is_broken = field.has("broken") && field.boolean("broken");
  row.ok = field.boolean("ok");
  if (!row.ok) row.reason = field.text("reason");
  row.last_output = field.text_if_any("last_output");
  return row;
}

}  // namespace

Results read_results(const std::string& name, std::string_view text) {
  bool is_deep = false;
  const auto keeps = [&](int depth, Json::parse_event_t, const Json&) {
    is_deep |= depth > kDeepest;
    return depth <= kDeepest;
  };
  const Json json = Json::parse(text, keeps, false);
  if (json.is_discarded()) throw UsageError(fmt::format("'{}' is not JSON", name));
  const Field field(name, json, "");
  if (is_deep) field.refuse(fmt::format("has values more than {} levels deep", kDeepest));
  if (std::string schema = field.text("schema"); schema != kResultsSchema) {
    field.at("schema").refuse(fmt::format("is '{}', not '{}'", schema, kResultsSchema));
  }
  Results results;
  results.strata = field.text_if_any("strata");
  results.measured = field.text_if_any("measured");
  results.machine = field.object("machine");
  const Field machine = field.at("machine");
  for (const char* text_field : {"cpu", "kernel", "thp"}) machine.text_if_any(text_field);
  for (const char* number_field : {"cores", "memory_bytes"}) machine.number_if_any(number_field);
  field.at("rows").each_item([&](const Field& row) { results.rows.push_back(read_row(row)); });
  return results;
}

}  // namespace strata::cli
