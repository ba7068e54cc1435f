#include <fmt/format.h>

#include "measure/results.h"
#include "shared/words.h"

namespace strata::cli {
namespace {

/// A CSV line of texts and numbers.
class Line {
 public:
  void add(std::string_view text) {
    if (has_fields_) text_ += ',';
    has_fields_ = true;
    text_ += csv_field(text);
  }
  void add_json(const nlohmann::ordered_json& value) {
    add(value.is_string() ? value.get<std::string>() : json_line(value));
  }
  void add_number(std::string_view metric, double value) { add_json(json_number(metric, value)); }
  void skip(std::size_t fields) {
    for (std::size_t i = 0; i < fields; ++i) add({});
  }
  std::string ended() const { return text_ + "\n"; }

 private:
  std::string text_;
  bool has_fields_ = false;
};

/// The columns of the table; those of details only if a row has any.
struct Columns {
  explicit Columns(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      add_names(params, row.params.items());
      add_names(metrics, row.metrics);
      add_names(ratios, row.ratios);
      add_names(latencies, row.latencies);
      has_details = has_details || row.failed_allocations || !row.label.empty() || row.is_broken;
    }
  }
  bool has_details = false;
  std::vector<std::string> params;  ///< of all rows, in the order of the rows
  std::vector<std::string> metrics;
  std::vector<std::string> ratios;
  std::vector<std::string> latencies;
};

std::string titles(const Columns& columns) {
  Line line;
  for (const char* name :
       {"scenario", "contender", "version", "library", "ok", "reason", "measured"}) {
    line.add(name);
  }
  auto add = [&](std::string_view prefix, const std::string& name,
                 std::initializer_list<const char*> parts) {
    for (const char* part : parts) line.add(fmt::format("{}{}.{}", prefix, name, part));
  };
  if (columns.has_details) {
    for (const char* name : {"label", "broken", "failed_allocations"}) line.add(name);
  }
  for (const std::string& name : columns.params) line.add(fmt::format("params.{}", name));
  for (const std::string& name : columns.metrics) add("", name, {"median", "min", "max", "n"});
  for (const std::string& name : columns.ratios) {
    add("ratios.", name, {"to", "ratio", "low", "high", "n"});
  }
  for (const std::string& kind : columns.latencies) {
    add("latencies.", kind, {"timer_cost_ns", "count", "mean", "max"});
    for (const NamedPercentile& percentile : kPercentiles) {
      add("latencies.", kind, {percentile.name});
    }
  }
  return line.ended();
}

void add_metric(Line& line, const std::string& name, const Summary* summary) {
  if (summary == nullptr) return line.skip(4);
  line.add_number(name, summary->median);
  line.add_number(name, summary->min);
  line.add_number(name, summary->max);
  line.add_number({}, static_cast<double>(summary->n));
}

void add_ratio(Line& line, const RatioTo* ratio) {
  if (ratio == nullptr) return line.skip(5);
  line.add(ratio->to);
  line.add(fmt::format("{:.4f}", ratio->ratio));
  for (const std::optional<double>& end : {ratio->low, ratio->high}) {
    line.add(end ? fmt::format("{:.4f}", *end) : std::string());
  }
  line.add_number({}, static_cast<double>(ratio->n));
}

void add_latency(Line& line, const Latency* latency) {
  if (latency == nullptr) return line.skip(4 + kPercentiles.size());
  line.add_number("_ns", latency->timer_cost_ns);
  line.add_number({}, static_cast<double>(latency->count));
  line.add_number("_ns", latency->mean_ns());
  line.add_number("_ns", latency->max_ns);
  for (const NamedPercentile& percentile : kPercentiles) {
    line.add_number("_ns", latency->percentile_ns(percentile.share));
  }
}

std::string line_of(const Row& row, const std::string& measured, const Columns& columns) {
  Line line;
  for (const std::string& text : {row.scenario, row.contender, row.version, row.library}) {
    line.add(text);
  }
  line.add(row.ok ? "true" : "false");
  line.add(row.reason);
  line.add(measured);
  if (columns.has_details) {
    line.add(row.label);
    line.add(row.is_broken ? "true" : "false");
    line.add(row.failed_allocations ? std::to_string(*row.failed_allocations) : std::string());
  }
  for (const std::string& name : columns.params) {
    row.params.contains(name) ? line.add_json(row.params[name]) : line.skip(1);
  }
  for (const std::string& name : columns.metrics) add_metric(line, name, row.metric(name));
  for (const std::string& name : columns.ratios) add_ratio(line, row.ratio(name));
  for (const std::string& kind : columns.latencies) add_latency(line, row.latency(kind));
  return line.ended();
}

}  // namespace

std::string Results::to_csv() const {
  Columns columns(rows);
  std::string text = titles(columns);
  for (const Row& row : rows) text += line_of(row, measured, columns);
  return text;
}

}  // namespace strata::cli
