#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

namespace strata::cli {

/// The percentiles that are told, by the names that results carry.
struct NamedPercentile {
  const char* name;
  double share;
};
inline constexpr std::array<NamedPercentile, 5> kPercentiles = {
    {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}};

/// How long operations of one kind took, in one run or in many: a histogram over LogBuckets of
/// picoseconds, and what a histogram would blur.
struct Latency {
  std::map<std::size_t, std::uint64_t> buckets;  ///< bucket -> samples, none of 0
  std::uint64_t count = 0;
  double sum_ns = 0;
  double max_ns = 0;
  double timer_cost_ns = 0;  ///< of several runs, the largest

  void merge(const Latency& other);

  double mean_ns() const noexcept { return count == 0 ? 0 : sum_ns / static_cast<double>(count); }

  /// The value that `share` of the samples does not exceed: the middle of its bucket, so at most
  /// half a bucket (0.4%) off, and never above the largest sample. 0 without samples.
  double percentile_ns(double share) const noexcept;

  nlohmann::ordered_json to_json() const;
};

}  // namespace strata::cli
