#include "base/memory_limit.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/metadata_arena.h"
#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

struct MemoryLimitTest : ::testing::Test {
  os::FakePageSource pages;
  MemoryLimit limit;
  MetadataArena metadata{pages, &limit, MetadataArena::Life::kUntilDiscarded};
};

TEST_F(MemoryLimitTest, WithoutLimitsEverythingIsGrantedAndCounted) {
  EXPECT_TRUE(limit.try_hold(1000));
  EXPECT_TRUE(limit.try_hold(std::size_t{1} << 60));
  limit.let_go(std::size_t{1} << 60);
  EXPECT_EQ(limit.held_bytes(), 1000u);
  EXPECT_FALSE(limit.is_above_soft());
  EXPECT_FALSE(limit.wants_release(1 << 30));
  EXPECT_EQ(limit.statistics().peak, 1000 + (std::size_t{1} << 60));
  EXPECT_EQ(limit.statistics().soft_limit, 0u);
  EXPECT_EQ(limit.statistics().hard_limit, 0u);
}

TEST_F(MemoryLimitTest, TheHardLimitIsReachedAndNotPassed) {
  limit.configure(0, 1000);
  EXPECT_TRUE(limit.try_hold(999));
  EXPECT_FALSE(limit.try_hold(2));
  EXPECT_FALSE(limit.try_hold(~std::size_t{0}));
  EXPECT_TRUE(limit.try_hold(1));
  EXPECT_FALSE(limit.try_hold(1));
  EXPECT_TRUE(limit.try_hold(0));
  EXPECT_EQ(limit.held_bytes(), 1000u);
  EXPECT_EQ(limit.statistics().refusals, 3u);
  limit.let_go(500);
  EXPECT_TRUE(limit.try_hold(500));
}

TEST_F(MemoryLimitTest, WhatIsHeldAnywayMayPassTheLimitAndNothingElseDoesThen) {
  limit.configure(0, 1000);
  limit.hold(1500);
  EXPECT_EQ(limit.held_bytes(), 1500u);
  EXPECT_FALSE(limit.try_hold(1));
  EXPECT_TRUE(limit.try_hold(0));
  limit.let_go(600);
  EXPECT_TRUE(limit.try_hold(100));
}

TEST_F(MemoryLimitTest, BookkeepingCountsAndKeepsToTheHardLimit) {
  constexpr std::size_t kChunk = MetadataArena::kSmallChunkBytes;
  limit.configure(0, kChunk + 1000);
  ASSERT_NE(metadata.allocate(64), nullptr);
  EXPECT_EQ(limit.held_bytes(), kChunk);
  EXPECT_FALSE(limit.try_hold(1001));
  EXPECT_TRUE(limit.try_hold(1000));
  EXPECT_EQ(metadata.allocate(kChunk), nullptr) << "a second chunk";
  EXPECT_EQ(limit.held_bytes(), kChunk + 1000);
  EXPECT_EQ(metadata.mapped_bytes(), kChunk);
  metadata.discard();
  EXPECT_EQ(limit.held_bytes(), 1000u);
}

TEST_F(MemoryLimitTest, WhatNobodyAskedForIsNotRefused) {
  limit.configure(0, 1000);
  EXPECT_TRUE(limit.try_hold_unasked(1000));
  EXPECT_FALSE(limit.try_hold_unasked(1));
  EXPECT_EQ(limit.statistics().refusals, 0u);
}

TEST_F(MemoryLimitTest, PassesComeOncePerSomeGrowth) {
  constexpr std::size_t kSoft = 32 * 1000;
  limit.configure(kSoft, 0);
  int passes = 0;
  for (int i = 0; i < 64'000; i += 100) {
    ASSERT_TRUE(limit.try_hold(100));
    if (!limit.wants_release(0)) continue;
    limit.note_pass(0, 0);
    ++passes;
  }
  // From the soft limit to twice the soft limit, a pass is due per thirty-second of the limit.
  EXPECT_GE(passes, 28);
  EXPECT_LE(passes, 34);
  EXPECT_EQ(limit.statistics().passes, static_cast<std::uint64_t>(passes));
  limit.let_go(40'000);
  EXPECT_FALSE(limit.wants_release(1 << 30)) << "below the limit again";
  limit.hold(20'000);
  EXPECT_TRUE(limit.wants_release(2000)) << "much is idle";
  EXPECT_FALSE(limit.wants_release(10)) << "little is idle, and nothing has grown";
}

TEST_F(MemoryLimitTest, WhatAPassLeavesIsNoReasonForTheNext) {
  limit.configure(32'000, 0);
  limit.hold(40'000);
  ASSERT_TRUE(limit.wants_release(8000));
  limit.note_pass(0, 8000);
  EXPECT_FALSE(limit.wants_release(8000));
  EXPECT_FALSE(limit.wants_release(7000)) << "some of it is in use for a while";
  EXPECT_FALSE(limit.wants_release(8000));
  EXPECT_TRUE(limit.wants_release(9001)) << "more is idle";
  EXPECT_FALSE(limit.wants_release(3000)) << "most of it is in use";
  EXPECT_TRUE(limit.wants_release(4001)) << "what comes after that is new";
}

TEST_F(MemoryLimitTest, ThreadsTogetherNeverPassTheHardLimit) {
  constexpr std::size_t kHard = 10'000;
  limit.configure(0, kHard);
  std::atomic<bool> passed{false};
  run_together(4, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    std::size_t mine = 0;
    for (int i = 0; i < 20'000; ++i) {
      const std::size_t bytes = random() % 3000;
      if (mine >= bytes && random() % 2 == 0) {
        limit.let_go(bytes);
        mine -= bytes;
      } else if (limit.try_hold(bytes)) {
        mine += bytes;
      }
      if (limit.held_bytes() > kHard) passed = true;
    }
    limit.let_go(mine);
  });
  EXPECT_FALSE(passed);
  EXPECT_EQ(limit.held_bytes(), 0u);
  EXPECT_LE(limit.statistics().peak, kHard);
  EXPECT_GT(limit.statistics().refusals, 0u);
}

}  // namespace
}  // namespace strata
