// STRATA_CHECKS=auto: as `frees` while that takes little CPU time, and as `basic` from then on.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "base/fork_in_test.h"
#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"

namespace strata {
namespace {

/// A malloc under `auto`, whose process uses as much CPU time as the test says.
struct AutoMalloc : TestMalloc {
  AutoMalloc() { TestMalloc::start({.checks = Options::Checks::kAuto, .guard_rate = 0}); }
  std::uint64_t cpu_ns() noexcept override { return cpu_ns_now; }
  /// Allocates, as the start of a thread on a slow path does.
  void attend() noexcept override {
    if (attending != nullptr) attending->deallocate(attending->allocate(3000));
  }
  bool has_gate(const TestThread& thread) const {
    return thread.state.free_bins != thread.state.cache;
  }
  /// Makes more frees than are verified in any case: if no CPU time passes, verification ends.
  void free_often(TestThread& thread) {
    for (int i = 0; i < 300'000; ++i) thread.deallocate(thread.allocate(100));
  }

  std::atomic<std::uint64_t> cpu_ns_now{0};
  TestThread* attending = nullptr;
};

struct AutoChecks : AutoMalloc, ::testing::Test {};

constexpr const char* kIsFree = "strata: double free of 0x[0-9a-f]+: the object is free already";

TEST_F(AutoChecks, VerifyFromTheFirstFreeOn) {
  TestThread thread(malloc);
  void* const p = thread.allocate(100);
  void* const other = thread.allocate(100);
  thread.deallocate(p);
  thread.deallocate(other);
  EXPECT_DEATH(thread.deallocate(p), kIsFree);
  EXPECT_DEATH(thread.reallocate(p, 90), "invalid realloc of 0x[0-9a-f]+: the object is free");
}

TEST_F(AutoChecks, AWrongSizeIsNotUsed) {
  TestThread thread(malloc);
  const auto free_as = [&](void* p, std::size_t bytes) {
    malloc.deallocate(thread.state, p, deleting(bytes));
  };
  for (int round = 0; round < 2; ++round) {
    for (const std::size_t bytes : {0u, 16u, 32u, 4096u, 100'000u, 200'000u, 2'000'000u}) {
      free_as(thread.allocate(bytes), 1);
      free_as(thread.allocate(bytes), 3'000'000);
    }
    free_often(thread);  // and after the end
  }
  EXPECT_FALSE(malloc.verifies_frees());
  void* const p = thread.allocate(32);
  free_as(p, 16);
  thread.end();
  check_nothing_is_left();
}

TEST_F(AutoChecks, ABlockOfNoBytesHasNoneToTheEnd) {
  TestThread thread(malloc);
  std::vector<char*> blocks;
  for (int i = 0; i < 3; ++i) {
    auto* const p = static_cast<char*>(thread.allocate(0));
    EXPECT_EQ(thread.usable_bytes(p), 0u);
    EXPECT_DEATH(p[0] = 1, "");
    blocks.push_back(p);
    if (i == 0) free_often(thread);  // what was verified was for nothing
  }
  EXPECT_FALSE(malloc.verifies_frees());
  char* const grown = static_cast<char*>(thread.reallocate(blocks[0], 100));
  grown[99] = 1;
  EXPECT_EQ(thread.reallocate(blocks[1], 0), nullptr);
  EXPECT_DEATH(thread.deallocate(blocks[1]), "double free of .*: the block of 0 bytes is free");
  EXPECT_DEATH(thread.reallocate(blocks[0], 1), "invalid realloc of .*: the block of 0 bytes is");
  thread.deallocate(grown);
  thread.deallocate(blocks[2]);
  thread.end();
  check_nothing_is_left();
}

TEST_F(AutoChecks, VerifyOnWhileTheProcessHasUsedEnoughTime) {
  cpu_ns_now = 4'000'000'000;  // 1% of it is worth two million frees
  TestThread thread(malloc);
  for (int i = 0; i < 4; ++i) free_often(thread);
  EXPECT_TRUE(malloc.verifies_frees());
  EXPECT_TRUE(has_gate(thread));
  void* const p = thread.allocate(100);
  void* const other = thread.allocate(100);
  thread.deallocate(p);
  thread.deallocate(other);
  EXPECT_DEATH(thread.deallocate(p), kIsFree);
  for (int i = 0; i < 4; ++i) free_often(thread);
  EXPECT_FALSE(malloc.verifies_frees());
}

TEST_F(AutoChecks, EndWhereFreesComeFasterThanTimePasses) {
  TestThread thread(malloc);
  free_often(thread);
  EXPECT_FALSE(malloc.verifies_frees());
  EXPECT_FALSE(has_gate(thread));
  ASSERT_NE(thread.state.cache, nullptr);
  EXPECT_EQ(&thread.state.for_malloc(), thread.state.cache);
  // What `basic` finds is still found.
  void* const p = thread.allocate(100);
  thread.deallocate(p);
  EXPECT_DEATH(thread.deallocate(p), "double free of 0x[0-9a-f]+: it was freed just before");
  EXPECT_DEATH(thread.usable_bytes(static_cast<char*>(p) + 16), "it points into an object");
  TestThread later(malloc);
  later.deallocate(later.allocate(100));
  EXPECT_FALSE(has_gate(later));
}

TEST_F(AutoChecks, AThreadThatHasNotNoticedTheEndTakesWhatOthersHandIt) {
  TestThread first(malloc);
  TestThread second(malloc);
  second.deallocate(second.allocate(100));
  char* const early = static_cast<char*>(second.allocate(100));
  free_often(first);
  ASSERT_TRUE(has_gate(second));
  first.deallocate(early);
  // The object was freed under verification and handed out without: its state still says "freed".
  for (const std::size_t bytes : {100u, 100u, 1000u, 5000u, 100'000u}) {
    char* const p = static_cast<char*>(first.allocate(bytes));
    EXPECT_GE(second.usable_bytes(p), bytes);
    second.deallocate(p);
  }
  ASSERT_TRUE(has_gate(second));
  // The thread notices when its cache runs dry.
  void* const grown = second.reallocate(first.allocate(100), 3000);
  EXPECT_FALSE(has_gate(second));
  first.deallocate(grown);
  first.end();
  second.end();
  check_nothing_is_left();
}

TEST_F(AutoChecks, AThreadThatNoticesTheEndInTheMiddleOfASlowPathIsAsFastAsAnyOtherAfterIt) {
  TestThread first(malloc);
  TestThread second(malloc);
  void* const large = second.allocate(500'000);
  second.deallocate(second.allocate(100));
  free_often(first);
  ASSERT_TRUE(has_gate(second));
  attending = &second;
  malloc.ask_for_attention();
  second.deallocate(large);
  attending = nullptr;
  EXPECT_FALSE(has_gate(second));
  EXPECT_EQ(&second.state.for_malloc(), second.state.cache);
}

TEST_F(AutoChecks, SpansMadeAfterTheEndTakeNoMemoryForStates) {
  TestThread thread(malloc);
  free_often(thread);
  TestThread late(malloc);
  std::vector<void*> objects;
  const std::size_t before = statistics().metadata;
  // For objects of 16 bytes the states would take a sixteenth of the memory.
  while (objects.size() < 16 * kMiB / 16) objects.push_back(late.allocate(16));
  EXPECT_LT(statistics().metadata - before, kMiB)
      << "bitmaps take 128 KiB, states would take 1 MiB";
  for (void* const p : objects) thread.deallocate(p);
  thread.end();
  late.end();
  check_nothing_is_left();
}

TEST_F(AutoChecks, EndWhereStatesTakeMoreThanTheirShareOfTheHeap) {
  TestThread thread(malloc);
  std::vector<void*> objects;
  const auto fill = [&](std::size_t bytes, std::size_t sum) {
    for (; sum >= bytes; sum -= bytes) objects.push_back(thread.allocate(bytes));
  };
  fill(16, kMiB);  // 64 KiB of states
  EXPECT_TRUE(malloc.verifies_frees()) << "so little is not counted";
  fill(200, 16 * kMiB);
  EXPECT_TRUE(malloc.verifies_frees()) << "a 128th";
  fill(16, 8 * kMiB);
  EXPECT_FALSE(malloc.verifies_frees()) << "a 16th of these";
  for (void* const p : objects) thread.deallocate(p);
  EXPECT_FALSE(has_gate(thread));
  thread.end();
  check_nothing_is_left();
  EXPECT_EQ(engine.state_bytes(), 0u) << "they go with their spans";
}

TEST_F(AutoChecks, StatisticsSayHowManyFreesWereVerifiedAndWhetherTheyAre) {
  TestThread thread(malloc);
  for (int i = 0; i < 5000; ++i) thread.deallocate(thread.allocate(128));
  Statistics now = statistics();
  EXPECT_TRUE(now.verifies_frees);
  EXPECT_EQ(now.verified_frees, 4097u) << "the rest as the thread ends";
  EXPECT_EQ(now.state_bytes, kPageBytes / 128) << "of one span";
  thread.end();
  EXPECT_EQ(statistics().verified_frees, 5000u);
  TestThread other(malloc);
  free_often(other);
  now = statistics();
  EXPECT_FALSE(now.verifies_frees);
  EXPECT_GT(now.verified_frees, 262'144u);
  EXPECT_LT(now.verified_frees, 262'144u + 2 * 4096);
}

TEST_F(AutoChecks, ThreadsThatFreeLittleCountTogether) {
  for (int i = 0; i < 3000 && malloc.verifies_frees(); ++i) {
    TestThread thread(malloc);
    for (int j = 0; j < 100; ++j) thread.deallocate(thread.allocate(100));
  }
  EXPECT_FALSE(malloc.verifies_frees());
  check_nothing_is_left();
}

TEST_F(AutoChecks, ReallocCountsAsAFree) {
  TestThread thread(malloc);
  void* p = thread.allocate(100);
  for (int i = 0; i < 300'000; ++i) p = thread.reallocate(p, 90);
  EXPECT_FALSE(malloc.verifies_frees());
  thread.deallocate(p);
}

TEST_F(AutoChecks, AForkedChildCountsAnew) {
  cpu_ns_now = 2'000'000'000;
  TestThread thread(malloc);
  for (int i = 0; i < 3; ++i) free_often(thread);
  ASSERT_TRUE(malloc.verifies_frees());
  fork_as_child(malloc);
  malloc.reset_after_fork(thread.state);
  cpu_ns_now = 0;  // as the child's begins
  for (int i = 0; i < 100'000; ++i) thread.deallocate(thread.allocate(100));
  EXPECT_TRUE(malloc.verifies_frees());
  free_often(thread);
  EXPECT_FALSE(malloc.verifies_frees());
}

struct AutoChecksOfThreads : AutoMalloc, SeededTest {};

/// Threads pass objects to each other through a table, before, during and after the end of
/// verification, which they notice one after the other. They do nothing wrong, so nobody dies.
TEST_F(AutoChecksOfThreads, EndWhileThreadsPassEachOtherObjects) {
  constexpr unsigned kThreads = 4;
  constexpr int kSteps = 100'000;
  std::vector<std::atomic<char*>> table(256);
  std::vector<std::unique_ptr<TestThread>> used;
  for (unsigned t = 0; t < kThreads; ++t) used.push_back(std::make_unique<TestThread>(malloc));
  run_together(kThreads, [&, seed = random()](int t) {
    TestThread& thread = *used[static_cast<std::size_t>(t)];
    std::mt19937_64 draw(seed + static_cast<std::uint64_t>(t));
    for (int i = 0; i < kSteps; ++i) {
      const std::size_t bytes = 1 + draw() % 600;
      auto* p = static_cast<char*>(thread.allocate(bytes));
      if (i % 8 == 0) p = static_cast<char*>(thread.reallocate(p, bytes + 700));
      p[0] = static_cast<char>(i);
      // release what was written, acquire what the other thread wrote
      p = table[draw() % table.size()].exchange(p, std::memory_order_acq_rel);
      if (p != nullptr) thread.deallocate(p);
    }
  });
  EXPECT_FALSE(malloc.verifies_frees());
  for (std::atomic<char*>& object : table) used[0]->deallocate(object.load());
  for (std::unique_ptr<TestThread>& thread : used) thread->end();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
