#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "thread_cache/fake_thread.h"
#include "thread_cache/thread_cache.h"

namespace strata {
namespace {

/// Two threads that fill and empty batches at the same time.
struct NeighboursTest : ::testing::Test, FakeProcess {
  std::unique_ptr<ThreadCache> caches[2] = {make_cache(), make_cache()};

  NeighboursTest() {
    central->set_most_shards(2, 2);
    for (auto& cache : caches) central->enter(cache->place());
  }
  ~NeighboursTest() override {
    for (auto& cache : caches) {
      cache->flush_all();
      central->leave(cache->place());
    }
  }
  enum class Order { kFirstInFirstOut, kLastInFirstOut, kRandom };
  void fill_and_empty(std::size_t bytes, std::size_t count, int batches,
                      Order order = Order::kRandom) {
    const unsigned size_class = SizeClassMap::class_of(bytes);
    std::vector<void*> objects[2];
    std::mt19937 random(1);
    for (int batch = 0; batch < batches; ++batch) {
      for (auto& each : objects) each.clear();
      for (std::size_t i = 0; i < count; ++i) {
        for (int thread : {0, 1})
          objects[thread].push_back(allocate_from(*caches[thread], size_class));
      }
      thread_of.clear();
      for (int thread : {0, 1}) {
        auto& own = objects[thread];
        for (void* const object : own) thread_of[object] = thread;
        if (order == Order::kLastInFirstOut) std::reverse(own.begin(), own.end());
        if (order == Order::kRandom) std::shuffle(own.begin(), own.end(), random);
      }
      for (std::size_t i = 0; i < count; ++i) {
        for (int thread : {0, 1}) deallocate_into(*caches[thread], size_class, objects[thread][i]);
      }
    }
  }
  /// How many objects of the latest batches lie next to one of the other thread's.
  std::size_t neighbours() const {
    std::size_t changes = 0;
    for (auto at = std::next(thread_of.begin()); at != thread_of.end(); ++at)
      changes += std::prev(at)->second != at->second ? 1 : 0;
    return changes;
  }
  /// How many pages have objects of both threads.
  std::size_t shared_pages() const {
    std::map<std::uintptr_t, std::set<int>> threads_of;
    for (const auto& [object, thread] : thread_of)
      threads_of[reinterpret_cast<std::uintptr_t>(object) / kPageBytes].insert(thread);
    return static_cast<std::size_t>(
        std::count_if(threads_of.begin(), threads_of.end(),
                      [](const auto& page) { return page.second.size() == 2; }));
  }

  std::map<void*, int> thread_of;  // the objects of the last batches
};

/// With few exceptions, objects of two threads are neighbours only at the end of a page.
TEST_F(NeighboursTest, BatchesOfTwoThreadsComeToLieApart) {
  for (const std::size_t bytes : {16u, 64u, 256u, 1024u, 2048u, 4096u, 8192u}) {
    for (const std::size_t count : {1000u, 5000u}) {
      const std::size_t page_ends = 2 * count * bytes / kPageBytes;
      fill_and_empty(bytes, count, 30);
      EXPECT_LE(neighbours(), page_ends + count / 20)
          << count << " objects of " << bytes << " bytes";
    }
  }
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::size_t cached = caches[0]->count_objects(c) + caches[1]->count_objects(c);
    const Central::ClassStatistics now = central->statistics(c);
    EXPECT_EQ(now.spans.claimed_objects, now.in_transfer + cached)
        << SizeClassMap::bytes_of(c) << " bytes";
  }
}

/// The objects that a thread had of a class when the class moved are freed last, and allocated
/// first.
TEST_F(NeighboursTest, InNoOrderOfFreesAPageStaysShared) {
  fill_and_empty(4096, 100, 10, Order::kLastInFirstOut);
  EXPECT_EQ(shared_pages(), 0u) << "last in, first out";
  fill_and_empty(6144, 100, 10, Order::kFirstInFirstOut);
  EXPECT_EQ(shared_pages(), 0u) << "first in, first out";
  fill_and_empty(8192, 100, 10, Order::kRandom);
  EXPECT_EQ(shared_pages(), 0u) << "at random";
}

TEST_F(NeighboursTest, AThreadThatFreesNothingGetsManyObjectsAtATime) {
  constexpr std::size_t kObjects = 4096;
  const unsigned size_class = SizeClassMap::class_of(256);
  std::vector<void*> objects[2];
  std::size_t refills = 0;
  for (std::size_t i = 0; i < kObjects; ++i) {
    for (int thread : {0, 1}) {
      void* object = caches[thread]->pop(size_class);
      if (object == nullptr) {
        ++refills;
        object = caches[thread]->refill_and_pop(size_class);
      }
      ASSERT_NE(object, nullptr);
      objects[thread].push_back(object);
    }
  }
  EXPECT_EQ(central->shard_count(), 2u) << "no class has moved";
  EXPECT_LE(refills, 2 * kObjects / 16);
  for (int thread : {0, 1}) {
    for (void* const object : objects[thread]) deallocate_into(*caches[thread], size_class, object);
  }
}

TEST_F(NeighboursTest, ABinGrowsAgainOnceItsClassHasMoved) {
  const unsigned size_class = SizeClassMap::class_of(256);
  fill_and_empty(256, 1000, 40);
  for (auto& cache : caches) EXPECT_GE(cache->count_objects(size_class), 300u);
}

/// Two threads. The second has moved to a shard of its own, with a class that settles.
struct SettlingTest : ::testing::Test {
  static constexpr std::size_t kBeforeMoving = 1024;
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  Central central{space.spans, space.metadata};
  CacheBudget budget{space.heap, std::size_t{32} << 20};
  const unsigned c = SizeClassMap::class_of(64);
  ThreadCache first{central, budget, space.metadata};
  ThreadCache second{central, budget, space.metadata};
  std::vector<void*> before;  // what the second had before it moved

  SettlingTest() {
    central.set_most_shards(2, 2);
    for (ThreadCache* cache : {&first, &second}) {
      budget.add_thread();
      central.enter(cache->place());
    }
    while (before.size() < kBeforeMoving) before.push_back(allocate_from(second, c));
    while (void* object = second.pop(c)) before.push_back(object);
    std::sort(before.begin(), before.end());
    central.move_on(second.place(), c);
    void* const own = allocate_from(second, c);
    EXPECT_EQ(space.map.span_of(own)->shard, 1u) << "the class has not moved";
    deallocate_into(second, c, own);
  }
  ~SettlingTest() override {
    for (ThreadCache* cache : {&first, &second}) {
      cache->flush_all();
      central.leave(cache->place());
      cache->give_back_slots();
    }
    central.release_to_spans(c, before.data(), before.size());
    EXPECT_EQ(central.statistics(c).spans.claimed_objects, 0u);
  }
  void* take() {
    void* const object = before.back();
    before.pop_back();
    return object;
  }
  /// The second thread frees so many of its earlier objects while their list is locked.
  std::vector<void*> free_while_busy(std::size_t count) {
    std::vector<void*> freed;
    while (freed.size() < count) freed.push_back(take());
    LockGuard guard(central.list_lock_of(c, freed[0]));
    std::thread([&] {
      for (void* const object : freed) deallocate_into(second, c, object);
    }).join();
    return freed;
  }
  void take_over_all() {
    void* room[128];
    EXPECT_GT(
        second.take_over(ThreadCache::Owners::kAll, room, std::size(room), [] { return true; }),
        0u);
  }
  bool are_free(const std::vector<void*>& objects) {
    return std::all_of(objects.begin(), objects.end(),
                       [&](void* object) { return central.has(c, object); });
  }
};

TEST_F(SettlingTest, WhatFindsItsListBusyWaitsAndGoesHomeAsWell) {
  const std::vector<void*> freed = free_while_busy(2);
  EXPECT_EQ(central.statistics(c).in_transfer, 0u) << "they would come to this thread again";
  EXPECT_EQ(central.statistics(c).spans.waits, 0u);
  EXPECT_FALSE(central.has(c, freed[0]));
  ThreadCache::Counts counts{};
  second.add_objects(counts);
  EXPECT_EQ(counts[c], 2u);
  second.flush_all();
  EXPECT_TRUE(are_free(freed));
}

TEST_F(SettlingTest, WhatWaitsGoesHomeWhenTheClassHasSettled) {
  const std::vector<void*> freed = free_while_busy(3);
  for (int more = 0; more < 64; ++more) deallocate_into(second, c, take());
  EXPECT_FALSE(are_free(freed));
  deallocate_into(second, c, allocate_from(second, c));
  EXPECT_TRUE(are_free(freed));
}

TEST_F(SettlingTest, OthersMayTakeWhatWaits) {
  // As many as fit.
  std::vector<void*> freed = free_while_busy(127);
  take_over_all();
  const std::vector<void*> more = free_while_busy(1);
  freed.insert(freed.end(), more.begin(), more.end());
  for (int others = 0; others < 64; ++others) deallocate_into(second, c, take());
  deallocate_into(second, c, allocate_from(second, c));
  EXPECT_TRUE(are_free(freed));
}

}  // namespace
}  // namespace strata
