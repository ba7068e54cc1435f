#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "shared/findings.h"

namespace strata::cli {

/// The percentiles in results, with their names.
struct NamedPercentile {
  const char* name;
  double share;
};
inline constexpr std::array<NamedPercentile, 5> kPercentiles = {
    {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}};

/// The latencies of one kind of operation in one run or several: a histogram, and the exact values
/// that it would lose.
struct Latency {
  struct Bucket {
    double upper_ns;
    std::uint64_t samples;  ///< never 0

    bool operator==(const Bucket&) const = default;
  };
  std::map<double, Bucket> buckets;  ///< by lower bound, in nanoseconds; without overlaps
  std::uint64_t count = 0;
  double sum_ns = 0;
  double max_ns = 0;
  double timer_cost_ns = 0;  ///< the maximum over several runs

  Latency() = default;
  Latency(const cell::CellFindings::Latency& told, double timer_cost);

  /// Adds samples to the bucket with this index (LogBuckets, in picoseconds).
  void add_bucket(std::size_t bucket, std::uint64_t samples);
  void merge(const Latency& other);

  double mean_ns() const noexcept { return count == 0 ? 0 : sum_ns / static_cast<double>(count); }

  /// The value that `share` of the samples do not exceed. It is the middle of its bucket, so at
  /// most half a bucket (0.4%) off, and never above the largest sample. 0 without samples.
  double percentile_ns(double share) const noexcept;

  nlohmann::ordered_json to_json() const;
};

}  // namespace strata::cli
