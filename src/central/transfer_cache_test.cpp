#include "central/transfer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <thread>
#include <vector>

#include "base/metadata_arena.h"
#include "base/seeded_test.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

constexpr std::size_t kCapacity = 32;
constexpr TransferCache::Bounds kFixed{kCapacity, kCapacity, 16};

/// Pointers that differ; nobody reads what they point to.
std::vector<void*> numbered(std::size_t first, std::size_t count) {
  std::vector<void*> objects;
  for (std::size_t i = 0; i < count; ++i)
    objects.push_back(reinterpret_cast<void*>((first + i) * 16));
  return objects;
}

struct TransferCacheTest : ::testing::Test {
  os::FakePageSource pages;
  MetadataArena metadata{pages};
  IdleTally tally;
  TransferCache cache{kFixed, tally, metadata};

  std::vector<void*> remove(std::size_t count) {
    std::vector<void*> objects(count);
    const std::size_t taken = cache.remove(objects.data() + count, count);
    objects.erase(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(count - taken));
    return objects;
  }
  std::vector<void*> take_unneeded() {
    std::vector<void*> all;
    void* batch[5];
    while (const std::size_t count = cache.take_unneeded(batch, std::size(batch)))
      all.insert(all.end(), batch, batch + count);
    return all;
  }
};

TEST_F(TransferCacheTest, MapsNothingUntilSomethingIsInserted) {
  EXPECT_TRUE(remove(3).empty());
  EXPECT_TRUE(take_unneeded().empty());
  EXPECT_EQ(pages.fallible_calls(), 0u);
}

TEST_F(TransferCacheTest, ABatchComesOutAsItWentIn) {
  const std::vector<void*> objects = numbered(1, 10);
  EXPECT_EQ(cache.try_insert(objects.data(), 10), 10u);
  EXPECT_EQ(remove(10), objects);
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(TransferCacheTest, TheLatestComeOutFirst) {
  cache.try_insert(numbered(1, 10).data(), 10);
  cache.try_insert(numbered(100, 4).data(), 4);
  EXPECT_EQ(remove(4), numbered(100, 4));
  EXPECT_EQ(remove(20), numbered(1, 10));
}

TEST_F(TransferCacheTest, TakesTheLastOnesWhenNotAllFit) {
  EXPECT_EQ(cache.try_insert(numbered(1, kCapacity - 2).data(), kCapacity - 2), kCapacity - 2);
  const std::vector<void*> objects = numbered(100, 5);
  EXPECT_EQ(cache.try_insert(objects.data(), 5), 2u);
  EXPECT_EQ(cache.try_insert(objects.data(), 3), 0u);
  EXPECT_EQ(remove(2), std::vector<void*>(objects.begin() + 3, objects.end()));
}

TEST_F(TransferCacheTest, ATryDoesAsMuchUnlessAnotherThreadIsAtIt) {
  const std::vector<void*> batch = numbered(1, 10);
  std::vector<void*> out(10);
  EXPECT_EQ(cache.try_insert(batch.data(), batch.size()), 10u);
  cache.lock().lock();
  std::thread([&] {
    EXPECT_EQ(cache.try_insert(batch.data(), batch.size()), 0u);
    const Tried removed = cache.try_remove(out.data() + 10, 10);
    EXPECT_EQ(removed.count, 0u);
    EXPECT_TRUE(removed.was_busy);
  }).join();
  cache.lock().unlock();
  EXPECT_EQ(cache.size(), 10u);
  EXPECT_EQ(cache.lock().waits(), 0u);
  const Tried removed = cache.try_remove(out.data() + 10, 10);
  EXPECT_EQ(removed.count, 10u);
  EXPECT_FALSE(removed.was_busy);
  EXPECT_EQ(out, batch);
}

TEST_F(TransferCacheTest, AnotherShardTakesFromItUnlessAThreadIsAtIt) {
  const std::vector<void*> batch = numbered(1, 10);
  std::vector<void*> out(10);
  cache.try_insert(batch.data(), batch.size());
  cache.lock().lock();
  std::thread([&] { EXPECT_EQ(cache.try_take(out.data() + 10, 10), 0u); }).join();
  cache.lock().unlock();
  EXPECT_EQ(cache.lock().waits(), 0u);
  EXPECT_EQ(cache.try_take(out.data() + 10, 10), 10u);
  EXPECT_EQ(out, batch);
}

TEST_F(TransferCacheTest, TakesAFewWithoutMemoryForMoreSlots) {
  pages.refuse_call(1);
  const std::vector<void*> objects = numbered(1, 10);
  EXPECT_EQ(cache.try_insert(objects.data(), 10), 4u);
  EXPECT_EQ(cache.size(), 4u);
  EXPECT_EQ(cache.try_insert(objects.data(), 6), 6u);
  std::vector<void*> expected(objects.begin() + 6, objects.end());
  expected.insert(expected.end(), objects.begin(), objects.begin() + 6);
  EXPECT_EQ(remove(10), expected);
}

TEST_F(TransferCacheTest, AFewObjectsTakeNoOtherMemory) {
  pages.refuse_from_call(1);
  const std::vector<void*> objects = numbered(1, 4);
  EXPECT_EQ(cache.try_insert(objects.data(), 4), 4u);
  EXPECT_EQ(remove(4), objects);
}

TEST_F(TransferCacheTest, WhatLayThereForAWholeRoundIsUnneeded) {
  cache.try_insert(numbered(1, 20).data(), 20);
  EXPECT_TRUE(take_unneeded().empty());  // it came during this round
  remove(5);
  cache.try_insert(numbered(100, 3).data(), 3);
  EXPECT_EQ(take_unneeded(), numbered(1, 15));
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(take_unneeded(), numbered(100, 3));
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(TransferCacheTest, ABatchThatPassesInEveryRoundStays) {
  for (int round = 0; round < 5; ++round) {
    cache.try_insert(numbered(1, 20).data(), 20);
    EXPECT_TRUE(take_unneeded().empty());
    EXPECT_EQ(remove(20).size(), 20u);
  }
}

struct GrowingTransferCacheTest : ::testing::Test {
  os::FakePageSource pages;
  MetadataArena metadata{pages};
  IdleTally tally;
  static constexpr std::size_t kObjectBytes = 16 * 1024;
  TransferCache cache{{8, 100, kObjectBytes}, tally, metadata};

  /// How many of 1000 objects the cache takes; they are removed again as claims do it.
  std::size_t pass() {
    const std::vector<void*> objects = numbered(1, 1000);
    const std::size_t taken = cache.try_insert(objects.data(), objects.size());
    std::vector<void*> out(1000);
    EXPECT_EQ(cache.try_remove(out.data() + 1000, 1000).count, taken);
    EXPECT_TRUE(std::equal(out.end() - static_cast<std::ptrdiff_t>(taken), out.end(),
                           objects.end() - static_cast<std::ptrdiff_t>(taken)));
    return taken;
  }
};

TEST_F(GrowingTransferCacheTest, OneThatAThreadOverflowsAndThenRunsDryMayHoldTwiceAsMuch) {
  EXPECT_EQ(pass(), 8u);
  EXPECT_EQ(pass(), 16u);
  EXPECT_EQ(pass(), 32u);
  EXPECT_EQ(pass(), 64u);
  EXPECT_EQ(pass(), 100u);
  EXPECT_EQ(pass(), 100u);
}

TEST_F(GrowingTransferCacheTest, OneThatOnlyRunsOverStaysSmall) {
  for (int i = 0; i < 5; ++i) {
    cache.try_insert(numbered(1, 20).data(), 20);
    std::vector<void*> out(4);
    cache.try_remove(out.data() + 4, 4);
  }
  EXPECT_EQ(cache.size(), 4u);
  EXPECT_EQ(cache.grown_bytes(), 0u);
}

/// More objects between a thread that only frees and one that only allocates serve neither.
TEST_F(GrowingTransferCacheTest, OneThatAnotherThreadRunsDryStaysSmall) {
  for (int i = 0; i < 5; ++i) {
    cache.try_insert(numbered(1, 20).data(), 20);
    std::thread([&] {
      std::vector<void*> out(8);
      EXPECT_EQ(cache.try_remove(out.data() + 8, 8).count, 8u) << i;
    }).join();
  }
  EXPECT_EQ(cache.size(), 0u);
}

TEST_F(GrowingTransferCacheTest, OneThatRunsDrySinceOthersTookFromItStaysSmall) {
  for (int i = 0; i < 5; ++i) {
    cache.try_insert(numbered(1, 20).data(), 20);
    std::vector<void*> out(8);
    EXPECT_EQ(cache.try_take(out.data() + 8, 8), 8u);
  }
}

TEST_F(GrowingTransferCacheTest, WhatIsUnneededLeavesItSmallerAgain) {
  while (pass() < 100) {
  }
  cache.try_insert(numbered(1, 100).data(), 100);
  EXPECT_EQ(cache.grown_bytes(), 92 * kObjectBytes);
  void* out[50];
  EXPECT_EQ(cache.take_unneeded(out, 50), 0u);
  EXPECT_EQ(cache.take_unneeded(out, 50), 50u);
  EXPECT_EQ(cache.take_unneeded(out, 50), 50u);
  EXPECT_EQ(cache.take_unneeded(out, 50), 0u);
  EXPECT_EQ(cache.try_insert(numbered(1, 100).data(), 100), 8u);
}

TEST_F(GrowingTransferCacheTest, ItCanBeMadeSmallWithObjectsInIt) {
  while (pass() < 100) {
  }
  cache.try_insert(numbered(1, 50).data(), 50);
  cache.shrink();
  EXPECT_TRUE(cache.is_full());
  EXPECT_EQ(cache.try_insert(numbered(1, 10).data(), 10), 0u);
  std::vector<void*> out(50);
  EXPECT_EQ(cache.remove(out.data() + 50, 50), 50u);
  EXPECT_EQ(out, numbered(1, 50));
}

TEST_F(GrowingTransferCacheTest, TheSlotsOfOneThatWasMadeSmallServeOthers) {
  const TransferCache::Bounds bounds{8, 16 * 1024, 16};
  const auto grow = [](TransferCache& grown) {
    const std::vector<void*> objects = numbered(1, 16 * 1024);
    std::vector<void*> out(objects.size());
    while (grown.try_insert(objects.data(), objects.size()) < objects.size())
      grown.try_remove(out.data() + out.size(), out.size());
    return grown.remove(out.data() + out.size(), out.size());
  };
  TransferCache first(bounds, tally, metadata);
  ASSERT_EQ(grow(first), 16u * 1024);
  const std::size_t mapped = metadata.mapped_bytes();
  first.shrink();
  TransferCache second(bounds, tally, metadata);
  ASSERT_EQ(grow(second), 16u * 1024);
  EXPECT_EQ(metadata.mapped_bytes(), mapped);
  const std::vector<void*> objects = numbered(1, 16 * 1024);
  second.try_insert(objects.data(), objects.size());
  first.try_insert(numbered(0, 1).data(), 1);
  std::vector<void*> removed(objects.size());
  second.remove(removed.data() + removed.size(), removed.size());
  EXPECT_EQ(removed, objects) << "what the first one gets is not in the slots that it gave back";
  // A cache that shrinks because it is not needed gives its slots back, too.
  void* out[64];
  while (second.try_insert(numbered(1, 16 * 1024).data(), 16 * 1024) > 8) {
    while (second.take_unneeded(out, 64) != 0) continue;
    while (second.take_unneeded(out, 64) != 0) continue;
  }
  while (second.remove(out + 64, 64) != 0) continue;
  TransferCache third(bounds, tally, metadata);
  ASSERT_EQ(grow(third), 16u * 1024);
  EXPECT_EQ(metadata.mapped_bytes(), mapped);
}

TEST_F(GrowingTransferCacheTest, TheTallyKnowsWhatLiesInALargeOne) {
  cache.try_insert(numbered(1, 8).data(), 8);
  EXPECT_EQ(tally.said(), 0) << "too little to say";
  std::vector<void*> out(100);
  cache.remove(out.data() + 8, 8);
  while (pass() < 100) {
  }
  cache.try_insert(numbered(1, 100).data(), 100);
  EXPECT_EQ(tally.said(), 100 * std::ptrdiff_t{kObjectBytes});
  cache.remove(out.data() + 99, 99);
  EXPECT_EQ(tally.said(), 100 * std::ptrdiff_t{kObjectBytes})
      << "each batch that comes and goes would be told";
  cache.tell_tally();
  EXPECT_EQ(tally.said(), std::ptrdiff_t{kObjectBytes});
  cache.forget_objects();
  EXPECT_EQ(tally.said(), 0);
}

TEST_F(GrowingTransferCacheTest, WhatItHasForgottenIsUnneededNoMore) {
  cache.try_insert(numbered(1, 8).data(), 8);
  std::vector<void*> out(8);
  EXPECT_EQ(cache.take_unneeded(out.data(), 8), 0u);  // a round begins, in which it has 8 objects
  cache.forget_objects();
  EXPECT_EQ(cache.take_unneeded(out.data(), 8), 0u);
}

TEST_F(GrowingTransferCacheTest, ItTakesWhatItsSlotsHoldWhereThereIsNoMemoryForMore) {
  while (pass() < 32) {
  }
  pages.refuse_from_call(1);
  while (metadata.allocate(64) != nullptr) {
  }
  EXPECT_EQ(pass(), 32u);
  EXPECT_EQ(pass(), 32u);
}

class TransferCacheRandomTest : public SeededTest {};

TEST_F(TransferCacheRandomTest, IsAStackThatLosesItsBottom) {
  os::FakePageSource pages;
  MetadataArena metadata(pages);
  IdleTally tally;
  TransferCache cache({kCapacity, 64 * kCapacity, 16}, tally, metadata);
  std::vector<void*> model;
  std::size_t least = 0;  // of the model's size since the round began
  std::size_t next = 1;
  std::size_t most = 0;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t count = 1 + below(2 * kCapacity);
    std::vector<void*> batch = numbered(next, count);
    switch (below(6)) {
      case 0:
      case 1: {
        const std::size_t taken = cache.try_insert(batch.data(), count);
        ASSERT_TRUE(taken == count || cache.is_full());
        model.insert(model.end(), batch.end() - static_cast<std::ptrdiff_t>(taken), batch.end());
        next += count;
        break;
      }
      case 2:
      case 3:
      case 4: {
        const std::size_t there = std::min(count, model.size());
        void** const end = batch.data() + count;
        ASSERT_EQ(below(4) != 0 ? cache.try_remove(end, count).count : cache.remove(end, count),
                  there);
        ASSERT_TRUE(std::equal(model.end() - static_cast<std::ptrdiff_t>(there), model.end(),
                               batch.end() - static_cast<std::ptrdiff_t>(there)));
        model.resize(model.size() - there);
        least = std::min(least, model.size());
        break;
      }
      default: {
        const std::size_t taken = cache.take_unneeded(batch.data(), count);
        ASSERT_EQ(taken, std::min(count, least));
        ASSERT_TRUE(std::equal(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(taken),
                               model.begin()));
        model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(taken));
        least = taken == 0 ? model.size() : least - taken;
      }
    }
    ASSERT_EQ(cache.size(), model.size());
    most = std::max(most, model.size());
  }
  EXPECT_GT(most, kCapacity) << "it never grew";
}

}  // namespace
}  // namespace strata
