#include "measure/metric.h"

#include <gtest/gtest.h>

namespace strata::cli {
namespace {

TEST(Metric, TheEndOfItsNameTellsQuantityScaleAndDirection) {
  const struct {
    const char* name;
    Quantity quantity;
    double scale;
    Better better;
  } kExpected[] = {
      {"ns_per_op", Quantity::kSeconds, 1e-9, Better::kLess},
      {"first_ns_per_op", Quantity::kSeconds, 1e-9, Better::kLess},
      {"alloc_p99.9_ns", Quantity::kSeconds, 1e-9, Better::kLess},
      {"half_back_s", Quantity::kSeconds, 1, Better::kLess},
      {"ops_per_s", Quantity::kPerSecond, 1, Better::kMore},
      {"peak_rss_bytes", Quantity::kBytes, 1, Better::kLess},
      {"back_share", Quantity::kCount, 1, Better::kMore},
      {"minor_faults", Quantity::kCount, 1, Better::kLess},
      {"a_metric_of_a_later_version", Quantity::kCount, 1, Better::kLess},
  };
  for (const auto& [name, quantity, scale, direction] : kExpected) {
    EXPECT_EQ(quantity_of(name), quantity) << name;
    EXPECT_DOUBLE_EQ(scale_of(name), scale) << name;
    EXPECT_EQ(better(name), direction) << name;
  }
}

TEST(Metric, AnAmountOfWorkDoesNotRank) {
  for (const char* amount : {"ops", "sent", "dropped", "received", "left", "samples",
                             "peak_live_bytes", "table_bytes"}) {
    EXPECT_EQ(better(amount), Better::kNeither) << amount;
  }
}

TEST(Metric, ItsTitlesAreThoseOfPeople) {
  EXPECT_EQ(column_title("ns_per_op"), "time/op");
  EXPECT_EQ(column_title("peak_rss_bytes"), "peak RSS");
  EXPECT_EQ(column_title("ops_per_s"), "ops/s");
  EXPECT_EQ(spoken_name("ops_per_s"), "operations per second");
  EXPECT_EQ(spoken_name("after_rss_bytes"), "memory kept after the load (RSS)");
  EXPECT_EQ(spoken_name("first_faults"), "page faults, first round");
}

TEST(Metric, AFileHasAsManyDigitsAsItsUnitHasParts) {
  EXPECT_EQ(file_parts("elapsed_s"), 1e9);
  EXPECT_EQ(file_parts("alloc_p50_ns"), 1e3);
  EXPECT_EQ(file_parts("peak_rss_bytes"), 0);
}

TEST(Metric, NumbersHaveThreeDigitsAndAFittingUnit) {
  EXPECT_EQ(brief_metric("ops_per_s", 41555784), "41.6\u00a0M/s");
  EXPECT_EQ(brief_metric("ns_per_op", 13.198), "13.2\u00a0ns");
  EXPECT_EQ(brief_metric("elapsed_s", 0.9996), "1\u00a0s");
  EXPECT_EQ(brief_metric("peak_rss_bytes", 12025856), "11.5\u00a0MiB");
  EXPECT_EQ(brief_metric("minor_faults", 0), "0");
  EXPECT_EQ(brief_metric("minor_faults", 2180), "2.18k");
  EXPECT_EQ(spoken_name("after_rss_bytes_x"), "after RSS bytes x");
}

}  // namespace
}  // namespace strata::cli
