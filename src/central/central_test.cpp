#include "central/central.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <latch>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/lock_visitor.h"
#include "base/seeded_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

/// All classes over a page source of the test's.
struct Fixture {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  std::unique_ptr<Central> central = std::make_unique<Central>(space.spans, space.metadata);

  std::vector<void*> claim(unsigned size_class, std::size_t count) {
    std::vector<void*> objects(count);
    const std::size_t claimed = central->claim(size_class, objects.data() + count, count);
    objects.erase(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(count - claimed));
    return objects;
  }
  /// Fewer than asked for may come at once; this asks until it has all.
  std::vector<void*> claim_all(unsigned size_class, std::size_t count) {
    std::vector<void*> all;
    while (all.size() < count) {
      const std::vector<void*> some = claim(size_class, count - all.size());
      EXPECT_FALSE(some.empty());
      if (some.empty()) break;
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }
};

struct CentralTest : ::testing::Test, Fixture {};

TEST_F(CentralTest, ReadyObjectsServeBeforeSpans) {
  const std::vector<void*> objects = claim_all(4, 20);
  central->release(4, objects.data(), 20);
  EXPECT_EQ(central->statistics(4).in_transfer, 20u);
  const std::vector<void*> again = claim_all(4, 20);
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()),
            std::set<void*>(again.begin(), again.end()));
  EXPECT_EQ(central->statistics(4).in_transfer, 0u);
  central->release_to_spans(4, again.data(), 20);
}

TEST_F(CentralTest, WhatTheReadyStageCannotTakeGoesToTheSpans) {
  const unsigned c = SizeClassMap::class_of(64);
  const std::vector<void*> objects = claim_all(c, 20'000);
  central->release(c, objects.data(), objects.size());
  const Central::ClassStatistics now = central->statistics(c);
  EXPECT_GT(now.in_transfer, 0u);
  EXPECT_LT(now.in_transfer, 20'000u);
  EXPECT_EQ(now.spans.claimed_objects, now.in_transfer);
  central->check_invariants();
  central->release_all();
  EXPECT_EQ(central->statistics(c).spans.spans, 0u);
}

TEST_F(CentralTest, WithoutMemoryForTheReadyStageObjectsGoToTheirSpans) {
  const std::vector<void*> objects = claim_all(4, 20);
  pages.limit_mapped_bytes(0);
  // The rest of the bookkeeping's chunk is used up first.
  while (space.metadata.allocate(64) != nullptr) {
  }
  central->release(4, objects.data(), 20);
  EXPECT_EQ(central->statistics(4).in_transfer, 0u);
  EXPECT_EQ(central->statistics(4).spans.spans, 0u);
}

TEST_F(CentralTest, UnneededObjectsMoveToTheirSpansAfterTwoRounds) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    const std::vector<void*> objects = claim_all(c, 3);
    central->release(c, objects.data(), objects.size());
  }
  central->release_unneeded();
  central->release_unneeded();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    EXPECT_EQ(central->statistics(c).in_transfer, 0u);
    EXPECT_EQ(central->statistics(c).spans.spans, 0u);
  }
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

TEST_F(CentralTest, ReleaseAllLeavesNothingReady) {
  const std::vector<void*> objects = claim_all(1, 5000);
  central->release(1, objects.data(), 2500);
  central->release_unneeded();
  central->release(1, objects.data() + 2500, 2500);
  central->release_all();
  EXPECT_EQ(central->statistics(1).in_transfer, 0u);
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
  space.heap.check_invariants();
}

TEST_F(CentralTest, TheReadyStageOfSomeClassesMovesToItsSpans) {
  const std::vector<void*> of_class_2 = claim_all(2, 100);
  const std::vector<void*> of_class_3 = claim_all(3, 100);
  central->release(2, of_class_2.data(), 100);
  central->release(3, of_class_3.data(), 100);
  central->flush_ready(3);
  EXPECT_EQ(central->statistics(2).in_transfer, 0u);
  EXPECT_EQ(central->statistics(2).spans.claimed_objects, 0u);
  EXPECT_EQ(central->statistics(3).in_transfer, 100u);
  central->release_all();
}

TEST_F(CentralTest, AllItsLocksCanBeTakenTogetherByRank) {
  central->for_each_lock(LockVisitor::take());
  central->for_each_lock(LockVisitor::give_back());
  central->for_each_lock(LockVisitor::take());
  central->for_each_lock(LockVisitor::reset());
  const std::vector<void*> objects = claim_all(1, 1);
  central->release_to_spans(1, objects.data(), 1);
}

TEST(CentralDeathTest, ADoubleFreeIsFoundWhenTheReadyStageMovesOn) {
  Fixture fixture;
  const std::vector<void*> objects = fixture.claim_all(4, 2);
  void* const twice[] = {objects[0], objects[0]};
  fixture.central->release(4, twice, 2);
  EXPECT_DEATH(fixture.central->release_all(), "strata: double free of ");
}

class CentralRandomTest : public SeededTest, protected Fixture {};

TEST_F(CentralRandomTest, NoObjectIsHandedOutTwiceAndAllComeBack) {
  const unsigned classes[] = {1, 3, 16, 33, SizeClassMap::kCount - 1};
  std::set<void*> claimed[SizeClassMap::kCount];
  std::vector<void*> order[SizeClassMap::kCount];
  for (int step = 0; step < 3000; ++step) {
    const unsigned c = classes[below(std::size(classes))];
    std::vector<void*>& mine = order[c];
    const std::size_t most = std::max<std::size_t>(4, 200'000 / SizeClassMap::bytes_of(c));
    const std::size_t action = below(20);
    if (action == 0) {
      central->release_unneeded();
    } else if (action == 1) {
      central->release_all();
    } else if (mine.empty() || (action < 11 && mine.size() < 2 * most)) {
      const std::vector<void*> batch = claim(c, 1 + below(most));
      ASSERT_FALSE(batch.empty());
      for (void* object : batch) {
        ASSERT_TRUE(claimed[c].insert(object).second) << "handed out twice";
        ASSERT_EQ(space.map.class_of(object), c);
      }
      mine.insert(mine.end(), batch.begin(), batch.end());
    } else {
      const std::size_t count = 1 + below(mine.size());
      if (below(2) == 0) std::shuffle(mine.begin(), mine.end(), random);
      for (std::size_t i = mine.size() - count; i < mine.size(); ++i) claimed[c].erase(mine[i]);
      void* const* batch = mine.data() + mine.size() - count;
      if (below(4) == 0) {
        central->release_to_spans(c, batch, count);
      } else {
        central->release(c, batch, count);
      }
      mine.resize(mine.size() - count);
    }
    central->check_invariants();
    space.heap.check_invariants();
    const Central::ClassStatistics now = central->statistics(c);
    ASSERT_EQ(now.spans.claimed_objects, claimed[c].size() + now.in_transfer);
  }
  for (unsigned c : classes) central->release(c, order[c].data(), order[c].size());
  central->release_all();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

TEST_F(CentralTest, ProducersFeedConsumersWhileTheScavengerMovesThingsOn) {
  constexpr unsigned kClass = 2;
  constexpr std::size_t kRounds = 400;
  constexpr std::size_t kBatch = 60;
  // Each pair hands batches over through a mailbox of its own.
  struct Mailbox {
    std::atomic<bool> is_full{false};
    void* objects[kBatch];
  };
  constexpr int kPairs = 2;
  Mailbox mailboxes[kPairs];
  std::latch gate(2 * kPairs + 1);
  std::atomic<int> running{kPairs};
  std::vector<std::thread> threads;
  for (Mailbox& box : mailboxes) {
    threads.emplace_back([&] {
      gate.arrive_and_wait();
      for (std::size_t i = 0; i < kRounds; ++i) {
        const std::vector<void*> batch = claim_all(kClass, kBatch);
        for (void* object : batch) *static_cast<std::size_t*>(object) = i;
        while (box.is_full.load(std::memory_order_acquire)) std::this_thread::yield();
        std::copy(batch.begin(), batch.end(), box.objects);
        box.is_full.store(true, std::memory_order_release);
      }
    });
    threads.emplace_back([&] {
      gate.arrive_and_wait();
      for (std::size_t i = 0; i < kRounds; ++i) {
        while (!box.is_full.load(std::memory_order_acquire)) std::this_thread::yield();
        for (void* object : box.objects) ASSERT_EQ(*static_cast<std::size_t*>(object), i);
        central->release(kClass, box.objects, kBatch);
        box.is_full.store(false, std::memory_order_release);
      }
      running.fetch_sub(1);
    });
  }
  gate.arrive_and_wait();
  while (running.load() != 0) central->release_unneeded();
  for (std::thread& thread : threads) thread.join();
  central->release_all();
  central->check_invariants();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

}  // namespace
}  // namespace strata
