#include "thread_cache/thread_registry.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "base/fork_in_test.h"
#include "base/run_together_test.h"
#include "os/page_source.h"
#include "thread_cache/fake_thread.h"

namespace strata {
namespace {

constexpr std::size_t kBudget = std::size_t{32} << 20;

struct ThreadRegistryTest : ::testing::Test, FakeProcess {
  ThreadRegistry registry{*central, space.heap, space.metadata, kBudget};

  /// Leaves `count` objects of the class in the cache.
  static std::set<void*> warm(ThreadCache& cache, unsigned size_class, std::size_t count) {
    std::vector<void*> objects;
    for (std::size_t i = 0; i < count; ++i) objects.push_back(allocate_from(cache, size_class));
    for (void* object : objects) deallocate_into(cache, size_class, object);
    return {objects.begin(), objects.end()};
  }
  std::size_t claimed(unsigned size_class) {
    return central->statistics(size_class).spans.claimed_objects;
  }
};

TEST_F(ThreadRegistryTest, CountsTheThreadsThatLive) {
  EXPECT_EQ(registry.live_threads(), 0u);
  ThreadCache* a = registry.adopt();
  ThreadCache* b = registry.adopt();
  EXPECT_NE(a, b);
  EXPECT_EQ(registry.live_threads(), 2u);
  registry.park(*a);
  EXPECT_EQ(registry.live_threads(), 1u);
  EXPECT_TRUE(registry.has_parked());
  registry.park(*b);
  EXPECT_EQ(registry.live_threads(), 0u);
}

TEST_F(ThreadRegistryTest, ANewThreadAdoptsAWarmCacheAndGetsWhatItHolds) {
  ThreadCache* cache = registry.adopt();
  const std::set<void*> held = warm(*cache, 4, 5);
  const std::size_t count = cache->count_objects(4);
  ASSERT_GE(count, 5u);
  registry.park(*cache);
  EXPECT_EQ(registry.count_objects(4), count);
  ThreadCache* adopted = registry.adopt();
  EXPECT_EQ(adopted, cache);
  EXPECT_FALSE(registry.has_parked());
  for (int i = 0; i < 5; ++i) {
    void* object = adopted->pop(4);
    EXPECT_EQ(held.count(object), 1u);
    deallocate_into(*adopted, 4, object);
  }
  EXPECT_EQ(registry.count_objects(4), claimed(4));
}

TEST_F(ThreadRegistryTest, TheShareOfTheBudgetFollowsTheThreads) {
  ThreadCache* a = registry.adopt();
  const std::size_t alone = registry.budget().share_bytes();
  std::vector<ThreadCache*> others;
  for (int i = 0; i < 3; ++i) others.push_back(registry.adopt());
  EXPECT_EQ(registry.budget().share_bytes(), alone / 4);
  for (ThreadCache* cache : others) registry.park(*cache);
  EXPECT_EQ(registry.budget().share_bytes(), alone);
  registry.park(*a);
}

TEST_F(ThreadRegistryTest, ManyThreadsThatEndLeaveABoundedNumberOfWarmCaches) {
  std::vector<ThreadCache*> caches;
  for (int i = 0; i < 200; ++i) {
    caches.push_back(registry.adopt());
    warm(*caches.back(), 2, 4);
  }
  const std::size_t before = registry.count_objects(2);
  for (ThreadCache* cache : caches) registry.park(*cache);
  EXPECT_LT(registry.count_objects(2), before / 4);
  EXPECT_EQ(registry.count_objects(2) + central->statistics(2).in_transfer, claimed(2));
  std::set<ThreadCache*> again;
  for (std::size_t i = 0; i < caches.size(); ++i) again.insert(registry.adopt());
  EXPECT_EQ(again, std::set<ThreadCache*>(caches.begin(), caches.end())) << "new ones take memory";
}

TEST_F(ThreadRegistryTest, BookkeepingOfThreadsThatEndedServesThoseThatUseOtherSizes) {
  const auto live_through = [this](unsigned size_class) {
    std::vector<ThreadCache*> caches;
    for (int i = 0; i < 16; ++i) {
      caches.push_back(registry.adopt());
      warm(*caches.back(), size_class, 2000);
    }
    for (ThreadCache* cache : caches) registry.park(*cache);
    registry.flush_all();
  };
  live_through(1);
  const std::size_t before = space.metadata.mapped_bytes();
  for (unsigned c = 2; c <= 12; ++c) live_through(c);
  EXPECT_LE(space.metadata.mapped_bytes() - before, MetadataArena::kChunkBytes);
}

TEST_F(ThreadRegistryTest, ShortThreadsOneAfterTheOtherNeedNoMoreMemoryThanOne) {
  ThreadCache* first = registry.adopt();
  warm(*first, 2, 100);
  registry.park(*first);
  const std::size_t mapped = pages.mapped_bytes();
  for (int i = 0; i < 10'000; ++i) {
    ThreadCache* cache = registry.adopt();
    warm(*cache, 2, 100);
    registry.park(*cache);
  }
  EXPECT_EQ(pages.mapped_bytes(), mapped);
}

TEST_F(ThreadRegistryTest, ACacheThatWaitsThroughARoundIsFlushed) {
  ThreadCache* cache = registry.adopt();
  warm(*cache, 4, 5);
  registry.park(*cache);
  registry.flush_unneeded();
  EXPECT_NE(registry.count_objects(4), 0u);
  registry.flush_unneeded();
  EXPECT_EQ(registry.count_objects(4), 0u);
  EXPECT_FALSE(registry.has_parked());
  EXPECT_EQ(central->statistics(4).in_transfer, claimed(4));
}

TEST_F(ThreadRegistryTest, ACacheThatIsAdoptedInEveryRoundStaysWarm) {
  ThreadCache* cache = registry.adopt();
  warm(*cache, 4, 5);
  const std::size_t held = registry.count_objects(4);
  for (int round = 0; round < 5; ++round) {
    registry.park(*cache);
    registry.flush_unneeded();
    EXPECT_EQ(registry.adopt(), cache);
    EXPECT_EQ(registry.count_objects(4), held);
  }
  registry.park(*cache);
}

TEST_F(ThreadRegistryTest, OnlyWhatWaitedIsFlushedAndNotWhatWasParkedLater) {
  ThreadCache* a = registry.adopt();
  ThreadCache* b = registry.adopt();
  warm(*a, 4, 5);
  warm(*b, 5, 5);
  registry.park(*a);
  registry.flush_unneeded();
  registry.park(*b);
  registry.flush_unneeded();
  EXPECT_EQ(registry.count_objects(4), 0u);
  EXPECT_NE(registry.count_objects(5), 0u);
  EXPECT_EQ(registry.adopt(), b);
}

TEST_F(ThreadRegistryTest, FlushAllEmptiesParkedCachesAndLeavesTheLatestObjectsOfThoseInUse) {
  ThreadCache* a = registry.adopt();
  ThreadCache* b = registry.adopt();
  warm(*a, 4, 5);
  warm(*b, 5, 5);
  registry.park(*a);
  EXPECT_NE(registry.parked_bytes(), 0u);
  registry.flush_all();
  EXPECT_EQ(registry.count_objects(4), 0u);
  EXPECT_NE(registry.count_objects(5), 0u);
  EXPECT_FALSE(registry.has_parked());
  EXPECT_EQ(registry.parked_bytes(), 0u);
}

TEST_F(ThreadRegistryTest, ThreadsBeginAndEndWhileAFlushWaitsForAThread) {
  ThreadCache& busy = *registry.adopt();
  warm(busy, 4, 5);
  warm(*registry.adopt(), 5, 5);
  busy.bins_lock().lock();  // as in a slow path
  std::thread flush([this] { registry.flush_all(); });
  while (busy.bins_lock().waits() == 0) std::this_thread::yield();
  std::thread([this] {
    registry.park(*registry.adopt());
    EXPECT_TRUE(registry.has_parked());
  }).join();
  busy.bins_lock().unlock();
  flush.join();
  EXPECT_EQ(registry.live_threads(), 2u);
}

TEST_F(ThreadRegistryTest, AFullCacheIsTakenOverInOneRoundHoweverMuchItHolds) {
  // Makes the heap large enough for a share that lets bins become large.
  std::vector<void*> heap;
  ThreadCache& cache = *registry.adopt();
  for (int i = 0; i < 20'000; ++i) heap.push_back(allocate_from(cache, 16));
  for (unsigned c = 1; c < 12; ++c) {
    std::vector<void*> objects;
    for (int i = 0; i < 2000; ++i) objects.push_back(allocate_from(cache, c));
    for (void* object : objects) deallocate_into(cache, c, object);
  }
  std::size_t held = 0;
  for (unsigned c = 1; c < 12; ++c) held += registry.count_objects(c);
  ASSERT_GT(held, 4000u) << "it does not fit the room of one turn";
  registry.flush_all();
  for (unsigned c = 1; c < 12; ++c) EXPECT_LE(registry.count_objects(c), 1u) << c;
  for (void* object : heap) deallocate_into(cache, 16, object);
  registry.park(cache);
}

TEST_F(ThreadRegistryTest, WhatTwoThreadsCacheIsTakenOverWhenThereIsNoMemoryForBookkeeping) {
  warm(*registry.adopt(), 4, 5);
  warm(*registry.adopt(), 5, 5);
  pages.refuse_from_call(1);
  while (space.metadata.allocate_forever(64) != nullptr) continue;
  registry.flush_all();
  EXPECT_EQ(registry.count_objects(4), 1u) << "the latest one stays";
  EXPECT_EQ(registry.count_objects(5), 1u);
  pages.refuse_nothing();
}

TEST_F(ThreadRegistryTest, IsNullWhenOutOfMemoryAndServesTheNext) {
  pages.refuse_call(1);
  EXPECT_EQ(registry.adopt(), nullptr);
  EXPECT_EQ(registry.live_threads(), 0u);
  EXPECT_NE(registry.adopt(), nullptr);
  EXPECT_EQ(registry.live_threads(), 1u);
}

TEST_F(ThreadRegistryTest, AllItsLocksCanBeTakenTogetherByRank) {
  ThreadCache* a = registry.adopt();
  ThreadCache* b = registry.adopt();
  registry.park(*a);
  fork_as_parent(registry);
  fork_as_child(registry);
  registry.keep_only(b);
  EXPECT_EQ(registry.count_objects(1), 0u);
  EXPECT_EQ(registry.adopt(), a);
  warm(*b, 1, 3);
}

TEST_F(ThreadRegistryTest, AForkHoldsTheBinsOfEveryThread) {
  ThreadCache& cache = *registry.adopt();
  LocksInFork::begin();
  registry.hold_locks_for_fork();
  EXPECT_TRUE(cache.bins_lock().is_held()) << "another thread might be counting them";
  LocksInFork::end_in_parent();
  EXPECT_FALSE(cache.bins_lock().is_held());
}

TEST_F(ThreadRegistryTest, AThreadThatIsEnrolledAgainAfterTheGateWasTakenAwayHasItsCacheAlone) {
  ObjectBins& none = EmptyBins::g_all.first();
  ObjectBins& gate = EmptyBins::g_all[EmptyBins::kVerifying];
  ThreadCache& cache = *registry.adopt();
  ThreadState thread{&none, &none, &none};
  registry.put_before_caches(gate);
  ASSERT_TRUE(registry.enroll(cache, thread));
  EXPECT_EQ(thread.free_bins, &gate);
  EXPECT_EQ(thread.verified_bins, &cache);
  registry.put_nothing_before_caches();
  ASSERT_TRUE(registry.enroll(cache, thread));
  EXPECT_EQ(thread.free_bins, &cache);
  EXPECT_EQ(thread.verified_bins, &none);
  EXPECT_EQ(&thread.for_malloc(), &cache);
}

/// Such as a thread whose first call was in the last of its exit hooks.
TEST_F(ThreadRegistryTest, TheStateOfAThreadThatEndedUnnoticedIsNotTouched) {
  ObjectBins& none = EmptyBins::g_all.first();
  ObjectBins& other = EmptyBins::g_all[EmptyBins::kVerifying];
  const auto begin = [&](void* place) {
    auto* const thread = new (place) ThreadState{&none, &none, &none};
    EXPECT_TRUE(registry.enroll(*registry.adopt(thread), *thread));
    return thread;
  };
  void* const unmapped = os::kernel_pages().map(os::page_bytes());
  ASSERT_NE(unmapped, nullptr);
  begin(unmapped);
  os::kernel_pages().unmap(unmapped, os::page_bytes());
  // The other state's place now belongs to a later thread.
  ThreadState place;
  begin(&place);
  ThreadState* const later = begin(&place);
  registry.redirect_malloc(&other);
  EXPECT_EQ(&later->for_malloc(), &other);
  registry.redirect_malloc(nullptr);
  EXPECT_EQ(&later->for_malloc(), later->cache);
  registry.park(*later->cache);
}

TEST_F(ThreadRegistryTest, AForkedChildKeepsItsOwnCacheAndForgetsTheOthers) {
  std::vector<ThreadCache*> caches;
  for (int i = 0; i < 512; ++i) caches.push_back(registry.adopt());
  const std::size_t share_of_many = registry.budget().share_bytes();
  warm(*caches[7], 3, 5);
  fork_as_child(registry);
  registry.keep_only(caches[7]);
  EXPECT_EQ(registry.live_threads(), 1u);
  EXPECT_NE(registry.count_objects(3), 0u);
  EXPECT_EQ(registry.budget().share_bytes(), 512 * share_of_many)
      << "the share is that of one thread";
  registry.park(*caches[7]);
  EXPECT_EQ(registry.live_threads(), 0u);
}

TEST_F(ThreadRegistryTest, AForkedChildWritesNothingToTheCachesOfThreadsThatItDoesNotHave) {
  ThreadCache* const lost = registry.adopt();
  ThreadCache* const own = registry.adopt();
  warm(*lost, 3, 5);
  fork_as_child(registry);
  std::vector<std::byte> before(sizeof *lost);
  std::memcpy(before.data(), static_cast<void*>(lost), sizeof *lost);
  registry.keep_only(own);
  EXPECT_EQ(std::memcmp(before.data(), static_cast<void*>(lost), sizeof *lost), 0)
      << "each write copies a page";
}

TEST_F(ThreadRegistryTest, ThreadsComeAndGoWhileSomebodyCountsAndFlushes) {
  const auto come_and_go = [&](int t) {
    for (unsigned life = 0; life < 100; ++life) {
      ThreadCache* cache = registry.adopt();
      ASSERT_NE(cache, nullptr);
      const unsigned c = 1 + (life + static_cast<unsigned>(t)) % 20;
      std::vector<void*> objects;
      for (int i = 0; i < 50; ++i) {
        objects.push_back(allocate_from(*cache, c));
        *static_cast<int*>(objects.back()) = t;
      }
      for (void* object : objects) {
        ASSERT_EQ(*static_cast<int*>(object), t);
        deallocate_into(*cache, c, object);
      }
      registry.park(*cache);
    }
  };
  run_together(4, come_and_go, [&] {
    registry.count_objects(3);
    registry.flush_unneeded();
    central->release_unneeded();
  });
  registry.flush_all();
  central->release_all();
  EXPECT_EQ(used_pages(), 0u);
}

}  // namespace
}  // namespace strata
