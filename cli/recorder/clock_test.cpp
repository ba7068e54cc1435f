#include "recorder/clock.h"

#include <gtest/gtest.h>

namespace strata::recorder {
namespace {

TEST(RecorderClock, KnowsCountsAtWhichATimeHasNotCome) {
  Clock clock;
  clock.prepare();
  const std::uint64_t first = clock.count();
  while (clock.count() - first < 1'000'000) {
  }
  clock.measure();
  for (std::uint64_t count = first; count < first + 1'000'000; count += 997) {
    for (const std::uint64_t ahead : {1u, 2u, 10u, 999u, 1000u, 1u << 23}) {
      const std::uint64_t ns = clock.ns_at(count) + ahead;
      const std::uint64_t before = clock.count_before(ns, count);
      ASSERT_GE(before, count);
      ASSERT_LT(clock.ns_at(before), ns);
      // The count is at most a few nanoseconds short of ns: otherwise it would save nothing.
      ASSERT_GE(clock.ns_at(before) + 5, ns - ahead / 1000);
    }
  }
}

}  // namespace
}  // namespace strata::recorder
