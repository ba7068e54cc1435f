#include "malloc/statistics.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/seeded_test.h"
#include "malloc/fake_program.h"

namespace strata {
namespace {

struct StatisticsTest : ::testing::Test, FakeProgram {
  void SetUp() override { start(); }
};

TEST_F(StatisticsTest, AnEngineThatServedNobodyHasNothingLive) {
  check();
  const Statistics now = statistics();
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.cached, 0u);
  EXPECT_EQ(now.threads, 0u);
  EXPECT_EQ(now.huge_blocks, 0u);
}

TEST_F(StatisticsTest, LiveIsWhatTheProgramOwnsRoundedUp) {
  FakeProgramThread thread(*engine);
  const unsigned c = SizeClassMap::class_of(1000);
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(thread.allocate(1000).address);
  blocks.push_back(thread.allocate(200'000).address);
  blocks.push_back(thread.allocate(3 * kMiB).address);
  Statistics now = statistics();
  EXPECT_EQ(now.live, 10 * SizeClassMap::bytes_of(c) + 4 * kPageBytes + 3 * kMiB);
  EXPECT_EQ(now.classes[c].live_objects, 10u);
  EXPECT_EQ(now.huge_blocks, 1u);
  EXPECT_EQ(now.threads, 1u);
  check();
  for (void* p : blocks) thread.deallocate(p);
  now = statistics();
  EXPECT_EQ(now.live, 0u);
  EXPECT_EQ(now.classes[c].live_objects, 0u);
  EXPECT_GE(now.classes[c].cached_objects, 1u);
  check();
}

TEST_F(StatisticsTest, WhatWentBackIsCounted) {
  FakeProgramThread thread(*engine);
  void* p = thread.allocate(kMiB).address;
  thread.deallocate(p);
  const std::size_t before = statistics().returned;
  engine->release_all();
  EXPECT_EQ(statistics().returned, before + kMiB + statistics().idle);
}

class StatisticsRandomTest : public SeededTest, protected FakeProgram {};

TEST_F(StatisticsRandomTest, AtRestEveryByteIsInExactlyOnePlace) {
  start();
  FakeProgramThread threads[2] = {FakeProgramThread(*engine), FakeProgramThread(*engine)};
  std::vector<void*> live;
  for (int step = 0; step < 3000; ++step) {
    FakeProgramThread& thread = threads[below(2)];
    if (live.size() < 10 || (below(2) == 0 && live.size() < 500)) {
      live.push_back(thread.allocate(below(std::size_t{1} << (4 + below(18)))).address);
      ASSERT_NE(live.back(), nullptr);
    } else {
      std::swap(live[below(live.size())], live.back());
      thread.deallocate(live.back());
      live.pop_back();
    }
    if (below(100) == 0) engine->release_unneeded();
    check();
  }
  for (void* p : live) threads[0].deallocate(p);
  for (FakeProgramThread& thread : threads) thread.end();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
