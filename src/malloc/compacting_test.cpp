// Size classes whose spans were left half empty, as a program sees them.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"

namespace strata {
namespace {

constexpr std::size_t kBytes = 64;
constexpr std::size_t kObjects = 120'000;
const unsigned kClass = SizeClassMap::class_of(kBytes);

struct CompactingTest : ::testing::Test, TestMalloc {
  std::size_t bytes = kBytes;
  std::size_t objects = kObjects;
  std::deque<void*> live;

  void SetUp() override { start_with(Options::Checks::kBasic); }
  void start_with(Options::Checks checks) { start({.checks = checks, .guard_rate = 0}); }

  /// Frees the oldest objects and allocates one for each.
  void replace(TestThread& thread, std::size_t count) {
    for (; count != 0; --count) {
      thread.deallocate(live.front());
      live.pop_front();
      live.push_back(thread.allocate(bytes));
    }
  }
  /// Allocates `objects`; then frees the oldest, two for each new one, until a fourth is left.
  void leave_half_empty(TestThread& thread) {
    while (live.size() < objects) live.push_back(thread.allocate(bytes));
    while (live.size() > objects / 4) {
      thread.deallocate(live.front());
      live.pop_front();
      replace(thread, 1);
    }
  }
  /// Bytes of the class's spans in use per live byte.
  double span_bytes_per_live() {
    const unsigned size_class = SizeClassMap::class_of(bytes);
    const CentralList::Statistics now = engine.central().statistics(size_class).spans;
    return static_cast<double>((now.spans - now.kept_spans) * kPageBytes) /
           static_cast<double>(live.size() * bytes);
  }
  bool is_homeward(const void* p) const { return engine.class_of(p) == SizeClassMap::kHomeward; }
  void free_all(TestThread& thread) {
    for (void* p : live) thread.deallocate(p);
    live.clear();
  }
};

TEST_F(CompactingTest, TurnoverGivesAClassItsSpansBackWhileAsMuchLives) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  replace(thread, 2 * live.size());
  EXPECT_LT(span_bytes_per_live(), 1.4);
  check();
  free_all(thread);
  thread.end();
  check_nothing_is_left();
}

TEST_F(CompactingTest, SoDoClassesOfMoreThanAnOsPageWhoseFreeObjectsAreHardlyHoles) {
  TestThread thread(malloc);
  bytes = 5 * 1024;
  objects = 8000;
  leave_half_empty(thread);
  replace(thread, 2 * live.size());
  EXPECT_LT(span_bytes_per_live(), 1.6);
  check();
  free_all(thread);
  thread.end();
  check_nothing_is_left();
}

TEST_F(CompactingTest, WhatIsFreedPassesByTheBinsOnlyAsLongAsMuchIsFree) {
  TestThread thread(malloc);
  while (live.size() < kObjects) live.push_back(thread.allocate(kBytes));
  EXPECT_FALSE(is_homeward(live.front()));
  std::deque<void*> kept;
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (i % 2 != 0) {
      kept.push_back(live[i]);
    } else {
      thread.deallocate(live[i]);
    }
  }
  live = std::move(kept);
  EXPECT_TRUE(is_homeward(live.front()));
  EXPECT_TRUE(is_homeward(live.back()));
  engine.check_invariants();
  while (live.size() < kObjects) live.push_back(thread.allocate(kBytes));
  engine.release_unneeded();  // looks, too
  EXPECT_FALSE(is_homeward(live.front()));
  EXPECT_FALSE(is_homeward(live.back()));
  check();
  free_all(thread);
}

TEST_F(CompactingTest, AClassThatBinsAloneServeIsFoundByTheScavenger) {
  TestThread thread(malloc);
  while (live.size() < kObjects) live.push_back(thread.allocate(kBytes));
  // Frees three of twenty. Some of these lie in bins, so a little more than an eighth is free.
  for (std::size_t i = 0; i < kObjects; ++i) {
    if (i % 20 < 3) {
      thread.deallocate(live.front());
    } else {
      live.push_back(live.front());
    }
    live.pop_front();
  }
  EXPECT_FALSE(is_homeward(live.front()));
  engine.release_unneeded();
  engine.release_unneeded();
  EXPECT_TRUE(is_homeward(live.front()));
  replace(thread, 2 * live.size());
  EXPECT_LT(span_bytes_per_live(), 1.3);
  free_all(thread);
}

TEST_F(CompactingTest, AHeapThatGrowsGivesBackAsMuchOfSpansThatAreNearlyEmpty) {
  if (os::page_bytes() >= kPageBytes) GTEST_SKIP() << "an OS page is a page: it has no holes";
  TestThread thread(malloc);
  bytes = 1000;
  while (live.size() < 40'000) live.push_back(thread.allocate(bytes));
  for (std::size_t i = 0; i < 40'000; ++i) {
    if (i % 64 != 0) {
      thread.deallocate(live.front());
    } else {
      live.push_back(live.front());
    }
    live.pop_front();
  }
  const std::size_t held = engine.limit().held_bytes();
  for (int i = 0; i < 8'000; ++i) live.push_back(thread.allocate(2500));
  EXPECT_LT(engine.limit().held_bytes(), held + 4 * kMiB);
  check();
  for (int i = 0; i < 20; ++i) live.push_back(thread.allocate(500'000));
  EXPECT_LT(engine.limit().held_bytes(), held + 8 * kMiB);
  check();
  free_all(thread);
  thread.end();
  check_nothing_is_left();
}

TEST_F(CompactingTest, HolesThatAreUsedAgainAreExchangedForOthers) {
  TestThread thread(malloc);
  const auto leave_one_in_64 = [&](std::size_t object_bytes, std::size_t count) {
    std::vector<void*> blocks;
    while (blocks.size() < count) blocks.push_back(thread.allocate(object_bytes));
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 64 != 0) {
        thread.deallocate(blocks[i]);
      } else {
        live.push_back(blocks[i]);
      }
    }
  };
  leave_one_in_64(1000, 20'000);
  engine.release_all();
  const std::size_t held = engine.limit().held_bytes();
  leave_one_in_64(500, 40'000);
  const std::size_t grown = engine.limit().held_bytes();
  ASSERT_GT(grown, held + 16 * kMiB);
  for (int i = 0; i < 15'000; ++i) live.push_back(thread.allocate(1000));
  EXPECT_LT(engine.limit().held_bytes(), grown + 4 * kMiB);
  check();
  free_all(thread);
  thread.end();
  check_nothing_is_left();
}

/// Phases that fill the same spans again and again, with phases of other sizes in between.
TEST_F(CompactingTest, HolesThatTheNextPhaseFillsAreLeftAlone) {
  if (os::page_bytes() >= kPageBytes) GTEST_SKIP() << "an OS page is a page: it has no holes";
  TestThread thread(malloc);
  std::minstd_rand random(1);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  std::vector<void*> kept;
  const auto fill = [&](std::size_t total, std::size_t from, std::size_t to) {
    std::vector<void*> blocks;
    for (std::size_t filled = 0; filled < total;) {
      const std::size_t size = from + below(to - from);
      blocks.push_back(thread.allocate(size));
      filled += size;
    }
    return blocks;
  };
  const auto free_these = [&](const std::vector<void*>& blocks) {
    for (void* p : blocks) thread.deallocate(p);
  };
  const auto cycle = [&] {
    // With OS pages four times as large, a kept object would leave hardly any OS page free.
    const std::size_t scale = os::page_bytes() / 4096;
    const std::vector<void*> small = fill(24 * kMiB, 16 * scale, 512 * scale);
    free_these(std::exchange(kept, {}));
    for (void* p : small) {
      if (below(10) == 0) {
        kept.push_back(p);
      } else {
        thread.deallocate(p);
      }
    }
    free_these(fill(24 * kMiB, 8 * 1024, 64 * 1024));
  };
  const auto calls_of = [&](int cycles) {
    const std::size_t before = pages.calls(os::FakePageSource::kDecommit);
    for (int i = 0; i < cycles; ++i) cycle();
    return pages.calls(os::FakePageSource::kDecommit) - before;
  };
  // Some holes are tried once more, after four to eight further cycles.
  const std::size_t first = calls_of(2);
  EXPECT_LT(calls_of(16), first);
  free_these(kept);
  check();
  thread.end();
  check_nothing_is_left();
}

TEST_F(CompactingTest, LittleMemoryIsNotWorthIt) {
  TestThread thread(malloc);
  while (live.size() < 8'000) live.push_back(thread.allocate(kBytes));
  while (live.size() > 1'000) {
    thread.deallocate(live.front());
    live.pop_front();
  }
  engine.release_unneeded();
  engine.release_unneeded();
  EXPECT_FALSE(is_homeward(live.front()));
  free_all(thread);
}

TEST_F(CompactingTest, HomewardObjectsAreResizedAndMeasuredLikeAnyOther) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  ASSERT_TRUE(is_homeward(live.front()));
  auto* const p = static_cast<char*>(live.front());
  live.pop_front();
  EXPECT_EQ(thread.usable_bytes(p), kBytes);
  std::memset(p, 7, kBytes);
  EXPECT_EQ(thread.reallocate(p, 40), p);
  EXPECT_FALSE(malloc.resize_in_place(p, 2 * kBytes));
  auto* const moved = static_cast<char*>(thread.reallocate(p, 300));
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, p);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(moved[i], 7);
  thread.deallocate(moved);
  free_all(thread);
  thread.end();
  check_nothing_is_left();
}

TEST_F(CompactingTest, HomewardObjectsInBinsAreCountedAsTheirClass) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  const std::size_t before = engine.registry().count_objects(kClass);
  ASSERT_TRUE(is_homeward(live.front()));
  thread.deallocate(live.front());
  live.pop_front();
  const std::size_t after = engine.registry().count_objects(kClass);
  // Either the bin was full and all of it went, or it has one object more.
  EXPECT_TRUE(after == before + 1 || after < before) << before << " " << after;
  check();
  free_all(thread);
}

/// The same with verified frees, where finding an object's state does not need its class.
struct CompactingVerified : CompactingTest {
  void SetUp() override { start_with(Options::Checks::kFrees); }
};

TEST_F(CompactingVerified, TurnoverGivesAClassItsSpansBack) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  ASSERT_TRUE(is_homeward(live.front()));
  replace(thread, 2 * live.size());
  EXPECT_LT(span_bytes_per_live(), 1.4);
  check();
  free_all(thread);
  thread.end();
  check_nothing_is_left();
}

TEST_F(CompactingVerified, HomewardObjectsAreFreedAndResizedByEveryCall) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  const auto take = [this] {
    void* const p = live.front();
    EXPECT_TRUE(is_homeward(p));
    live.pop_front();
    return p;
  };
  malloc.deallocate(thread.state, take(), deleting(kBytes));
  malloc.deallocate(thread.state, take(), freeing(kBytes / 2));
  void* const p = take();
  EXPECT_EQ(thread.usable_bytes(p), kBytes);
  EXPECT_EQ(thread.reallocate(p, kBytes - 4), p);
  thread.deallocate(thread.reallocate(p, 4 * kBytes));
  TestThread other(malloc);
  other.deallocate(take());
  check();
  free_all(thread);
  thread.end();
  other.end();
  check_nothing_is_left();
}

using CompactingVerifiedDeathTest = CompactingVerified;

TEST_F(CompactingVerifiedDeathTest, HomewardObjectsAreVerifiedAtOnce) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  char* const p = static_cast<char*>(live.front());
  ASSERT_TRUE(is_homeward(p));
  constexpr FreeCall kWrong = deleting(4 * kBytes);
  EXPECT_DEATH(malloc.deallocate(thread.state, p, kWrong),
               "mismatched sized delete of 0x[0-9a-f]+: it is an object of 64 bytes");
  EXPECT_DEATH(thread.deallocate(p + 16), "invalid free of 0x[0-9a-f]+: it points into an object");
  thread.deallocate(live[1]);
  thread.deallocate(p);
  EXPECT_DEATH(thread.deallocate(live[1]),
               "double free of 0x[0-9a-f]+: the object is free already");
  EXPECT_DEATH(thread.reallocate(p, 60), "invalid realloc of 0x[0-9a-f]+: the object is free");
  live.erase(live.begin(), live.begin() + 2);
  free_all(thread);
}

using CompactingDeathTest = CompactingTest;

TEST_F(CompactingDeathTest, HomewardObjectsAreVerifiedAsTheyReturn) {
  TestThread thread(malloc);
  leave_half_empty(thread);
  void* const first = live[0];
  void* const second = live[1];
  ASSERT_TRUE(is_homeward(first) && is_homeward(second));
  EXPECT_DEATH(
      {
        thread.deallocate(first);
        thread.deallocate(first);
      },
      "double free of 0x[0-9a-f]+: it was freed just before");
  EXPECT_DEATH(
      {
        thread.deallocate(first);
        thread.deallocate(second);
        thread.deallocate(first);
        malloc.release_memory(thread.state);
      },
      "double free of 0x[0-9a-f]+: the object is free already");
  EXPECT_DEATH(
      {
        thread.deallocate(static_cast<char*>(first) + 16);
        malloc.release_memory(thread.state);
      },
      "invalid free of 0x[0-9a-f]+: it points into an object, not at its start");
  free_all(thread);
}

class CompactingThreads : public SeededTest, protected TestMalloc {};

/// Each thread frees what its neighbour allocated; now much is free, now little. Meanwhile another
/// thread takes over caches and returns memory all the time. (This also showed objects that were
/// lost when the process got its second shard.)
TEST_F(CompactingThreads, ObjectsStayWholeWhileClassesBeginToCompactAndEnd) {
  start();
  constexpr int kThreads = 3;
  constexpr std::size_t kMost = 24'000;
  const std::uint64_t drawn = random();
  std::vector<std::vector<std::uint64_t*>> sets(kThreads);
  std::atomic<bool> is_over{false};
  std::thread scavenger([&] {
    while (!is_over.load()) {
      engine.release_unneeded();
      std::this_thread::yield();
    }
  });
  for (unsigned round = 0; round < 4; ++round) {
    run_together(kThreads, [&](int t) {
      TestThread thread(malloc);
      std::vector<std::uint64_t*>& set = sets[(static_cast<unsigned>(t) + round) % kThreads];
      std::uint64_t state = drawn + round * kThreads + static_cast<std::uint64_t>(t) + 1;
      const auto store = [&] {
        auto* const p = static_cast<std::uint64_t*>(thread.allocate(kBytes));
        ASSERT_NE(p, nullptr);
        p[0] = reinterpret_cast<std::uintptr_t>(p);
        p[7] = ~p[0];
        set.push_back(p);
      };
      const auto drop = [&] {
        state = state * 6364136223846793005u + 1442695040888963407u;
        std::swap(set[(state >> 33) % set.size()], set.back());
        std::uint64_t* const p = set.back();
        set.pop_back();
        ASSERT_EQ(p[0], reinterpret_cast<std::uintptr_t>(p));
        ASSERT_EQ(p[7], ~p[0]);
        p[0] = p[7] = 0;
        thread.deallocate(p);
      };
      while (set.size() < kMost) store();
      while (set.size() > kMost / 4) {
        drop();
        drop();
        store();
      }
      for (std::size_t i = 0; i < kMost / 2; ++i) {
        drop();
        store();
      }
    });
  }
  is_over = true;
  scavenger.join();
  check();
  TestThread last(malloc);
  for (auto& set : sets) {
    for (std::uint64_t* p : set) last.deallocate(p);
  }
  last.end();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
