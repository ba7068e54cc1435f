#include "malloc/statistics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"

namespace strata {
namespace {

struct StatisticsTest : ::testing::Test, TestMalloc {
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
  TestThread thread(malloc);
  const unsigned c = SizeClassMap::class_of(1000);
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(thread.allocate(1000));
  blocks.push_back(thread.allocate(200'000));
  blocks.push_back(thread.allocate(3 * kMiB));
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

TEST_F(StatisticsTest, TheTextIsOneWriteHoweverMuchThereIs) {
  Statistics most = statistics();
  for (Statistics::Class& each : most.classes) {
    each.spans = each.kept_spans = each.waits = each.transfer_waits = 1'000'000'000;
    each.live_objects = each.cached_objects = each.free_objects = 1'000'000'000'000;
  }
  BufferSink text(nullptr, 0);
  write_statistics(most, text);
  EXPECT_LT(text.length(), FileSink::kBytes * 2 / 3);
}

TEST_F(StatisticsTest, WhatWentBackIsCounted) {
  TestThread thread(malloc);
  void* p = thread.allocate(kMiB);
  thread.deallocate(p);
  const std::size_t before = statistics().given_back;
  engine.release_all();
  EXPECT_EQ(statistics().given_back, before + kMiB + statistics().idle);
}

TEST_F(StatisticsTest, HugeBlocksThatWentBackAreCounted) {
  TestThread thread(malloc);
  thread.deallocate(thread.allocate(5 * kMiB));
  const Statistics before = statistics();
  EXPECT_GE(before.huge_kept, 5 * kMiB);
  engine.release_all();
  EXPECT_GE(statistics().given_back, before.given_back + before.huge_kept);
}

TEST_F(StatisticsTest, WatchedSpansAreCountedAndGoBack) {
  const unsigned c = SizeClassMap::class_of(2048);
  std::vector<void*> objects(3000);
  for (const bool by_rounds : {true, false}) {
    for (void*& object : objects) object = engine.allocate_watched(c).address;
    const std::size_t spans = statistics().classes[c].spans;
    EXPECT_NE(spans, 0u);
    for (std::size_t i = 1; i < objects.size(); ++i) engine.deallocate_large(objects[i]);
    EXPECT_GE(statistics().classes[c].kept_spans, spans - 1);
    check();
    if (by_rounds) {
      for (int round = 0; round < 2; ++round) engine.release_unneeded();
    } else {
      engine.release_all();
    }
    check();
    const Statistics now = statistics();
    EXPECT_EQ(now.classes[c].spans, 1u);
    EXPECT_EQ(now.classes[c].kept_spans, 0u);
    if (os::page_bytes() < kPageBytes) {
      EXPECT_EQ(now.holes, now.small_spans - os::page_bytes()) << "all but the page of one object";
    }
    engine.deallocate_large(objects[0]);
  }
  check_nothing_is_left();
}

/// All locks of a page heap, as one lock.
struct PageHeapLocks {
  PageHeap& heap;
  void lock() const {
    LocksInFork::begin();
    heap.hold_locks_for_fork();
  }
  void unlock() const { LocksInFork::end_in_parent(); }
  std::size_t waits() const { return heap.waits(); }
};

/// Makes another thread wait for the lock, by `use`.
template <typename AnyLock, typename Use>
void wait_for(AnyLock&& lock, Use use) {
  const std::size_t before = lock.waits();
  lock.lock();
  std::thread other(use);
  while (lock.waits() == before) std::this_thread::yield();  // for ever, if it takes another way
  lock.unlock();
  other.join();
}

TEST_F(StatisticsTest, WaitsAreCountedWhereAThreadWaited) {
  TestThread first(malloc);
  void* page_run = first.allocate(200'000);
  void* huge = first.allocate(3 * kMiB);
  const Statistics::Waits before = statistics().waits;
  EXPECT_EQ(before.total(), 0u) << "nobody was there to wait for";
  wait_for(PageHeapLocks{engine.page_heap()}, [&] { engine.deallocate_large(page_run); });
  EXPECT_EQ(statistics().waits.page_heap, 1u);
  wait_for(engine.huge().lock(), [&] { engine.deallocate_large(huge); });
  MetadataArena& metadata = engine.metadata();
  wait_for(metadata.lock(), [&] { metadata.deallocate(metadata.allocate(64), 64); });
  const Statistics now = statistics();
  EXPECT_EQ(now.waits.huge_heap, 1u);
  EXPECT_EQ(now.waits.metadata, 1u);
  EXPECT_EQ(now.waits.total(), 3u);
}

TEST_F(StatisticsTest, WaitsOfAClassAreItsOwnAndPartOfTheLayers) {
  // Two threads claim and release objects of one class until one has to wait for the other.
  const unsigned c = SizeClassMap::class_of(1000);
  std::atomic<bool> done{false};
  const auto pass = [&] {
    // relaxed: the flag orders nothing.
    while (!done.load(std::memory_order_relaxed)) {
      void* objects[64];
      const std::size_t count = engine.central().claim(c, objects + 64, 64);
      engine.central().release_to_spans(c, objects + 64 - count, count);
    }
  };
  std::thread threads[] = {std::thread(pass), std::thread(pass)};
  while (statistics().classes[c].waits == 0) std::this_thread::yield();
  done.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  const Statistics now = statistics();
  EXPECT_EQ(now.waits.central, now.classes[c].waits + now.classes[c].transfer_waits);
  EXPECT_EQ(now.waits.total(), now.waits.central + now.waits.page_heap + now.waits.metadata);
  EXPECT_EQ(now.shards, 1u) << "nobody with a place in a shard has waited";
}

TEST_F(StatisticsTest, SpansWithoutAnObjectInUseAreKeptByTheirClass) {
  TestThread thread(malloc);
  const unsigned c = SizeClassMap::class_of(1000);
  void* p = thread.allocate(1000);
  EXPECT_EQ(statistics().kept_spans, 0u);
  thread.deallocate(p);
  thread.end();
  engine.registry().flush_all();
  engine.central().flush_transfer();
  const Statistics now = statistics();
  EXPECT_EQ(now.classes[c].kept_spans, 1u);
  EXPECT_EQ(now.kept_spans, now.small_spans);
  engine.release_all();
  EXPECT_EQ(statistics().kept_spans, 0u);
}

/// Threads hold caches, huge blocks and holes; the statistics are read while they rest.
TEST_F(StatisticsTest, EveryByteIsInOnePlaceWhileThreadsWait) {
  constexpr int kThreads = 4;
  std::barrier gate(kThreads + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestThread thread(malloc);
      std::vector<void*> live;
      for (std::size_t i = 0; i < 3000; ++i) {
        live.push_back(thread.allocate(i * 37 % 9000 + static_cast<std::size_t>(t)));
        if (i % 500 == 0) live.push_back(thread.allocate(3 * kMiB + i));
      }
      for (std::size_t i = 0; i < live.size(); ++i) {
        if (i % 3 == 0) continue;
        thread.deallocate(live[i]);
        live[i] = nullptr;
      }
      for (int round = 0; round < 4; ++round) gate.arrive_and_wait();
      for (void* p : live) {
        if (p != nullptr) thread.deallocate(p);
      }
    });
  }
  gate.arrive_and_wait();
  check();
  EXPECT_EQ(statistics().threads, static_cast<std::size_t>(kThreads));
  gate.arrive_and_wait();
  engine.release_all();
  check();
  // If an OS page is a page, only spans of several pages can have a hole.
  if (os::page_bytes() < kPageBytes) {
    EXPECT_NE(statistics().holes, 0u);
  }
  gate.arrive_and_wait();
  engine.release_unneeded();
  check();
  gate.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  check();
  check_nothing_is_left();
}

TEST_F(StatisticsTest, GuardedObjectsAndTheirGuardsAreCounted) {
  Guards& guards = malloc.guards();
  ASSERT_TRUE(guards.objects().start());
  const auto look = [&] {
    const Statistics now = statistics();
    EXPECT_EQ(pages.mapped_bytes(), now.mapped + now.page_map);
    EXPECT_EQ(now.mapped, now.live + now.cached + now.free() + now.metadata + now.returned());
    EXPECT_EQ(now.limit.held, now.mapped - now.returned());
    return now;
  };
  const Statistics before = look();
  std::vector<void*> live;
  for (std::size_t bytes : {1, 100, 5000, 10'000}) live.push_back(guards.allocate({bytes}));
  EXPECT_EQ(look().live, before.live + guards.statistics().live_bytes);
  EXPECT_GT(look().live, before.live + 15'000);
  pages.refuse_from_call(1);
  guards.deallocate(live[3], {});
  pages.refuse_nothing();
  EXPECT_GE(look().free(), before.free() + 10'000) << "what the kernel did not take back is free";
  for (int i = 0; i < 3; ++i) guards.deallocate(live[static_cast<std::size_t>(i)], {});
  EXPECT_EQ(look().live, before.live);
}

/// Serves any number of blocks before it starts.
struct LateMalloc : TestMalloc {
  bool count_first_block() noexcept override { return true; }
};

TEST(StatisticsBeforeTheStart, AskingForThemMakesTheNextAllocationStartTheHeap) {
  LateMalloc program;
  TestThread thread(program.malloc);
  EXPECT_NE(thread.allocate(100), nullptr);
  EXPECT_FALSE(program.malloc.is_started());
  EXPECT_EQ(program.statistics().live, 0u);
  EXPECT_NE(thread.allocate(100), nullptr);
  EXPECT_TRUE(program.malloc.is_started());
  EXPECT_NE(program.statistics().live, 0u);
}

TEST(CheckedStatistics, WhatWaitsForFullChecksIsCachedAndNotLive) {
  TestMalloc program;
  program.start({.checks = Options::Checks::kFull});
  TestThread thread(program.malloc);
  const unsigned c = SizeClassMap::class_of(1000 + CheckedObjects::kLeastSlack);
  std::vector<void*> live;
  for (int i = 0; i < 10; ++i) live.push_back(thread.allocate(1000));
  for (int i = 0; i < 6; ++i) thread.deallocate(live[static_cast<std::size_t>(i)]);
  Statistics now = program.statistics();
  EXPECT_EQ(now.live, 4 * SizeClassMap::bytes_of(c));
  EXPECT_EQ(now.quarantined, 6 * SizeClassMap::bytes_of(c));
  EXPECT_EQ(now.cached, now.quarantined);
  EXPECT_EQ(now.classes[c].cached_objects, 6u);
  program.check();
  program.malloc.checked().flush_quarantine();
  now = program.statistics();
  EXPECT_EQ(now.quarantined, 0u);
  EXPECT_EQ(now.cached, 0u);
  for (int i = 6; i < 10; ++i) thread.deallocate(live[static_cast<std::size_t>(i)]);
  thread.end();
  program.check_nothing_is_left();
}

/// If one figure is read late, its counterpart is read late, too.
TEST_F(StatisticsTest, TheSumIsExactWhileThreadsAllocate) {
  std::atomic<bool> done{false};
  std::barrier gate(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      TestThread thread(malloc);
      std::vector<void*> live(40, nullptr);
      gate.arrive_and_wait();
      // relaxed: the flag orders nothing.
      for (std::size_t i = t; !done.load(std::memory_order_relaxed); ++i) {
        void*& p = live[i * 7919 % live.size()];
        if (p != nullptr) thread.deallocate(p);
        p = thread.allocate(i * 7919 % (i % 7 == 0 ? 3 * kMiB : 100'000));
        if (t == 0) engine.release_all();  // spans come and go
      }
      for (void* p : live) {
        if (p != nullptr) thread.deallocate(p);
      }
    });
  }
  gate.arrive_and_wait();
  for (int i = 0; i < 5000; ++i) {
    const Statistics now = statistics();
    EXPECT_EQ(now.mapped, now.live + now.cached + now.free() + now.metadata + now.returned());
    EXPECT_LE(now.in_threads, now.cached);
  }
  done.store(true, std::memory_order_relaxed);
  for (std::thread& thread : threads) thread.join();
  check();
  check_nothing_is_left();
}

/// The thread that counts is held up between two classes. Meanwhile pages of the class that it has
/// seen go to one that it has not.
TEST_F(StatisticsTest, TheSumIsExactEvenIfPagesAreSeenInTwoClasses) {
  constexpr unsigned kSeen = SizeClassMap::class_of(1024);
  constexpr unsigned kBetween = SizeClassMap::class_of(2048);
  constexpr unsigned kUnseen = SizeClassMap::class_of(4096);
  Central& central = engine.central();
  const auto claim = [&](unsigned c, std::size_t bytes) {
    std::vector<void*> objects(bytes / SizeClassMap::bytes_of(c));
    for (void*& object : objects) EXPECT_EQ(central.claim(c, &object + 1, 1), 1u);
    return objects;
  };
  constexpr std::size_t kMoreThanHalf = kRegionBytes * 5 / 8;
  std::vector<void*> between = claim(kBetween, 2048);
  std::vector<void*> seen = claim(kSeen, kMoreThanHalf);
  Lock& lock = central.list_lock_of(kBetween, between.front());
  std::latch is_held(1);
  std::latch is_moved(1);
  std::thread holder([&] {
    LockGuard guard(lock);
    is_held.count_down();
    is_moved.wait();
  });
  is_held.wait();
  Statistics counted;
  std::thread counter([&] { counted = statistics(); });
  while (lock.waits() == 0) std::this_thread::yield();
  central.release_to_spans(kSeen, seen.data(), seen.size());
  std::vector<void*> unseen = claim(kUnseen, kMoreThanHalf);
  is_moved.count_down();
  holder.join();
  counter.join();
  EXPECT_EQ(statistics().regions, 1u);
  EXPECT_GT(counted.small_spans, kRegionBytes) << "no page was seen twice";
  EXPECT_EQ(counted.mapped,
            counted.live + counted.cached + counted.free() + counted.metadata + counted.returned());
  central.release_to_spans(kUnseen, unseen.data(), unseen.size());
  central.release_to_spans(kBetween, between.data(), between.size());
  check_nothing_is_left();
}

TEST_F(StatisticsTest, TextAndJsonAreWrittenWhateverTheBufferHolds) {
  TestThread thread(malloc);
  void* p = thread.allocate(100);
  const Statistics now = statistics();
  char whole[16'384];
  BufferSink all(whole, sizeof whole);
  write_statistics_json(now, all);
  ASSERT_LT(all.length(), sizeof whole);
  const std::string text(whole);
  for (std::size_t size : {std::size_t{0}, std::size_t{1}, text.size() / 2, text.size()}) {
    std::vector<char> part(size + 1, '?');
    BufferSink sink(part.data(), size);
    write_statistics_json(now, sink);
    EXPECT_NEAR(static_cast<double>(sink.length()), static_cast<double>(text.size()), 8);
    EXPECT_EQ(part[size], '?') << "written after the end of the buffer";
    EXPECT_TRUE(size == 0 || part[size - 1] == '\0');
  }
  BufferSink table(whole, sizeof whole);
  write_statistics(now, table);
  EXPECT_NE(std::string(whole).find("strata: live"), std::string::npos);
  thread.deallocate(p);
}

TEST_F(StatisticsTest, ColumnsOfTheLargestClassStandApart) {
  TestThread thread(malloc);
  const std::size_t bytes = SizeClassMap::bytes_of(SizeClassMap::kCount - 1);
  void* p = thread.allocate(bytes);
  char whole[16'384];
  BufferSink table(whole, sizeof whole);
  write_statistics(statistics(), table);
  EXPECT_NE(std::string(whole).find(" " + std::to_string(bytes) + " "), std::string::npos) << whole;
  thread.deallocate(p);
}

class StatisticsRandomTest : public SeededTest, protected TestMalloc {};

TEST_F(StatisticsRandomTest, AtRestEveryByteIsInExactlyOnePlace) {
  start();
  TestThread threads[2] = {TestThread(malloc), TestThread(malloc)};
  std::vector<void*> live;
  for (int step = 0; step < 3000; ++step) {
    TestThread& thread = threads[below(2)];
    if (live.size() < 10 || (below(2) == 0 && live.size() < 500)) {
      live.push_back(thread.allocate(below(std::size_t{1} << (4 + below(18)))));
      ASSERT_NE(live.back(), nullptr);
    } else {
      std::swap(live[below(live.size())], live.back());
      thread.deallocate(live.back());
      live.pop_back();
    }
    if (below(100) == 0) engine.release_unneeded();
    if (below(300) == 0) engine.release_all();
    check();
  }
  for (void* p : live) threads[0].deallocate(p);
  for (TestThread& thread : threads) thread.end();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
