#include "malloc/profiler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"
#include "malloc/process.h"
#include "malloc/statistics.h"
#include "os/child_in_test.h"

// These tests use the process's own profiler. Each has its own rate, and so its own sites.

namespace strata {
namespace {

/// The profile's sums at one rate, over all sites.
Site::Sums sums_at(std::size_t rate) {
  Site::Sums all{};
  SiteTable& sites = g_malloc.profiler().sites();
  for (std::uint32_t id = 1; id <= sites.count(); ++id) {
    if (sites.site(id).rate != rate) continue;
    const Site::Sums one = sites.site(id).sums();
    all.allocated_objects += one.allocated_objects;
    all.allocated_bytes += one.allocated_bytes;
    all.live_objects += one.live_objects;
    all.live_bytes += one.live_bytes;
  }
  return all;
}

class ProfilerTest : public SeededTest {
 protected:
  ProfilerTest() { deallocate(allocate(1)); }  // the process is ready
  ~ProfilerTest() override {
    g_malloc.profiler().stop();
    g_malloc.profiler().check_invariants();
    g_malloc.engine().check_invariants();
  }
  void start(std::size_t rate) { ASSERT_TRUE(g_malloc.profiler().start(rate, 42)); }
};

TEST_F(ProfilerTest, GoesOnAtARateThatWasUsedBefore) {
  const Site::Sums before = sums_at(1);
  start(1);
  for (int i = 0; i < 30; ++i) deallocate(allocate(1000));
  start(803);
  for (int i = 0; i < 30; ++i) deallocate(allocate(1000));
  start(1);
  for (int i = 0; i < 12; ++i) deallocate(allocate(1000));
  EXPECT_EQ(sums_at(1).allocated_objects, before.allocated_objects + 42);
}

TEST_F(ProfilerTest, ARateOfOneCountsEveryAllocationExactly) {
  start(1);
  const Site::Sums before = sums_at(1);
  std::map<void*, std::size_t> live;
  std::size_t objects = 0;
  std::size_t bytes = 0;
  std::size_t live_bytes = 0;
  const auto note = [&](void* p, std::size_t size) {
    ASSERT_NE(p, nullptr);
    ASSERT_GE(usable_bytes(p), size);
    std::memset(p, 0x5a, size);
    ASSERT_TRUE(live.emplace(p, size).second) << "handed out twice";
    ++objects;
    bytes += size;
    live_bytes += size;
  };
  const auto forget = [&](void* p) {
    live_bytes -= live.at(p);
    live.erase(p);
  };
  for (int step = 0; step < 4000; ++step) {
    const std::size_t size = below(20) == 0 ? below(3'000'000) : below(below(2) != 0 ? 300 : 9000);
    switch (live.size() < 20 ? below(3) : below(6)) {
      case 0:
        note(allocate(size), size);
        break;
      case 1:
        note(allocate_zeroed(1, size), size);
        break;
      case 2: {
        const std::size_t alignment = std::size_t{16} << below(9);
        void* p = allocate_aligned(alignment, size);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
        note(p, size);
        break;
      }
      case 3: {
        void* p = std::next(live.begin(), static_cast<std::ptrdiff_t>(below(live.size())))->first;
        const std::size_t old = live.at(p);
        const bool is_small = g_malloc.engine().record_of(p) != nullptr;
        const bool stays = is_small && Engine::stays_in_place(usable_bytes(p), size);
        void* moved = reallocate(p, size + 1);
        ASSERT_FALSE(stays && moved != p && size + 1 <= old);
        forget(p);
        note(moved, size + 1);
        break;
      }
      default: {
        void* p = std::next(live.begin(), static_cast<std::ptrdiff_t>(below(live.size())))->first;
        deallocate(p);
        forget(p);
      }
    }
    if (step % 50 != 0) continue;
    const Site::Sums now = sums_at(1);
    ASSERT_EQ(now.allocated_objects - before.allocated_objects, objects);
    ASSERT_EQ(now.allocated_bytes - before.allocated_bytes, bytes);
    ASSERT_EQ(now.live_objects - before.live_objects, live.size());
    ASSERT_EQ(now.live_bytes - before.live_bytes, live_bytes);
    g_malloc.profiler().check_invariants();
  }
  g_malloc.profiler().stop();
  for (const auto& [p, size] : live) deallocate(p);
  EXPECT_EQ(sums_at(1).live_objects, before.live_objects) << "frees count after the stop, too";
}

TEST_F(ProfilerTest, EstimatesOfRealAllocationsAreUnbiased) {
  constexpr std::size_t kRate = 20'000;
  start(kRate);
  for (std::size_t size : {std::size_t{0}, std::size_t{30}, std::size_t{500}, std::size_t{5000},
                           std::size_t{200'000}}) {
    const Site::Sums before = sums_at(kRate);
    const int count = size < 5000 ? 200'000 : 4000;
    std::vector<void*> kept;
    for (int i = 0; i < count; ++i) {
      void* p = allocate(size);
      if (i % 4 == 0 && size <= 500) {
        kept.push_back(p);
      } else {
        deallocate(p);
      }
    }
    const Site::Sums now = sums_at(kRate);
    const unsigned size_class = SizeClassMap::class_of(size);
    const std::size_t counted = size_class != 0 ? SizeClassMap::bytes_of(size_class) : size + 1;
    const double weight = static_cast<double>(Sampling::weight(kRate, counted)) / Sampling::kOne;
    const double deviation = std::sqrt(count * (weight - 1));
    EXPECT_NEAR(static_cast<double>(now.allocated_objects - before.allocated_objects), count,
                6 * deviation + 2)
        << size;
    EXPECT_NEAR(static_cast<double>(now.live_objects - before.live_objects),
                static_cast<double>(kept.size()), 6 * deviation / 2 + 2)
        << size;
    for (void* p : kept) deallocate(p);
    EXPECT_EQ(sums_at(kRate).live_objects, before.live_objects) << size;
  }
}

using ProfilerDeathTest = ProfilerTest;

TEST_F(ProfilerDeathTest, ASampledObjectThatWasFreedHasNoSize) {
  start(1);
  void* const p = allocate(100);
  void* const of_the_same_span = allocate(100);
  deallocate(p);
  EXPECT_DEATH(usable_bytes(p), "strata: invalid malloc_usable_size of 0x[0-9a-f]+: the object is");
  EXPECT_DEATH(reallocate(p, 90), "strata: invalid realloc of 0x[0-9a-f]+: the object is");
  EXPECT_DEATH(deallocate(p), "strata: double free of 0x[0-9a-f]+: the object is free already");
  deallocate(of_the_same_span);
}

TEST_F(ProfilerTest, ABlockThatCannotBeResizedStaysInTheBooks) {
  start(1);
  const Site::Sums before = sums_at(1);
  std::vector<void*> blocks;
  for (const std::size_t bytes : {std::size_t{500}, std::size_t{300'000}, std::size_t{3'000'000}}) {
    blocks.push_back(allocate(bytes));
    ASSERT_NE(blocks.back(), nullptr);
    const Site::Sums with = sums_at(1);
    for (const std::size_t more : {std::size_t{1} << 60, SIZE_MAX}) {
      ASSERT_EQ(reallocate(blocks.back(), more), nullptr);
      EXPECT_EQ(sums_at(1).live_objects, with.live_objects) << bytes;
      EXPECT_EQ(sums_at(1).live_bytes, with.live_bytes) << bytes;
      EXPECT_EQ(sums_at(1).allocated_objects, with.allocated_objects) << bytes;
    }
  }
  for (void* p : blocks) deallocate(p);
  EXPECT_EQ(sums_at(1).live_objects, before.live_objects);
}

TEST_F(ProfilerTest, WhatIsResizedAfterTheEndIsFreedAsItWasTaken) {
  start(1);
  void* p = allocate(500);
  g_malloc.profiler().stop();
  const Site::Sums before = sums_at(1);
  EXPECT_EQ(reallocate(p, 505), p);
  EXPECT_EQ(sums_at(1).allocated_bytes, before.allocated_bytes);
  EXPECT_EQ(sums_at(1).live_bytes, before.live_bytes);
  deallocate(p);
  EXPECT_EQ(sums_at(1).live_objects, before.live_objects - 1);
  EXPECT_EQ(sums_at(1).live_bytes, before.live_bytes - 500);
}

TEST_F(ProfilerTest, AProfileGoesOnAtItsRateAndBeginsAnewAtAnother) {
  const std::uint64_t before = sums_at(7000).allocated_bytes;
  start(7000);
  void* large = allocate(5'000'000);
  g_malloc.profiler().stop();
  EXPECT_EQ(sums_at(7000).live_bytes, 5'000'000u);
  deallocate(allocate(5'000'000));
  EXPECT_EQ(sums_at(7000).allocated_bytes, before + 5'000'000) << "nothing is taken between";
  start(7000);
  deallocate(allocate(5'000'000));
  EXPECT_EQ(sums_at(7000).allocated_bytes, before + 10'000'000);
  start(7001);
  deallocate(large);
  EXPECT_EQ(sums_at(7000).live_bytes, 0u);
  EXPECT_EQ(sums_at(7001).allocated_bytes, 0u);
  EXPECT_FALSE(g_malloc.profiler().start(0, 1));
  EXPECT_FALSE(g_malloc.profiler().start(Sampling::kMaxRate + 1, 1));
}

TEST_F(ProfilerTest, AChildOfForkHasBooksOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the child's scavenger starts a thread, which this sanitizer forbids";
#endif
  start(1);
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(allocate(40));
  const Site::Sums before = sums_at(1);
  const int status = os::status_in_child([&] {
    for (void* p : blocks) deallocate(p);
    void* more = allocate(77);
    g_malloc.profiler().check_invariants();
    const Site::Sums now = sums_at(1);
    const bool is_right = now.live_objects + 99 == before.live_objects &&
                          now.allocated_objects == before.allocated_objects + 1;
    deallocate(more);
    return is_right ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sums_at(1).live_objects, before.live_objects);
  for (void* p : blocks) deallocate(p);
}

/// As a child of fork finds a span that another thread was about to destroy.
TEST(ProfilerOfAHeap, TakesASpanOfFullChecksForNoneOfItsOwnAlthoughThePageMapHasNoClassForIt) {
  TestMalloc heap;
  heap.start({.checks = Options::Checks::kFull});
  ASSERT_TRUE(heap.malloc.profiler().start(Sampling::kMaxRate, 1));
  TestThread thread(heap.malloc);
  void* const p = thread.allocate(100);
  thread.deallocate(p);
  heap.map->set_class(*heap.map->span_of(p), 0);
  heap.malloc.forget_all();
  heap.malloc.profiler().check_invariants();
  heap.check();
}

TEST_F(ProfilerTest, ThreadsHandBlocksToEachOtherWhileItStartsAndStops) {
  std::atomic<void*> shelves[8] = {};
  const auto hand_over = [&, seed = random()](int t) {
    std::mt19937_64 choose(seed + static_cast<std::uint64_t>(t));
    for (int i = 0; i < 6000; ++i) {
      const std::size_t size = choose() % (i % 50 == 0 ? 300'000 : 2000);
      auto* p = static_cast<char*>(i % 3 == 0 ? allocate_zeroed(1, size + 1) : allocate(size + 1));
      p[size] = 1;
      if (i % 5 == 0) p = static_cast<char*>(reallocate(p, choose() % 4000 + 1));
      deallocate(shelves[choose() % 8].exchange(p));
    }
  };
  run_together(4, hand_over, [&, round = std::size_t{0}]() mutable {
    start(round % 2 == 0 ? 1 : 900 + round % 3);
    std::this_thread::yield();
    if (round++ % 4 == 3) g_malloc.profiler().stop();
  });
  for (std::atomic<void*>& shelf : shelves) deallocate(shelf.load());
  g_malloc.profiler().stop();
  for (std::size_t rate : {900, 901, 902}) EXPECT_EQ(sums_at(rate).live_objects, 0u);
}

}  // namespace
}  // namespace strata
