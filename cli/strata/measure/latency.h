#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "shared/findings.h"

namespace strata::cli {

/// The percentiles of results, with their names there.
struct NamedPercentile {
  const char* name;
  double share;
};
inline constexpr std::array<NamedPercentile, 5> kPercentiles = {
    {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}}};

/// How long operations of one kind took, in one run or in many: a histogram, and what a histogram
/// would blur.
struct Latency {
  struct Bucket {
    double upper_ns;
    std::uint64_t samples;  ///< never 0

    bool operator==(const Bucket&) const = default;
  };
  std::map<double, Bucket> buckets;  ///< by where they begin, in nanoseconds; they do not overlap
  std::uint64_t count = 0;
  double sum_ns = 0;
  double max_ns = 0;
  double timer_cost_ns = 0;  ///< of several runs, the largest

  Latency() = default;
  /// What a cell measured.
  Latency(const cell::CellFindings::Latency& told, double timer_cost);

  /// Adds samples of the bucket of this number (LogBuckets, of picoseconds).
  void add_bucket(std::size_t bucket, std::uint64_t samples);
  void merge(const Latency& other);

  double mean_ns() const noexcept { return count == 0 ? 0 : sum_ns / static_cast<double>(count); }

  /// The value that `share` of the samples does not exceed: the middle of its bucket, so at most
  /// half a bucket (0.4%) off, and never above the largest sample. 0 without samples.
  double percentile_ns(double share) const noexcept;

  nlohmann::ordered_json to_json() const;
};

}  // namespace strata::cli
