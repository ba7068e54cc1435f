#include "measure/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "shared/log_buckets.h"

namespace strata::cli {
namespace {

TEST(LogBuckets, HoldEveryValueAndAreNarrowerThanOnePercentOfIt) {
  for (std::uint64_t value : std::initializer_list<std::uint64_t>{
           0, 1, 127, 128, 255, 256, 257, 511, 512, 12345, 999999999, cell::LogBuckets::kLargest}) {
    std::size_t index = cell::LogBuckets::index_of(value);
    std::uint64_t lower = cell::LogBuckets::lower_of(index);
    std::uint64_t upper = cell::LogBuckets::lower_of(index + 1);
    EXPECT_LE(lower, value);
    EXPECT_LT(value, upper);
    EXPECT_LE(upper - lower, std::max<std::uint64_t>(1, lower / 100)) << value;
  }
  EXPECT_EQ(cell::LogBuckets::index_of(~std::uint64_t{0}), cell::LogBuckets::kCount - 1);
}

TEST(LogBuckets, NeverOverlapAndLeaveNoGap) {
  for (std::size_t index = 0; index < cell::LogBuckets::kCount; ++index) {
    ASSERT_EQ(cell::LogBuckets::index_of(cell::LogBuckets::lower_of(index)), index);
    if (index > 0) {
      ASSERT_EQ(cell::LogBuckets::index_of(cell::LogBuckets::lower_of(index) - 1), index - 1);
    }
  }
}

void add(Latency& latency, std::uint64_t ps) {
  latency.add_bucket(cell::LogBuckets::index_of(ps), 1);
  ++latency.count;
  latency.sum_ns += static_cast<double>(ps) / 1000;
  latency.max_ns = std::max(latency.max_ns, static_cast<double>(ps) / 1000);
}

double exact_percentile(const std::vector<std::uint64_t>& sorted, double share) {
  auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[rank - 1]) / 1000;
}

TEST(Latency, PercentilesAreWithinOnePercentOfTheExactOnes) {
  const char* given = std::getenv("STRATA_SEED");
  const unsigned long seed = given != nullptr ? std::strtoul(given, nullptr, 10) : 1;
  SCOPED_TRACE("STRATA_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> usual(10, 1.5);
  std::uniform_int_distribution<std::uint64_t> rare(1'000'000, 50'000'000'000);
  Latency latency;
  std::vector<std::uint64_t> samples;
  for (int i = 0; i < 200'000; ++i) {
    auto ps = i % 500 == 0 ? rare(random) : static_cast<std::uint64_t>(usual(random)) + 1;
    samples.push_back(ps);
    add(latency, ps);
  }
  std::sort(samples.begin(), samples.end());
  for (const NamedPercentile& percentile : kPercentiles) {
    double exact = exact_percentile(samples, percentile.share);
    EXPECT_NEAR(latency.percentile_ns(percentile.share), exact, exact * 0.01) << percentile.name;
  }
  EXPECT_NEAR(latency.percentile_ns(1), latency.max_ns, latency.max_ns * 0.01);
  EXPECT_LE(latency.percentile_ns(1), latency.max_ns);
}

TEST(Latency, OfOneSampleIsThatSample) {
  Latency latency;
  add(latency, 17'000);
  EXPECT_NEAR(latency.percentile_ns(0.5), 17, 0.17);
  EXPECT_LE(latency.percentile_ns(0.9999), 17);
  EXPECT_EQ(Latency().percentile_ns(0.5), 0);
}

TEST(Latency, MergingIsAsIfAllHadBeenOneRun) {
  Latency whole;
  Latency parts[2];
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    add(whole, i * 100);
    add(parts[i % 2], i * 100);
  }
  parts[1].timer_cost_ns = 20;
  add(whole, 1'000'000);  // the largest, in the part that is merged
  add(parts[1], 1'000'000);
  parts[0].merge(parts[1]);
  EXPECT_EQ(parts[0].timer_cost_ns, 20) << "the larger of both";
  EXPECT_EQ(parts[0].buckets, whole.buckets);
  EXPECT_EQ(parts[0].count, whole.count);
  EXPECT_DOUBLE_EQ(parts[0].mean_ns(), whole.mean_ns());
  EXPECT_EQ(parts[0].max_ns, whole.max_ns);
}

TEST(Latency, JsonHasEveryBucketOnceAndAscending) {
  Latency latency;
  for (std::uint64_t ps : {20'000u, 20'010u, 400'000u, 1'000'000'000u}) add(latency, ps);
  auto json = latency.to_json();
  std::uint64_t samples = 0;
  double end = 0;
  for (const auto& bucket : json["buckets"]) {
    EXPECT_GE(bucket[0].get<double>(), end);
    end = bucket[1].get<double>();
    samples += bucket[2].get<std::uint64_t>();
  }
  EXPECT_EQ(samples, 4u);
  EXPECT_EQ(json["count"], 4);
  EXPECT_EQ(json["max"], 1'000'000.0);
  EXPECT_EQ(json["percentiles"].size(), kPercentiles.size());
}

}  // namespace
}  // namespace strata::cli
