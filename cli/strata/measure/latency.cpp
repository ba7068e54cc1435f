#include "measure/latency.h"

#include <algorithm>
#include <cmath>

#include "shared/log_buckets.h"

namespace strata::cli {
namespace {

double ns(std::uint64_t ps) { return static_cast<double>(ps) / 1000; }

/// Rounds to a picosecond, the clock's limit.
double rounded(double value) { return std::round(value * 1000) / 1000; }

}  // namespace

Latency::Latency(const cell::CellFindings::Latency& told, double timer_cost)
    : count(told.count),
      sum_ns(ns(told.sum_ps)),
      max_ns(ns(told.max_ps)),
      timer_cost_ns(timer_cost) {
  for (const auto& [bucket, samples] : told.buckets) add_bucket(bucket, samples);
}

void Latency::add_bucket(std::size_t bucket, std::uint64_t samples) {
  double upper = ns(cell::LogBuckets::lower_of(bucket + 1));
  buckets.try_emplace(ns(cell::LogBuckets::lower_of(bucket)), Bucket{upper, 0})
      .first->second.samples += samples;
}

void Latency::merge(const Latency& other) {
  for (const auto& [lower, bucket] : other.buckets) {
    buckets.try_emplace(lower, Bucket{bucket.upper_ns, 0}).first->second.samples += bucket.samples;
  }
  count += other.count;
  sum_ns += other.sum_ns;
  max_ns = std::max(max_ns, other.max_ns);
  timer_cost_ns = std::max(timer_cost_ns, other.timer_cost_ns);
}

double Latency::percentile_ns(double share) const noexcept {
  const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count)));
  std::uint64_t passed = 0;
  for (const auto& [lower, bucket] : buckets) {
    passed += bucket.samples;
    if (passed < rank || passed == 0) continue;
    return std::min((lower + bucket.upper_ns) / 2, max_ns);
  }
  return 0;
}

nlohmann::ordered_json Latency::to_json() const {
  nlohmann::ordered_json json = {{"unit", "ns"},
                                 {"timer_cost_ns", timer_cost_ns},
                                 {"count", count},
                                 {"mean", rounded(mean_ns())},
                                 {"max", rounded(max_ns)}};
  for (const NamedPercentile& percentile : kPercentiles) {
    json["percentiles"][percentile.name] = rounded(percentile_ns(percentile.share));
  }
  json["buckets"] = nlohmann::ordered_json::array();
  for (const auto& [lower, bucket] : buckets) {
    json["buckets"].push_back({lower, bucket.upper_ns, bucket.samples});
  }
  return json;
}

}  // namespace strata::cli
