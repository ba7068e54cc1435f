#include "base/shared_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory_limit.h"
#include "base/run_together_test.h"
#include "base/seeded_test.h"

namespace strata {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// A holder of memory that exists only as figures.
struct Holder {
  std::size_t idle = 0;    ///< as they say
  std::size_t hidden = 0;  ///< in caches, which no figure has
};

class SharedLimitTest : public SeededTest {
 protected:
  SharedLimitTest() {
    g_test = this;
    limit.add(of_test_);
  }

  /// Counts for each holder what it has idle.
  void hold_all() {
    for (const Holder& each : holders) limit.hold(each.idle + each.hidden);
  }

  SharedLimit limit;
  std::vector<Holder> holders;
  std::vector<std::size_t> asked;  // in this order
  std::mutex mutex;
  std::function<void()> meanwhile = [] {};  // called once, while somebody is asked

 private:
  static SharedLimit::Idle next_idle(SharedLimit::Idle last) noexcept {
    std::lock_guard guard(g_test->mutex);
    SharedLimit::Idle first{0, 0};
    for (std::size_t i = 0; i < g_test->holders.size(); ++i) {
      const std::size_t idle = g_test->holders[i].idle;
      const bool is_after = idle != last.bytes ? idle < last.bytes : i > last.which;
      if (is_after && idle > first.bytes) first = {idle, i};
    }
    return first;
  }
  static std::size_t next(std::size_t from) noexcept {
    return from < g_test->holders.size() ? from : SharedLimit::kNone;
  }
  static void give_back(std::size_t which) noexcept {
    std::exchange(g_test->meanwhile, [] {})();
    std::lock_guard guard(g_test->mutex);
    Holder& holder = g_test->holders[which];
    g_test->asked.push_back(which);
    g_test->limit.let_go(holder.idle + holder.hidden);
    holder = {};
  }

  static inline SharedLimitTest* g_test;
  SharedLimit::Holders of_test_{next_idle, next, give_back};
};

TEST_F(SharedLimitTest, WithoutLimitsItOnlyCounts) {
  EXPECT_FALSE(limit.is_any());
  EXPECT_TRUE(limit.try_hold(std::size_t{1} << 60));
  EXPECT_FALSE(limit.is_above_soft());
  EXPECT_EQ(limit.statistics().held, std::size_t{1} << 60);
  EXPECT_EQ(limit.statistics().hard_limit, 0u);
}

TEST_F(SharedLimitTest, TheSumReachesTheHardLimitAndDoesNotPassIt) {
  limit.configure(0, 1000);
  MemoryLimit malloc, heap;
  malloc.hold(300);
  malloc.share(limit);
  heap.share(limit);
  EXPECT_EQ(limit.held_bytes(), 300u) << "what was held before counts";
  EXPECT_TRUE(heap.try_hold(600));
  EXPECT_FALSE(malloc.try_hold(101));
  EXPECT_FALSE(heap.try_hold_unasked(101));
  EXPECT_TRUE(malloc.try_hold(100));
  EXPECT_FALSE(heap.try_hold(1));
  EXPECT_EQ(malloc.held_bytes(), 400u) << "what was refused counts nowhere";
  EXPECT_EQ(heap.held_bytes(), 600u);
  EXPECT_EQ(malloc.statistics().refusals, 1u);
  EXPECT_EQ(heap.statistics().refusals, 1u);
  heap.let_go(600);
  EXPECT_EQ(limit.held_bytes(), 400u);
  EXPECT_EQ(limit.statistics().peak, 1000u);
}

TEST_F(SharedLimitTest, WhatAHeapMayNotHoldItselfIsNotCountedForAll) {
  limit.configure(0, 1000);
  MemoryLimit heap;
  heap.configure(0, 500);
  heap.share(limit);
  EXPECT_FALSE(heap.try_hold(501));
  EXPECT_EQ(limit.held_bytes(), 0u);
  EXPECT_TRUE(heap.try_hold(500));
  heap.let_go(100);
  EXPECT_EQ(limit.held_bytes(), 400u);
  heap.stop_sharing();
  EXPECT_EQ(limit.held_bytes(), 0u);
  heap.let_go(400);
  EXPECT_EQ(limit.held_bytes(), 0u) << "nothing counts there any more";
}

TEST_F(SharedLimitTest, WhatIsRefusedIsInNoSumWhileOtherThreadsCount) {
  limit.configure(0, kMiB);
  MemoryLimit heap;
  heap.share(limit);
  std::size_t most = 0;
  run_together(2, [&](int i) {
    for (int step = 0; step < 5'000'000; ++step) {
      if (i == 0) {
        heap.try_hold(std::size_t{1} << 40);
      } else {
        heap.hold(1);
        most = std::max(most, heap.held_bytes());
        heap.let_go(1);
      }
    }
  });
  EXPECT_EQ(most, 1u);
  EXPECT_EQ(heap.statistics().peak, 1u);
}

TEST_F(SharedLimitTest, WhoHasMostIdleGivesItBackFirstAndNoMoreAreAskedThanItTakes) {
  holders = {{2 * kMiB}, {7 * kMiB}, {kMiB}, {4 * kMiB}, {0}};
  limit.configure(0, 14 * kMiB);
  hold_all();
  EXPECT_TRUE(limit.make_room(5 * kMiB)) << "and two beside it";
  EXPECT_EQ(asked, (std::vector<std::size_t>{1}));
  ASSERT_TRUE(limit.try_hold(5 * kMiB));
  EXPECT_TRUE(limit.make_room(4 * kMiB));
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 3}));
}

TEST_F(SharedLimitTest, EqualHoldersAreAskedOneAfterTheOther) {
  holders.assign(5, {2 * kMiB});
  limit.configure(0, 10 * kMiB);
  hold_all();
  EXPECT_TRUE(limit.make_room(4 * kMiB));
  EXPECT_EQ(asked, (std::vector<std::size_t>{0, 1, 2}));
}

TEST_F(SharedLimitTest, WhatNoFigureHasIsFoundLast) {
  holders = {{0, kMiB}, {2 * kMiB}, {0, 4 * kMiB}};
  limit.configure(0, 7 * kMiB);
  hold_all();
  EXPECT_TRUE(limit.make_room(5 * kMiB));
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 0, 1, 2}));
}

/// Holders of which none has anything.
SharedLimit::Holders with_nothing_idle() {
  return {.next_idle =
              [](SharedLimit::Idle) noexcept {
                return SharedLimit::Idle{0, 0};
              },
          .next = [](std::size_t) noexcept { return SharedLimit::kNone; },
          .give_back = [](std::size_t) noexcept {}};
}

TEST_F(SharedLimitTest, WhatNoFigureHasIsFoundAmongAllHolders) {
  static SharedLimit::Holders others = with_nothing_idle();
  limit.add(others);  // before those of the test
  holders = {{0, 4 * kMiB}, {0, kMiB}};
  limit.configure(0, 5 * kMiB);
  hold_all();
  EXPECT_TRUE(limit.make_room(2 * kMiB));
  EXPECT_EQ(asked, (std::vector<std::size_t>{0})) << "those after it are not asked";
}

/// In the child of a fork, where another thread of the parent had added them.
TEST_F(SharedLimitTest, HoldersThatAreAddedAgainAreAskedOnce) {
  static SharedLimit::Holders others = with_nothing_idle();
  limit.add(others);
  limit.add(others);
  ASSERT_NE(others.following, &others) << "a list without an end";
  holders = {{4 * kMiB, 0}};
  limit.configure(0, 4 * kMiB);
  hold_all();
  EXPECT_TRUE(limit.make_room(kMiB));
  EXPECT_EQ(asked, (std::vector<std::size_t>{0}));
}

TEST_F(SharedLimitTest, WhereNothingIsIdleTheAnswerIsNo) {
  holders = {{0}, {0}};
  limit.configure(0, 4 * kMiB);
  ASSERT_TRUE(limit.try_hold(4 * kMiB));
  EXPECT_FALSE(limit.make_room(kMiB));
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_FALSE(limit.make_room(~std::size_t{0}));
  // A holder that reports idle memory is asked at once, even if the last attempt was in vain.
  holders[1].idle = 3 * kMiB;
  EXPECT_TRUE(limit.make_room(kMiB));
}

TEST_F(SharedLimitTest, AboveTheSoftLimitIdleMemoryGoesBackUntilItIsKept) {
  holders = {{kMiB}, {3 * kMiB}, {2 * kMiB}};
  limit.configure(8 * kMiB, 0);
  hold_all();
  ASSERT_TRUE(limit.try_hold(2 * kMiB));
  limit.keep_to_soft_limit(0);
  EXPECT_TRUE(asked.empty()) << "it is reached, and not passed";
  ASSERT_TRUE(limit.try_hold(4 * kMiB));
  limit.keep_to_soft_limit(0);
  EXPECT_EQ(asked, (std::vector<std::size_t>{1, 2})) << "the most first";
  ASSERT_TRUE(limit.try_hold(2 * kMiB));
  limit.keep_to_soft_limit(0);
  EXPECT_EQ(asked.back(), 0u);
  asked.clear();
  holders[0].idle = kMiB / 8;
  limit.hold(kMiB / 8);
  limit.keep_to_soft_limit(0);
  EXPECT_TRUE(asked.empty()) << "hardly anything has grown since";
  limit.keep_to_soft_limit(kMiB);
  EXPECT_EQ(asked, (std::vector<std::size_t>{0})) << "much is idle";
}

TEST_F(SharedLimitTest, WhoSharesASoftLimitDoesNotAskTwiceForWhatCannotBeReleased) {
  limit.configure(8 * kMiB, 0);
  MemoryLimit malloc;
  malloc.share(limit);
  holders = {{0}};  // what the malloc has idle cannot be released
  malloc.hold(10 * kMiB);
  std::size_t idle = 2 * kMiB;
  const auto keep_to_it = [&] { malloc.keep_to_shared_soft_limit([&] { return idle; }); };
  keep_to_it();
  EXPECT_EQ(asked.size(), 1u);
  keep_to_it();
  EXPECT_EQ(asked.size(), 1u);
  idle += kMiB;
  keep_to_it();
  EXPECT_EQ(asked.size(), 2u);
}

/// The handler makes room while the thread that it interrupted makes room.
TEST_F(SharedLimitTest, ASignalHandlerThatInterruptsItsThreadAtItFindsNoRoom) {
  holders = {{kMiB}};
  limit.configure(0, kMiB);
  hold_all();
  bool has_found_room = true;
  meanwhile = [&] {
    has_found_room = limit.make_room(kMiB);
    EXPECT_FALSE(limit.keep_to_soft_limit(0));
  };
  EXPECT_TRUE(limit.make_room(kMiB / 2));
  EXPECT_FALSE(has_found_room);
}

TEST_F(SharedLimitTest, ThreadsThatMakeRoomForEachOtherNeverPassTheHardLimit) {
  constexpr std::size_t kHard = 16 * kMiB;
  constexpr int kThreads = 4;
  limit.configure(0, kHard);
  holders.resize(kThreads);
  std::atomic<bool> has_passed{false};
  std::atomic<int> served{0};
  const auto chance = static_cast<unsigned>(random());
  run_together(kThreads, [&](int t) {
    std::mt19937 own(chance + static_cast<unsigned>(t));
    for (int i = 0; i < 2000; ++i) {
      const std::size_t bytes = own() % (3 * kMiB) + 1;
      bool is_held = limit.try_hold(bytes);
      for (int tries = 0; !is_held && tries < 4 && limit.make_room(bytes); ++tries)
        is_held = limit.try_hold(bytes);
      if (limit.held_bytes() > kHard) has_passed = true;
      if (!is_held) continue;
      ++served;
      std::lock_guard guard(mutex);
      holders[static_cast<std::size_t>(t)].idle += bytes;  // freed, and kept
    }
  });
  EXPECT_FALSE(has_passed);
  EXPECT_LE(limit.statistics().peak, kHard);
  EXPECT_GT(served, 1000);
  std::size_t idle = 0;
  for (const Holder& each : holders) idle += each.idle;
  EXPECT_EQ(limit.held_bytes(), idle);
}

TEST(SharedLimit, HoldersThatComeMeanwhileAreAskedOneTurnAtATime) {
  // Plain on purpose: two turns at once, or a holder that is seen half made, would be a data race.
  static std::size_t asked = 0;
  for (int round = 0; round < 200; ++round) {
    SharedLimit limit;
    limit.configure(0, kMiB);
    limit.hold(kMiB);
    std::optional<SharedLimit::Holders> late[2];
    run_together(4, [&](int t) {
      if (t >= 2) {
        limit.make_room(kMiB);
        return;
      }
      limit.add(late[t].emplace(
          SharedLimit::Holders{.next_idle =
                                   [](SharedLimit::Idle) noexcept {
                                     ++asked;
                                     return SharedLimit::Idle{0, 0};
                                   },
                               .next = [](std::size_t) noexcept { return SharedLimit::kNone; },
                               .give_back = [](std::size_t) noexcept {}}));
    });
  }
  EXPECT_GT(asked, 0u);
}

TEST(SharedLimit, HoldersThatComeWhileOthersAreAskedAreAskedInTheSameTurn) {
  // relaxed: only the limit may order what the two threads do.
  static std::atomic<bool> is_asked{false};
  static std::atomic<bool> is_added{false};
  static int late_asked;
  is_asked = is_added = false;
  late_asked = 0;
  const auto give_back = [](std::size_t) noexcept {};
  SharedLimit::Holders first{.next_idle =
                                 [](SharedLimit::Idle) noexcept {
                                   is_asked.store(true, std::memory_order_relaxed);
                                   while (!is_added.load(std::memory_order_relaxed))
                                     std::this_thread::yield();
                                   return SharedLimit::Idle{0, 0};
                                 },
                             .next = [](std::size_t) noexcept { return SharedLimit::kNone; },
                             .give_back = give_back};
  SharedLimit limit;
  limit.configure(0, kMiB);
  limit.hold(kMiB);
  limit.add(first);
  std::optional<SharedLimit::Holders> late;
  run_together(2, [&](int t) {
    if (t == 0) {
      EXPECT_FALSE(limit.make_room(kMiB));
      return;
    }
    while (!is_asked.load(std::memory_order_relaxed)) std::this_thread::yield();
    limit.add(late.emplace(SharedLimit::Holders{.next_idle =
                                                    [](SharedLimit::Idle) noexcept {
                                                      return SharedLimit::Idle{0, 0};
                                                    },
                                                .next =
                                                    [](std::size_t) noexcept {
                                                      ++late_asked;
                                                      return SharedLimit::kNone;
                                                    },
                                                .give_back = give_back}));
    is_added.store(true, std::memory_order_relaxed);
  });
  EXPECT_EQ(late_asked, 1);
}

}  // namespace
}  // namespace strata
