#include "bench/cell_report.h"

#include <charconv>
#include <cmath>

#include "shared/log_buckets.h"

namespace strata::cli {
namespace {

/// The words of one line, each taken once.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string_view next() {
    std::size_t end = rest_.find(' ');
    std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return word;
  }
  template <typename Number>
  Number number() {
    std::string_view word = next();
    Number value{};
    std::from_chars(word.data(), word.data() + word.size(), value);
    return value;
  }
  std::string rest() const { return std::string(rest_); }

 private:
  std::string_view rest_;
};

void take_in(CellReport& report, double& timer_cost_ns, std::string_view line) {
  Words words(line);
  std::string_view word = words.next();
  if (word == "metric") {
    std::string name(words.next());
    auto value = words.number<double>();
    if (std::isfinite(value)) report.metrics.emplace_back(name, value);  // no JSON has others
  } else if (word == "served") {
    report.allocations = words.number<std::uint64_t>();
    words.next();  // as many frees, or the cell would have said so
    report.failed_allocations = words.number<std::uint64_t>();
  } else if (word == "timer_cost_ns") {
    timer_cost_ns = words.number<double>();
  } else if (word == "latency") {
    std::string kind(words.next());
    Latency latency;
    latency.timer_cost_ns = timer_cost_ns;
    latency.count = words.number<std::uint64_t>();
    latency.sum_ns = static_cast<double>(words.number<std::uint64_t>()) / 1000;
    latency.max_ns = static_cast<double>(words.number<std::uint64_t>()) / 1000;
    report.latencies.emplace_back(kind, std::move(latency));
  } else if (word == "bucket" && !report.latencies.empty()) {
    auto bucket = words.number<std::size_t>();
    auto samples = words.number<std::uint64_t>();
    if (bucket < LogBuckets::kCount && samples > 0) {
      report.latencies.back().second.add_bucket(bucket, samples);
    }
  } else if (word == "broken") {
    report.broken = words.rest();
  } else if (word == "wrong") {
    report.wrong = words.rest();
  } else if (word == "unfit") {
    report.unfit = words.rest();
  } else if (word == "end") {
    report.is_whole = true;
  }
}

}  // namespace

double CellReport::metric_or(std::string_view name, double fallback) const {
  for (const auto& [key, value] : metrics) {
    if (key == name) return value;
  }
  return fallback;
}

CellReport parse_cell_report(std::string_view text) {
  CellReport report;
  double timer_cost_ns = 0;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // half a line is none
    take_in(report, timer_cost_ns, text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return report;
}

}  // namespace strata::cli
