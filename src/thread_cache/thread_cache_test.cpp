#include "thread_cache/thread_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/seeded_test.h"
#include "thread_cache/fake_thread.h"

namespace strata {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

struct Fixture : FakeProcess {
  /// All objects of the class outside their spans are in the transfer cache or `elsewhere`.
  bool nothing_is_lost(unsigned size_class, std::size_t elsewhere) {
    const Central::ClassStatistics now = central->statistics(size_class);
    return now.spans.claimed_objects == now.in_transfer + elsewhere;
  }
};

struct ThreadCacheTest : ::testing::Test, Fixture {};

/// Two threads get neighbouring objects from a third thread; each frees and allocates. The
/// neighbours' cache line must not go on moving between the two.
TEST_F(ThreadCacheTest, TheFirstObjectOfAnotherThreadIsUsedAfterLinesOfItsOwn) {
  const auto giver = make_cache();
  for (unsigned size_class = 1; SizeClassMap::bytes_of(size_class) < 128; ++size_class) {
    void* const given[] = {giver->refill_and_pop(size_class), giver->pop(size_class)};
    std::set<std::uintptr_t> lines_in_use;
    std::vector<std::unique_ptr<ThreadCache>> threads;
    for (void* const object : given) {
      threads.push_back(make_cache());
      ThreadCache& thread = *threads.back();
      ASSERT_FALSE(thread.push(size_class, object));
      thread.flush_and_push(size_class, object);
      void* const own = thread.pop(size_class);
      ASSERT_NE(own, nullptr);
      const auto line = reinterpret_cast<std::uintptr_t>(own) / 64;
      const auto given_line = [](void* p) { return reinterpret_cast<std::uintptr_t>(p) / 64; };
      EXPECT_NE(line, given_line(given[0])) << SizeClassMap::bytes_of(size_class) << " bytes";
      EXPECT_NE(line, given_line(given[1])) << SizeClassMap::bytes_of(size_class) << " bytes";
      EXPECT_TRUE(lines_in_use.insert(line).second) << "two threads share a line";
      void* last = nullptr;
      while (void* const next = thread.pop(size_class)) last = next;
      EXPECT_EQ(last, object) << "it is lost, or not the last";
    }
  }
}

/// Many threads over a small heap have small shares. If a bin gave way each time, because the
/// thread is above a share that changes, nearly every object would go to Central.
TEST_F(ThreadCacheTest, ManyThreadsOverASmallHeapSeldomGoToCentral) {
  constexpr std::size_t kThreads = 512;
  constexpr int kRounds = 12;
  constexpr unsigned kClasses[] = {1, 3, 5, 8};
  std::vector<std::unique_ptr<ThreadCache>> caches;
  for (std::size_t t = 0; t < kThreads; ++t) caches.push_back(make_cache());
  ASSERT_LE(budget.share_bytes(), 8192u) << "the shares are not small";
  std::size_t operations = 0;
  std::size_t slow = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (auto& cache : caches) {
      void* objects[std::size(kClasses)][7];
      for (std::size_t k = 0; k < std::size(kClasses); ++k) {
        for (void*& object : objects[k]) {
          object = cache->pop(kClasses[k]);
          if (object != nullptr) continue;
          ++slow;
          object = cache->refill_and_pop(kClasses[k]);
          ASSERT_NE(object, nullptr);
        }
      }
      for (std::size_t k = 0; k < std::size(kClasses); ++k) {
        for (void* object : objects[k]) {
          operations += 2;
          if (cache->push(kClasses[k], object)) continue;
          ++slow;
          cache->flush_and_push(kClasses[k], object);
        }
      }
    }
  }
  EXPECT_LT(slow, operations / 20) << operations << " operations";
  for (auto& cache : caches) cache->flush_all();
}

TEST_F(ThreadCacheTest, WhereThePageHeapHasShardsThreadsLookAtItNowAndThen) {
  space.split_heap();
  const auto cache = make_cache();
  std::vector<Span*> blocks;
  const auto allocate_pages = [&](std::size_t count) {
    for (; count != 0; --count) blocks.push_back(space.heap.allocate(1));
  };
  allocate_pages(100);
  allocate_from(*cache, 20);
  const std::size_t seen = budget.heap_pages();
  EXPECT_GE(seen, 100u) << "the first refill looks";
  allocate_pages(100);
  EXPECT_EQ(budget.heap_pages(), seen);
  for (int i = 0; i < 10'000 && budget.heap_pages() == seen; ++i) allocate_from(*cache, 20);
  EXPECT_GE(budget.heap_pages(), 200u);
  for (Span* block : blocks) space.heap.deallocate(*block);
}

TEST_F(ThreadCacheTest, UnderPressureCachesShrink) {
  auto cache = make_cache();
  std::vector<void*> objects;
  const auto fill = [&] {
    for (int i = 0; i < 20'000; ++i) objects.push_back(allocate_from(*cache, 20));
    for (void* object : objects) deallocate_into(*cache, 20, object);
    objects.clear();
  };
  for (unsigned c : {18u, 19u, 20u, 21u, 22u}) {
    for (int i = 0; i < 2000; ++i) objects.push_back(allocate_from(*cache, c));
    for (std::size_t i = 0; i < objects.size(); ++i) deallocate_into(*cache, c, objects[i]);
    objects.clear();
  }
  const std::size_t share = budget.share_bytes();
  budget.set_pressure(true);
  EXPECT_LT(budget.share_bytes(), share / 4);
  const std::size_t before = cache->capacity_bytes();
  fill();
  EXPECT_LE(cache->capacity_bytes(), before);
  budget.set_pressure(false);
  EXPECT_GE(budget.share_bytes(), share);
}

TEST_F(ThreadCacheTest, ServesEveryClassAndGivesAllBack) {
  auto cache = make_cache();
  std::vector<void*> objects[SizeClassMap::kCount];
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    for (int i = 0; i < 40; ++i) {
      void* object = allocate_from(*cache, c);
      ASSERT_NE(object, nullptr);
      ASSERT_EQ(space.map.class_of(object), c);
      std::memset(object, static_cast<int>(c), SizeClassMap::bytes_of(c));
      objects[c].push_back(object);
    }
    ASSERT_TRUE(nothing_is_lost(c, 40 + cache->count_objects(c)));
  }
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    for (void* object : objects[c]) deallocate_into(*cache, c, object);
    ASSERT_TRUE(nothing_is_lost(c, cache->count_objects(c)));
  }
  EXPECT_TRUE(cache->flush_all(3));
  EXPECT_EQ(cache->count_objects(2), 0u);
  EXPECT_NE(cache->count_objects(3), 0u);
  EXPECT_TRUE(cache->flush_all());
  EXPECT_FALSE(cache->flush_all());
  EXPECT_EQ(held_bytes(*cache), 0u);
  central->release_all();
  EXPECT_EQ(used_pages(), 0u);
}

TEST_F(ThreadCacheTest, AFreedObjectIsNotWritten) {
  auto cache = make_cache();
  const unsigned c = SizeClassMap::class_of(100);
  std::vector<void*> objects;
  // Many, so that they pass all stages: bin, transfer cache and span.
  for (int i = 0; i < 5000; ++i) {
    objects.push_back(allocate_from(*cache, c));
    std::memset(objects.back(), 0x6b, SizeClassMap::bytes_of(c));
  }
  void* const keeps_its_span = objects[2500];
  for (void* object : objects) {
    if (object != keeps_its_span) deallocate_into(*cache, c, object);
  }
  cache->flush_all();
  const Span* span = space.map.span_of(keeps_its_span);
  for (std::size_t i = 0; i < std::size_t{span->object_count} * span->object_bytes; ++i)
    ASSERT_EQ(span->start[i], 0x6b) << i;
  deallocate_into(*cache, c, keeps_its_span);
  cache->flush_all();
}

TEST_F(ThreadCacheTest, WhatIsFlushedGoesPastTheTransferCaches) {
  auto cache = make_cache();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c)
    deallocate_into(*cache, c, allocate_from(*cache, c));
  cache->flush_all();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const Central::ClassStatistics now = central->statistics(c);
    ASSERT_EQ(now.in_transfer, 0u) << "class " << c;
    ASSERT_EQ(now.spans.claimed_objects, 0u) << "class " << c;
  }
}

using ThreadCacheDeathTest = ThreadCacheTest;

TEST_F(ThreadCacheDeathTest, AHomewardObjectWhoseSpanIsGoneIsOfNoClassAndFoundAsItGoesHome) {
  constexpr unsigned kClass = 4;
  auto cache = make_cache();
  std::vector<void*> objects;
  while (objects.empty() || cache->count_objects(kClass) != 0)
    objects.push_back(allocate_from(*cache, kClass));
  deallocate_into(*cache, SizeClassMap::kHomeward, objects[0]);
  std::vector<void*> all = objects;
  central->release_to_spans(kClass, all.data(), all.size());
  central->release_all();
  ThreadCache::Counts counts{};
  cache->add_objects(counts);
  EXPECT_EQ(counts[kClass], 0u);
  EXPECT_DEATH(cache->flush_all(), "strata: invalid free of ");
}

TEST_F(ThreadCacheTest, AWorkingSetThatPassesStaysInTheCache) {
  auto cache = make_cache();
  const unsigned c = SizeClassMap::class_of(64);
  std::vector<void*> objects(100);
  for (int round = 0; round < 20; ++round) {
    for (void*& object : objects) object = allocate_from(*cache, c);
    for (void* object : objects) deallocate_into(*cache, c, object);
  }
  EXPECT_GE(cache->count_objects(c), 100u);
  cache->flush_all();
}

/// One thread allocates and another frees: what the second one holds serves nobody.
TEST_F(ThreadCacheTest, ABinWhoseThreadOnlyFreesStaysSmall) {
  constexpr unsigned kClass = SizeClassMap::class_of(64);
  const auto producer = make_cache();
  const auto consumer = make_cache();
  const auto work = [&](ThreadCache& frees) {
    std::vector<void*> batch(5000);
    for (void*& object : batch) {
      object = producer->pop(kClass);
      if (object == nullptr) object = producer->refill_and_pop(kClass);
    }
    for (void* object : batch) {
      if (!frees.push(kClass, object)) frees.flush_and_push(kClass, object);
    }
  };
  for (int round = 0; round < 10; ++round) work(*consumer);
  EXPECT_LE(consumer->count_objects(kClass), 255u);
  for (int round = 0; round < 3; ++round) work(*producer);
  EXPECT_GE(producer->count_objects(kClass), 1000u) << "what it frees it allocates again";
}

TEST_F(ThreadCacheTest, AnObjectOfAnyClassStaysInTheCacheOfAThreadThatIsAlone) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    auto cache = make_cache();
    deallocate_into(*cache, c, allocate_from(*cache, c));
    EXPECT_GE(cache->count_objects(c), 1u) << "class " << c;
    cache->flush_all();
    budget.remove_thread();
  }
}

TEST_F(ThreadCacheTest, HoldsNoMoreThanTheBudgetHoweverMuchIsFreed) {
  CacheBudget small(space.heap, 100'000);
  small.add_thread();
  ThreadCache cache(*central, small, space.metadata);
  std::vector<void*> objects[SizeClassMap::kCount];
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    for (int i = 0; i < 600 && static_cast<std::size_t>(i) * SizeClassMap::bytes_of(c) < kMiB; ++i)
      objects[c].push_back(allocate_from(cache, c));
  }
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    for (void* object : objects[c]) deallocate_into(cache, c, object);
    ASSERT_LE(held_bytes(cache), 100'000u);
  }
  cache.flush_all();
}

/// If the first bins took the whole share, every object of the other classes would take the slow
/// path.
TEST_F(ThreadCacheTest, BinsOfLargeObjectsLeaveShareForThoseOfSmallOnes) {
  CacheBudget small(space.heap, 64 * 1024);
  small.add_thread();
  ThreadCache cache(*central, small, space.metadata);
  std::vector<void*> objects(8);
  const auto use = [&](unsigned c) {
    for (int round = 0; round < 4; ++round) {
      for (void*& object : objects) object = allocate_from(cache, c);
      for (void* object : objects) deallocate_into(cache, c, object);
    }
  };
  for (const std::size_t bytes : {32768u, 16384u, 8192u, 4096u}) use(SizeClassMap::class_of(bytes));
  for (unsigned c = 1; c <= 16; ++c) {
    use(c);
    EXPECT_GE(cache.count_objects(c), 4u) << "class " << c;
  }
  EXPECT_LE(cache.capacity_bytes(), 64u * 1024);
  cache.flush_all();
}

/// If a few classes have used up the share, each malloc and free of another class would take the
/// slow path for ever. So a class that comes later takes room from the largest bin.
TEST_F(ThreadCacheTest, AClassThatComesWhenTheShareIsUsedUpHasABin) {
  CacheBudget small(space.heap, 96 * 1024);
  small.add_thread();
  ThreadCache cache(*central, small, space.metadata);
  std::vector<void*> objects(100);
  const auto use = [&](unsigned c, std::size_t count) {
    std::size_t slow = 0;
    for (std::size_t i = 0; i < count; ++i) {
      objects[i] = cache.pop(c);
      if (objects[i] != nullptr) continue;
      ++slow;
      objects[i] = FreeObject(cache.refill_and_pop(c)).address();
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (cache.push(c, objects[i])) continue;
      ++slow;
      cache.flush_and_push(c, objects[i]);
    }
    return slow;
  };
  for (const std::size_t bytes : {1024u, 1152u, 1280u, 1408u, 1536u, 1792u, 1920u, 2048u})
    for (int round = 0; round < 8; ++round) use(SizeClassMap::class_of(bytes), objects.size());
  for (int round = 0; round < 20; ++round)
    for (unsigned c = 1; SizeClassMap::bytes_of(c) <= 2048; ++c) use(c, 1);
  std::size_t slow = 0;
  for (int round = 0; round < 10; ++round)
    for (unsigned c = 1; SizeClassMap::bytes_of(c) <= 2048; ++c) slow += use(c, 1);
  EXPECT_EQ(slow, 0u);
  EXPECT_LE(cache.capacity_bytes(), 96u * 1024);
  cache.flush_all();
}

/// Allocates and frees a batch of the class, again and again.
struct BatchedCacheTest : ThreadCacheTest {
  CacheBudget share{space.heap, 1 * kMiB};
  std::unique_ptr<ThreadCache> cache = [this] {
    share.add_thread();
    return std::make_unique<ThreadCache>(*central, share, space.metadata);
  }();
  const unsigned large = SizeClassMap::class_of(8192);

  void churn(unsigned size_class, std::size_t objects, int times) {
    std::vector<void*> batch(objects);
    while (times-- > 0) {
      for (void*& object : batch) object = allocate_from(*cache, size_class);
      for (void* object : batch) {
        deallocate_into(*cache, size_class, object);
        most_held = std::max(most_held, cache->count_objects(size_class));
      }
    }
  }
  std::size_t most_held = 0;
};

TEST_F(BatchedCacheTest, ABinGrowsFurtherWhileBatchesDoNotFit) {
  churn(large, 200, 2);
  const std::size_t usual = cache->capacity_bytes();
  EXPECT_LE(usual, 256u * 1024);
  churn(large, 200, 50);
  EXPECT_GE(cache->capacity_bytes(), 2 * usual);
  EXPECT_LE(cache->capacity_bytes(), 1 * kMiB);
  EXPECT_TRUE(nothing_is_lost(large, cache->count_objects(large)));
  cache->flush_all();
}

/// With a batch of less than twice the bin, the bin runs dry twice and overflows twice, by turns.
TEST_F(BatchedCacheTest, ABinGrowsUntilABatchThatIsALittleLargerFits) {
  const unsigned c = SizeClassMap::class_of(4096);
  churn(c, 100, 2);
  EXPECT_LT(most_held, 100u);
  churn(c, 100, 60);
  EXPECT_GE(most_held, 100u);
  EXPECT_TRUE(nothing_is_lost(c, cache->count_objects(c)));
  cache->flush_all();
}

struct RandomLoadTest : BatchedCacheTest {
  void use_threads(int count) {
    share.set_most_bytes(256 * kMiB);
    for (int other = 1; other < count; ++other) share.add_thread();
  }
  void come_and_go(unsigned size_class) {
    for (int i = 0; i < 200'000; ++i) {
      if (live.empty() || (live.size() < 1000 && random() % 2 == 0)) {
        live.push_back(allocate_from(*cache, size_class));
      } else {
        deallocate_into(*cache, size_class, live.back());
        live.pop_back();
      }
    }
    EXPECT_TRUE(nothing_is_lost(size_class, live.size() + cache->count_objects(size_class)));
    for (void* object : live) deallocate_into(*cache, size_class, object);
    live.clear();
  }
  std::mt19937_64 random{1};
  std::vector<void*> live;
};

TEST_F(RandomLoadTest, ABinDoesNotGrowFurther) {
  churn(large, 200, 2);
  const std::size_t usual = cache->capacity_bytes();
  come_and_go(large);
  EXPECT_EQ(cache->capacity_bytes(), usual);
  cache->flush_all();
}

/// A bin of one object does the same again in two of three cases, a bin of three objects in three
/// of five: in the long run it may double.
TEST_F(RandomLoadTest, ABinOfAFewObjectsDoesNotGrowFurther) {
  use_threads(64);
  for (const std::size_t bytes : {8192u, 4096u, 2048u}) {
    come_and_go(SizeClassMap::class_of(bytes));
    EXPECT_LE(cache->capacity_bytes(), 2 * share.share_bytes());
  }
  cache->flush_all();
}

/// If the first classes have used up the share, the class in most demand would have a bin of an
/// object or two for ever, beside bins that nobody needs.
TEST_F(RandomLoadTest, ABinInDemandGetsTheRoomOfIdleOnes) {
  share.set_most_bytes(512 * 1024);
  for (const std::size_t bytes : {4096u, 5120u, 6144u, 7168u, 8192u, 10240u, 12288u, 14336u})
    churn(SizeClassMap::class_of(bytes), 200, 2);
  const unsigned wanted = SizeClassMap::class_of(20480);
  churn(wanted, 20, 1);
  const std::size_t first_held = cache->count_objects(wanted);
  const std::size_t all = cache->capacity_bytes();
  ASSERT_LE(first_held, 2u) << "the share is not used up";
  come_and_go(wanted);
  churn(wanted, 20, 1);
  EXPECT_GE(cache->count_objects(wanted), 2 * first_held);
  EXPECT_LE(cache->capacity_bytes(), all);
  cache->flush_all();
}

TEST_F(RandomLoadTest, ABinThatHoldsAsMuchAsItMayTakesNothing) {
  share.set_most_bytes(8 * kMiB);
  const unsigned idle = SizeClassMap::class_of(16384);
  churn(idle, 100, 2);
  churn(large, 200, 2);
  const std::size_t before = cache->count_objects(idle);
  const std::size_t all = cache->capacity_bytes();
  come_and_go(large);
  EXPECT_EQ(cache->count_objects(idle), before);
  EXPECT_EQ(cache->capacity_bytes(), all);
  cache->flush_all();
}

/// Room that a lasting load has given a bin is counted separately.
TEST_F(RandomLoadTest, ABinThatALastingLoadHasMadeGrowTakesNothing) {
  const unsigned idle = SizeClassMap::class_of(16384);
  churn(idle, 100, 2);
  const std::size_t before = cache->count_objects(idle);
  churn(large, 60, 60);
  ASSERT_GE(most_held, 30u);
  ASSERT_EQ(cache->count_objects(idle), before);
  come_and_go(large);
  EXPECT_EQ(cache->count_objects(idle), before);
  cache->flush_all();
}

TEST_F(RandomLoadTest, AClassWithoutABinGetsNoneAsIfItsLoadWereALastingOne) {
  use_threads(256);
  come_and_go(large);
  EXPECT_EQ(cache->capacity_bytes(), 0u);
  cache->flush_all();
}

TEST_F(BatchedCacheTest, ABinStaysAsItIsWhereObjectsComeAndGoALittleAtATime) {
  churn(large, 200, 2);
  const std::size_t usual = cache->capacity_bytes();
  const std::size_t most = usual / SizeClassMap::bytes_of(large);
  churn(large, most, 500);
  EXPECT_EQ(cache->capacity_bytes(), usual);
  cache->flush_all();
}

TEST_F(BatchedCacheTest, IdleBinsGiveWayToOneWithALastingLoad) {
  const unsigned other = SizeClassMap::class_of(16384);
  churn(other, 100, 100);
  churn(large, 8, 1);
  churn(large, 200, 400);
  EXPECT_GE(most_held * SizeClassMap::bytes_of(large), 128u * 1024);
  EXPECT_LE(cache->capacity_bytes(), 1 * kMiB);
  for (const unsigned c : {large, other})
    EXPECT_TRUE(nothing_is_lost(c, cache->count_objects(c))) << "class " << c;
  most_held = 0;
  churn(other, 100, 400);
  EXPECT_GE(most_held * SizeClassMap::bytes_of(other), 128u * 1024);
  cache->flush_all();
}

struct LastingLoadTest : BatchedCacheTest {
  LastingLoadTest() {
    share.set_most_bytes(32 * kMiB);
    for (int other = 0; other < 3; ++other) share.add_thread();
    churn(large, 300, 600);
  }
};

TEST_F(LastingLoadTest, ABinUnderALastingLoadMayHoldMoreThanTheThreadsShare) {
  EXPECT_EQ(share.share_bytes(), kMiB / 2);
  EXPECT_GT(cache->capacity_bytes(), kMiB);
  EXPECT_LE(cache->capacity_bytes(), share.lasting_share_bytes());
  EXPECT_TRUE(nothing_is_lost(large, cache->count_objects(large)));
  cache->flush_all();
}

TEST_F(LastingLoadTest, OtherBinsHaveTheThreadsShareAllTheSame) {
  const unsigned small = SizeClassMap::class_of(256);
  most_held = 0;
  churn(small, 200, 3);
  EXPECT_GE(most_held, 200u);
  cache->flush_all();
}

TEST_F(LastingLoadTest, SuchABinGivesWayWhenTheHeapGrows) {
  const std::size_t grown = cache->capacity_bytes();
  std::vector<void*> live(8 * kMiB / 4096);
  const unsigned other = SizeClassMap::class_of(4096);
  for (void*& object : live) object = allocate_from(*cache, other);
  EXPECT_LE(cache->capacity_bytes(), grown * 3 / 4);
  for (void* object : live) deallocate_into(*cache, other, object);
  churn(large, 300, 1200);
  const std::size_t batch_bytes = 300 * SizeClassMap::bytes_of(large);
  EXPECT_GE(cache->capacity_bytes(), batch_bytes * 2 / 3) << "the load went on";
  for (const unsigned c : {large, other})
    EXPECT_TRUE(nothing_is_lost(c, cache->count_objects(c))) << "class " << c;
  cache->flush_all();
}

TEST_F(ThreadCacheTest, WorksWithoutAnyBudget) {
  CacheBudget none(space.heap, 0);
  none.add_thread();
  ThreadCache cache(*central, none, space.metadata);
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    void* a = allocate_from(cache, c);
    void* b = allocate_from(cache, c);
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    ASSERT_NE(a, b);
    deallocate_into(cache, c, a);
    deallocate_into(cache, c, b);
    EXPECT_EQ(cache.count_objects(c), 0u);
  }
  EXPECT_FALSE(cache.flush_all());
}

TEST_F(ThreadCacheTest, ManyThreadsTogetherHoardNoMoreThanTheBudget) {
  constexpr std::size_t kBudget = 4 * kMiB;
  constexpr std::size_t kThreads = 512;
  CacheBudget shared(space.heap, kBudget);
  for (std::size_t i = 0; i < kThreads; ++i) shared.add_thread();
  std::vector<std::unique_ptr<ThreadCache>> caches;
  std::size_t held = 0;
  for (std::size_t i = 0; i < kThreads; ++i) {
    caches.push_back(std::make_unique<ThreadCache>(*central, shared, space.metadata));
    std::vector<std::pair<unsigned, void*>> objects;
    for (int n = 0; n < 40; ++n) {
      for (unsigned c : {1u, 4u, 16u, 30u, 40u})
        objects.emplace_back(c, allocate_from(*caches[i], c));
    }
    for (auto& [c, object] : objects) deallocate_into(*caches[i], c, object);
    held += held_bytes(*caches[i]);
  }
  EXPECT_LE(held, kBudget);
  for (auto& cache : caches) cache->flush_all();
}

TEST_F(ThreadCacheTest, ShrinksAsItRunsOverWhenThreadsHaveCome) {
  auto cache = make_cache();
  const unsigned c = SizeClassMap::class_of(128);
  const auto churn = [&] {
    std::vector<void*> objects(1200);
    for (int round = 0; round < 12; ++round) {
      for (void*& object : objects) object = allocate_from(*cache, c);
      for (void* object : objects) deallocate_into(*cache, c, object);
    }
    return held_bytes(*cache);
  };
  const std::size_t alone = churn();
  for (int i = 0; i < 999; ++i) budget.add_thread();
  ASSERT_LT(budget.share_bytes(), alone);
  EXPECT_LE(churn(), 2 * std::max(budget.share_bytes(), SizeClassMap::bytes_of(c)));
  EXPECT_TRUE(nothing_is_lost(c, cache->count_objects(c)));
  for (int i = 0; i < 999; ++i) budget.remove_thread();
  EXPECT_GE(churn(), alone / 2);
  cache->flush_all();
}

TEST_F(ThreadCacheTest, IsNullWhenOutOfMemoryAndWorksOnAfterwards) {
  auto cache = make_cache();
  // More classes than have their first slots in the cache itself.
  for (unsigned c = 1; c < SizeClassMap::kCount; c += 3) {
    std::vector<void*> objects;
    pages.limit_mapped_bytes(pages.mapped_bytes());
    while (void* object = allocate_from(*cache, c)) objects.push_back(object);
    EXPECT_EQ(allocate_from(*cache, c), nullptr);
    EXPECT_EQ(cache->count_objects(c), 0u);
    EXPECT_TRUE(nothing_is_lost(c, objects.size()));
    pages.limit_mapped_bytes(~std::size_t{0});
    objects.push_back(allocate_from(*cache, c));
    EXPECT_NE(objects.back(), nullptr);
    pages.limit_mapped_bytes(pages.mapped_bytes());
    for (void* object : objects) deallocate_into(*cache, c, object);  // free needs no memory
    EXPECT_TRUE(nothing_is_lost(c, cache->count_objects(c)));
    pages.limit_mapped_bytes(~std::size_t{0});
    cache->flush_all();
    central->release_all();
  }
  EXPECT_EQ(used_pages(), 0u);
}

TEST_F(ThreadCacheTest, AnotherThreadCountsWhileTheOwnerGrowsItsBins) {
  auto cache = make_cache();
  std::atomic<bool> is_over{false};
  std::thread counter([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      for (unsigned c = 1; c < SizeClassMap::kCount; ++c) ASSERT_LE(cache->count_objects(c), 4096u);
    }
  });
  for (int round = 0; round < 30; ++round) {
    std::vector<std::pair<unsigned, void*>> objects;
    for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
      for (int i = 0; i < 1 << (round % 9); ++i) {
        if (static_cast<std::size_t>(i) * SizeClassMap::bytes_of(c) > kMiB) break;
        objects.emplace_back(c, allocate_from(*cache, c));
      }
    }
    for (auto& [c, object] : objects) deallocate_into(*cache, c, object);
    if (round % 10 == 9) cache->flush_all();
  }
  is_over.store(true);
  counter.join();
  cache->flush_all();
}

class ThreadCacheRandomTest : public SeededTest, protected Fixture {};

TEST_F(ThreadCacheRandomTest, NoObjectIsHandedOutTwiceAndNoneIsLost) {
  constexpr std::size_t kCaches = 3;
  std::unique_ptr<ThreadCache> caches[kCaches];
  for (auto& cache : caches) cache = make_cache();
  const unsigned classes[] = {1, 2, 16, 33, 45, SizeClassMap::kCount - 1};
  std::set<void*> live[SizeClassMap::kCount];
  for (int step = 0; step < 4000; ++step) {
    ThreadCache& cache = *caches[below(kCaches)];
    const unsigned c = classes[below(std::size(classes))];
    const std::size_t most = std::clamp<std::size_t>(kMiB / SizeClassMap::bytes_of(c), 8, 1500);
    const std::size_t action = below(40);
    if (action == 0) {
      cache.flush_all();
    } else if (action == 1) {
      central->release_unneeded();
    } else if (action == 2) {
      for (int i = 0; i < 500; ++i) budget.add_thread();
    } else if (action == 3 && budget.share_bytes() < 32 * kMiB / 500) {
      for (int i = 0; i < 500; ++i) budget.remove_thread();
    } else if (action == 4) {
      std::vector<void*> room(500);
      cache.take_over(ThreadCache::Owners::kAll, room.data(), room.size(), [] { return true; });
    } else if (action < 22) {
      for (std::size_t n = below(most / 4 + 1); n != 0 && live[c].size() < most; --n) {
        void* object = allocate_from(cache, c);
        ASSERT_NE(object, nullptr);
        // The page map does not have the number of a class that compacts.
        ASSERT_EQ(space.map.span_of(object)->size_class, c);
        ASSERT_TRUE(live[c].insert(object).second) << "handed out twice";
      }
    } else {
      for (std::size_t n = below(most / 4 + 1); n != 0 && !live[c].empty(); --n) {
        auto it = live[c].lower_bound(*live[c].begin());
        std::advance(it, below(std::min<std::size_t>(live[c].size(), 50)));
        deallocate_into(cache, c, *it);
        live[c].erase(it);
      }
    }
    central->check_invariants();
    std::size_t cached = 0;
    for (auto& each : caches) cached += each->count_objects(c);
    ASSERT_TRUE(nothing_is_lost(c, cached + live[c].size())) << "class " << c;
  }
  for (unsigned c : classes) {
    for (void* object : live[c]) deallocate_into(*caches[0], c, object);
  }
  for (auto& cache : caches) cache->flush_all();
  central->release_all();
  EXPECT_EQ(used_pages(), 0u);
}

}  // namespace
}  // namespace strata
