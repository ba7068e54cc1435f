// The options of limits, and an engine whose memory is limited.

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fork_in_test.h"
#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"
#include "malloc/options.h"
#include "os/control_group.h"

namespace strata {
namespace {

struct LimitsTest : ::testing::Test, TestMalloc {
  void start_with(std::size_t soft, std::size_t hard) {
    start({.soft_limit = soft, .hard_limit = hard});
  }
};

/// Sets the limits from their texts.
void set_limits(Options& options, std::string_view soft, std::string_view hard) {
  options = {};
  for (const OptionRow row : option_table()) {
    const bool is_soft = row.name == "SOFT_LIMIT";
    if (!is_soft && row.name != "HARD_LIMIT") continue;
    EXPECT_TRUE(set_option(row, is_soft ? soft : hard, options));
  }
}

std::string settle_and_capture(Options& options, const char* soft, const char* hard) {
  set_limits(options, soft, hard);
  ::testing::internal::CaptureStderr();
  settle_limits(options);
  return ::testing::internal::GetCapturedStderr();
}

TEST(SettleLimits, AShareIsOneOfWhatTheSystemAllows) {
  Options options;
  EXPECT_EQ(settle_and_capture(options, "50%", "100%"), "");
  const std::size_t allowed = os::allowed_memory_bytes();
  EXPECT_EQ(options.soft_limit, allowed / 100 * 50);
  EXPECT_EQ(options.hard_limit, allowed / 100 * 100);
}

TEST(SettleLimits, ASoftLimitAboveTheHardOneIsNamedInOneWarningAndThereIsNone) {
  Options options;
  EXPECT_EQ(settle_and_capture(options, "2g", "1536m"),
            "strata: warning: STRATA_SOFT_LIMIT=2g is above STRATA_HARD_LIMIT=1536m; there is no "
            "soft limit, only the hard one\n");
  EXPECT_EQ(options.soft_limit, 0u);
  EXPECT_EQ(options.hard_limit, std::size_t{1536} << 20);
  EXPECT_EQ(settle_and_capture(options, "50%", "4096"),
            "strata: warning: STRATA_SOFT_LIMIT=50% is above STRATA_HARD_LIMIT=4k; there is no "
            "soft limit, only the hard one\n");
  EXPECT_EQ(options.soft_limit, 0u);
}

TEST(SettleLimits, OtherwiseNothingIsSaid) {
  const char* cases[][2] = {{"0", "0"}, {"1g", "0"}, {"0", "1g"}, {"1g", "1g"}, {"1g", "2g"}};
  for (const auto& [soft, hard] : cases) {
    Options options;
    EXPECT_EQ(settle_and_capture(options, soft, hard), "") << soft << " " << hard;
    Options expected;
    set_limits(expected, soft, hard);
    EXPECT_EQ(options.soft_limit, expected.soft_limit) << soft << " " << hard;
    EXPECT_EQ(options.hard_limit, expected.hard_limit) << soft << " " << hard;
  }
}

TEST_F(LimitsTest, EveryKindOfBlockIsRefusedAtTheHardLimitAndServedAgainBelowIt) {
  constexpr std::size_t kHard = 24 * kMiB;
  start_with(0, kHard);
  TestThread thread(malloc);
  for (const std::size_t bytes : {100u, 5000u, 100'000u, 300'000u, 1'500'000u}) {
    std::vector<void*> blocks;
    std::size_t got = 0;
    for (int failures = 0; failures < 2;) {
      if (void* p = thread.allocate(bytes)) {
        std::memset(p, 1, bytes);
        blocks.push_back(p);
        got += bytes;
        failures = 0;
      } else {
        ++failures;
        engine.release_all();  // as the process's malloc does before it gives up
      }
      ASSERT_LE(engine.limit().held_bytes(), kHard) << bytes;
    }
    EXPECT_GT(got, kHard / 2) << bytes;
    EXPECT_LE(got, kHard) << bytes;
    check();
    for (void* p : blocks) thread.deallocate(p);
    check();
  }
  EXPECT_GT(statistics().limit.refusals, 0u);
  thread.end();
  check_nothing_is_left();
}

TEST_F(LimitsTest, AProgramThatReplacesBlocksAtTheLimitDoesNotLookThroughTheHeapEachTime) {
  start_with(0, 160 * kMiB);
  TestThread thread(malloc);
  constexpr std::size_t kBytes = 300'000;
  std::vector<void*> blocks;
  while (void* p = thread.allocate(kBytes)) blocks.push_back(p);
  bool has_spared = false;
  for (int i = 0; i < 50 && !has_spared; ++i) {  // unless the test has to wait for its processor
    for (int looks = 0; looks < 2; ++looks) {
      const std::size_t next =
          6 * static_cast<std::size_t>(i) + 3 * static_cast<std::size_t>(looks);
      thread.deallocate(std::exchange(blocks[next], nullptr));
      ASSERT_EQ(thread.allocate(3 * kBytes), nullptr);
      // A pass returns idle memory, whether that helps or not.
      if (looks == 1) has_spared = statistics().idle >= kBytes;
    }
    while (void* p = thread.allocate(kBytes)) blocks.push_back(p);
  }
  EXPECT_TRUE(has_spared);
  check();
  for (void* p : blocks) thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

TEST_F(LimitsTest, WhatCameBackSinceTheLastRefusalServesBlocksOfOtherSizes) {
  constexpr std::size_t kHard = 2 * kMiB;
  start_with(0, kHard);
  TestThread thread(malloc);
  const auto fill_and_free = [&thread](std::size_t bytes) {
    std::vector<void*> blocks;
    while (void* p = thread.allocate(bytes)) blocks.push_back(p);
    for (void* p : blocks) thread.deallocate(p);
    return blocks.size() * bytes;
  };
  for (int round = 0; round < 5; ++round) {
    for (const std::size_t bytes : {4096u, 9000u, 20'000u, 40'000u}) fill_and_free(bytes);
    engine.settle_idle_hint();  // as the check does whether the scavenger has work
    for (const std::size_t bytes : {20'000u, 40'000u, 100'000u})
      EXPECT_GT(fill_and_free(bytes), kHard / 2) << bytes << " in round " << round;
  }
  thread.end();
  check_nothing_is_left();
}

TEST_F(LimitsTest, AResizeBeyondTheLimitLeavesTheBlockAsItWas) {
  start_with(0, 16 * kMiB);
  TestThread thread(malloc);
  auto* huge = static_cast<unsigned char*>(thread.allocate(3 * kMiB));
  auto* large = static_cast<unsigned char*>(thread.allocate(300'000));
  ASSERT_NE(huge, nullptr);
  ASSERT_NE(large, nullptr);
  std::memset(huge, 7, 3 * kMiB);
  EXPECT_EQ(engine.resize_large(huge, 20 * kMiB), nullptr);
  EXPECT_EQ(huge[3 * kMiB - 1], 7);
  check();
  void* moved = engine.resize_large(huge, 2 * kMiB);
  ASSERT_NE(moved, nullptr);
  check();
  EXPECT_NE(engine.resize_large(moved, 9 * kMiB), nullptr) << "what shrank may grow again";
}

TEST_F(LimitsTest, ABlockThatShrinksWithoutMemoryStaysAndSetsNoErrno) {
  start_with(0, 16 * kMiB);
  TestThread thread(malloc);
  void* const block = thread.allocate(5000);
  // A search in vain is not repeated at once: until a release of everything brings nothing.
  for (bool brought = true; brought; engine.release_all()) {
    brought = false;
    for (const std::size_t bytes : {100'000u, 100u}) {
      while (thread.allocate(bytes) != nullptr) brought = true;
    }
  }
  errno = 77;
  EXPECT_EQ(thread.reallocate(block, 100), block);
  EXPECT_EQ(errno, 77);
}

TEST_F(LimitsTest, HolesCountAgainOnceTheirObjectsAreUsed) {
  if (os::page_bytes() >= kPageBytes) GTEST_SKIP() << "an OS page is a page: it has no holes";
  start_with(0, 12 * kMiB);
  const unsigned c = SizeClassMap::class_of(4096);
  std::vector<void*> objects;
  while (void* p = engine.allocate_object(c).address) objects.push_back(p);
  ASSERT_GT(objects.size(), 2000u);
  const std::size_t full = statistics().limit.held;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i % (kPageBytes / 4096) != 0) engine.deallocate_object(c, objects[i]);
  }
  engine.release_all();
  check();
  // One OS page of each page is left, and the bookkeeping.
  EXPECT_LT(statistics().limit.held, full * os::page_bytes() / kPageBytes + full / 8);
  // Another block takes half of the returned memory; then the rest of the objects is refused.
  void* other = engine.allocate_large(6 * kMiB, 16).address;
  ASSERT_NE(other, nullptr);
  std::size_t again = 0;
  std::vector<void*> more;
  while (void* p = engine.allocate_object(c).address) {
    more.push_back(p);
    ++again;
    ASSERT_LE(engine.limit().held_bytes(), 12 * kMiB);
  }
  EXPECT_LT(again, objects.size() * 3 / 4);
  check();
  engine.deallocate_large(other);
  for (void* p : more) engine.deallocate_object(c, p);
  for (std::size_t i = 0; i < objects.size(); i += kPageBytes / 4096)
    engine.deallocate_object(c, objects[i]);
  check_nothing_is_left();
}

TEST_F(LimitsTest, AboveTheSoftLimitIdleMemoryGoesBackAtOnceAndBelowItNothingDoes) {
  start_with(8 * kMiB, 0);
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(engine.allocate_large(kMiB, 16).address);
  for (void* p : blocks) {
    engine.deallocate_large(p);
    engine.keep_to_soft_limit([] {});
  }
  blocks.clear();
  EXPECT_EQ(statistics().limit.passes, 0u);
  EXPECT_GE(statistics().idle, 4 * kMiB);
  for (int i = 0; i < 20; ++i) blocks.push_back(engine.allocate_large(kMiB, 16).address);
  for (int i = 0; i < 10; ++i) {
    engine.deallocate_large(blocks[static_cast<std::size_t>(i)]);
    engine.keep_to_soft_limit([] {});
    EXPECT_LT(statistics().idle, 8 * kMiB / 32 + kPageBytes) << "after " << i;
  }
  EXPECT_GE(statistics().limit.passes, 5u);
  EXPECT_GE(statistics().limit.returned, 9 * kMiB);
  check();
}

TEST_F(LimitsTest, TheChildOfAForkReleasesWhereAThreadOfItsParentDidSo) {
  start_with(8 * kMiB, 0);
  TestThread thread(malloc);
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(engine.allocate_large(kMiB, 16).address);
  for (std::size_t i = 0; i < 10; ++i) engine.deallocate_large(blocks[i]);
  bool has_begun = false;
  engine.keep_to_soft_limit([&] {  // the thread that does not exist in the child
    fork_as_child(malloc);
    malloc.reset_after_fork(thread.state);
    engine.keep_to_soft_limit([&] { has_begun = true; });
  });
  EXPECT_TRUE(has_begun);
}

TEST_F(LimitsTest, AboveTheSoftLimitCachesMayHoldLittle) {
  start_with(64 * kMiB, 0);
  std::vector<void*> blocks;
  const auto share_with = [&](std::size_t mib) {
    while (blocks.size() < mib) blocks.push_back(engine.allocate_large(kMiB, 16).address);
    engine.keep_to_soft_limit([] {});
    return engine.registry().budget().share_bytes();
  };
  const std::size_t share_below = share_with(48);
  EXPECT_LT(share_with(80), share_below / 2);
}

TEST_F(LimitsTest, WhatCannotBeReleasedIsNotTriedAgainAboveTheSoftLimit) {
  start_with(8 * kMiB, 0);
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(engine.allocate_large(kMiB, 16).address);
  pages.refuse_decommits(true);
  for (std::size_t i = 0; i < 10; ++i) engine.deallocate_large(blocks[i]);
  const auto passes = [&] {
    engine.keep_to_soft_limit([] {});
    return statistics().limit.passes;
  };
  const auto before = passes();
  EXPECT_GE(statistics().idle, 10 * kMiB);
  for (int i = 0; i < 10; ++i) {
    void* const p = engine.allocate_large(kMiB, 16).address;
    EXPECT_EQ(passes(), before);
    engine.deallocate_large(p);
    EXPECT_EQ(passes(), before) << "block " << i << " is idle as before";
  }
  engine.deallocate_large(blocks[10]);
  EXPECT_EQ(passes(), before + 1) << "more is idle than before";
  pages.refuse_decommits(false);
  engine.deallocate_large(blocks[11]);
  EXPECT_EQ(passes(), before + 2);
  EXPECT_LT(statistics().idle, kMiB);
  check();
}

/// A program whose size moves up and down around both limits: nothing is miscounted, and the hard
/// limit holds after every step.
class LimitsRandomTest : public SeededTest, protected TestMalloc {};

TEST_F(LimitsRandomTest, TheHardLimitHoldsAfterEveryStep) {
  start({.soft_limit = 12 * kMiB, .hard_limit = 16 * kMiB});
  TestThread thread(malloc);
  std::vector<std::pair<void*, std::size_t>> live;
  std::size_t refused = 0;
  for (int step = 0; step < 6000; ++step) {
    if (live.empty() || below(100) < (step / 1500 % 2 == 0 ? 60u : 40u)) {
      const std::size_t bytes = below(std::size_t{16} << below(18));
      void* p = thread.allocate(bytes);
      if (p == nullptr) {
        ++refused;
        engine.release_all();
      } else {
        std::memset(p, 1, bytes);
        live.emplace_back(p, bytes);
      }
    } else {
      std::swap(live[below(live.size())], live.back());
      thread.deallocate(live.back().first);
      live.pop_back();
    }
    engine.keep_to_soft_limit([] {});
    ASSERT_LE(engine.limit().held_bytes(), 16 * kMiB);
    if (step % 16 == 0) check();
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(statistics().limit.passes, 0u);
  for (const auto& [p, bytes] : live) thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
