#include "central/central.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_in_test.h"
#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

/// Releases objects as a thread that has just begun would.
void release_as_new_thread(Central& central, unsigned size_class, void** objects,
                           std::size_t count) {
  Central::Place place(central);
  central.release(place, size_class, objects, count);
}

/// All classes over the test's page source.
struct Fixture {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  std::unique_ptr<Central> central = std::make_unique<Central>(space.spans, space.metadata);

  std::vector<void*> claim(unsigned size_class, std::size_t count) {
    std::vector<void*> objects(count);
    const std::size_t claimed = central->claim(size_class, objects.data() + count, count);
    objects.erase(objects.begin(), objects.begin() + static_cast<std::ptrdiff_t>(count - claimed));
    for (void*& object : objects) object = FreeObject(object).address();
    return objects;
  }
  /// One claim may return fewer objects than asked for; this claims until it has all.
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

TEST_F(CentralTest, TheTransferCacheServesBeforeSpans) {
  std::vector<void*> objects = claim_all(4, 20);
  release_as_new_thread(*central, 4, objects.data(), 20);
  EXPECT_EQ(central->statistics(4).in_transfer, 20u);
  std::vector<void*> again = claim_all(4, 20);
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()),
            std::set<void*>(again.begin(), again.end()));
  EXPECT_EQ(central->statistics(4).in_transfer, 0u);
  central->release_to_spans(4, again.data(), 20);
}

TEST_F(CentralTest, WhatTheTransferCacheCannotTakeGoesToTheSpans) {
  const unsigned c = SizeClassMap::class_of(64);
  std::vector<void*> objects = claim_all(c, 20'000);
  release_as_new_thread(*central, c, objects.data(), objects.size());
  const Central::ClassStatistics now = central->statistics(c);
  EXPECT_GT(now.in_transfer, 0u);
  EXPECT_LT(now.in_transfer, 20'000u);
  EXPECT_EQ(now.spans.claimed_objects, now.in_transfer);
  central->check_invariants();
  central->release_all();
  EXPECT_EQ(central->statistics(c).spans.spans, 0u);
}

/// Claims and releases batches of `count` objects until they pass without the spans.
void grow_transfer(Central& central, unsigned size_class, std::size_t count) {
  Central::Place place(central);
  central.enter(place);
  for (std::size_t passing = 0; passing < count;) {
    std::vector<void*> batch(count);
    for (std::size_t left = count; left != 0;)
      left -= central.claim(place, size_class, batch.data() + left, left);
    for (std::size_t i = 0; i < count; i += 100)
      central.release(place, size_class, batch.data() + i, std::min<std::size_t>(100, count - i));
    passing = central.statistics(size_class).in_transfer;
  }
  central.leave(place);
}

TEST_F(CentralTest, ATransferCacheGrowsWithTheBatchesThatComeAndGo) {
  const unsigned c = SizeClassMap::class_of(1024);
  grow_transfer(*central, c, 2000);
  EXPECT_EQ(central->statistics(c).in_transfer, 2000u);
  EXPECT_GE(central->pending_hint(), 1000u * 1024) << "what waits there would never be given back";
  for (int round = 0; round < 3; ++round) central->release_unneeded();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
  EXPECT_EQ(central->settle_pending_hint(), 0u);
}

/// Such a batch comes from many spans, whose records are no longer in the processor's cache.
TEST_F(CentralTest, BatchesOfTenThousandObjectsPassWithoutTheirSpansWhateverTheirSize) {
  for (const std::size_t bytes : {16u, 256u, 4096u, 32768u}) {
    const unsigned c = SizeClassMap::class_of(bytes);
    Central::Place place(*central);
    central->enter(place);
    std::vector<void*> batch(10'000);
    for (int round = 0; round < 16; ++round) {
      for (std::size_t left = batch.size(); left != 0;)
        left -= central->claim(place, c, batch.data() + left, left);
      for (std::size_t i = 0; i < batch.size(); i += 100)
        central->release(place, c, batch.data() + i, 100);
    }
    EXPECT_EQ(central->statistics(c).in_transfer, batch.size()) << bytes << " bytes";
    central->leave(place);
    central->release_all();
  }
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

TEST_F(CentralTest, ATransferCacheThatHasGrownIsEmptiedBeforeTheHeapGrows) {
  const unsigned c = SizeClassMap::class_of(1024);
  grow_transfer(*central, c, 4000);
  const std::size_t held = space.heap.limit().held_bytes();
  const unsigned other = SizeClassMap::class_of(4096);
  std::vector<void*> objects = claim_all(other, 3'000'000 / 4096);
  EXPECT_LE(space.heap.limit().held_bytes(), held + (256 << 10)) << "until the next look is due";
  EXPECT_EQ(central->statistics(c).in_transfer, 0u);
  central->release_to_spans(other, objects.data(), objects.size());
  central->check_invariants();
}

TEST_F(CentralTest, OneThatWasEmptiedForTheHeapMayHoldHalfOfWhatItMight) {
  const unsigned c = SizeClassMap::class_of(1024);
  grow_transfer(*central, c, 4000);
  const unsigned other = SizeClassMap::class_of(4096);
  std::vector<void*> objects = claim_all(other, 3'000'000 / 4096);
  ASSERT_EQ(central->statistics(c).in_transfer, 0u);
  std::vector<void*> batch = claim_all(c, 2000);
  for (std::size_t i = 0; i < batch.size(); i += 100)
    release_as_new_thread(*central, c, batch.data() + i, 100);
  EXPECT_EQ(central->statistics(c).in_transfer, 2000u);
  central->release_to_spans(other, objects.data(), objects.size());
  central->check_invariants();
}

TEST_F(CentralTest, ATransferCacheThatHasGrownIsEmptiedForLargeBlocks) {
  const unsigned c = SizeClassMap::class_of(1024);
  for (int round = 0; round < 2; ++round) {
    grow_transfer(*central, c, 4000);
    EXPECT_GE(central->destroy_kept(1'000'000), 1'000'000u);
  }
}

TEST_F(CentralTest, WithoutMemoryForTheTransferCacheMostObjectsGoToTheirSpans) {
  std::vector<void*> objects = claim_all(4, 20);
  pages.limit_mapped_bytes(0);
  // First uses up the rest of the bookkeeping's chunk.
  while (space.metadata.allocate(64) != nullptr) {
  }
  release_as_new_thread(*central, 4, objects.data(), 20);
  EXPECT_EQ(central->statistics(4).in_transfer, 4u) << "it has room for these itself";
  EXPECT_EQ(central->statistics(4).spans.claimed_objects, 4u);
}

TEST_F(CentralTest, UnneededObjectsAndSpansGoInTheRoundAfterTheyWereSeen) {
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    std::vector<void*> objects = claim_all(c, 3);
    release_as_new_thread(*central, c, objects.data(), objects.size());
  }
  central->release_unneeded();
  space.heap.decommit_unneeded();
  central->release_unneeded();
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    EXPECT_EQ(central->statistics(c).in_transfer, 0u);
    EXPECT_EQ(central->statistics(c).spans.spans, 0u);
  }
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
  space.heap.decommit_unneeded();
  EXPECT_EQ(space.heap.idle_pages(), 0u);
}

TEST_F(CentralTest, ReleaseAllLeavesNothingInTransfer) {
  std::vector<void*> objects = claim_all(1, 5000);
  release_as_new_thread(*central, 1, objects.data(), 2500);
  central->release_unneeded();
  release_as_new_thread(*central, 1, objects.data() + 2500, 2500);
  central->release_all();
  EXPECT_EQ(central->statistics(1).in_transfer, 0u);
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
  space.heap.check_invariants();
}

TEST_F(CentralTest, TheTransferCachesOfSomeClassesMoveToTheirSpans) {
  std::vector<void*> of_class_2 = claim_all(2, 100);
  std::vector<void*> of_class_3 = claim_all(3, 100);
  release_as_new_thread(*central, 2, of_class_2.data(), 100);
  release_as_new_thread(*central, 3, of_class_3.data(), 100);
  central->flush_transfer(3);
  EXPECT_EQ(central->statistics(2).in_transfer, 0u);
  EXPECT_EQ(central->statistics(2).spans.claimed_objects, 0u);
  EXPECT_EQ(central->statistics(3).in_transfer, 100u);
  central->release_all();
}

TEST_F(CentralTest, HomewardObjectsFindTheirSpansWhicheverClassesAreInTheBatch) {
  const unsigned a = SizeClassMap::class_of(64);
  const unsigned b = SizeClassMap::class_of(1024);
  // Batches of one class; of nearly one class, so that few samples show the others; of two by
  // turns.
  for (const std::size_t of_others : {0, 3, 50}) {
    for (const Was was : {Was::kInUse, Was::kIdle}) {
      std::vector<void*> batch = claim_all(a, 60);
      const std::vector<void*> others = claim_all(b, of_others);
      for (std::size_t i = 0; i < of_others; ++i)
        batch.insert(batch.begin() + static_cast<std::ptrdiff_t>(2 * i + 1), others[i]);
      EXPECT_EQ(central->release_homeward(batch.data(), batch.size(), was),
                60 * 64 + of_others * 1024);
      EXPECT_EQ(central->statistics(a).spans.claimed_objects, 0u);
      EXPECT_EQ(central->statistics(b).spans.claimed_objects, 0u);
      central->check_invariants();
    }
  }
}

TEST_F(CentralTest, AllItsLocksCanBeTakenTogetherByRank) {
  fork_as_parent(*central);
  fork_as_child(*central);
  std::vector<void*> objects = claim_all(1, 1);
  central->release_to_spans(1, objects.data(), 1);
}

TEST_F(CentralTest, AClassTakesNoMemoryUntilItIsNeeded) {
  EXPECT_EQ(space.metadata.mapped_bytes(), 0u);
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    EXPECT_EQ(central->statistics(c).spans.spans, 0u);
    EXPECT_EQ(central->statistics(c).in_transfer, 0u);
  }
  EXPECT_EQ(central->release_all(), 0u);
  EXPECT_EQ(space.metadata.mapped_bytes(), 0u);
}

TEST_F(CentralTest, AClassIsMadeOfBookkeepingThatCameBackWhereTheKernelGivesNoMore) {
  const std::vector<void*> first = claim_all(1, 1);
  void* const recycled = space.metadata.allocate(4096);
  pages.refuse_from_call(1);
  while (space.metadata.allocate_forever(4096) != nullptr) {
  }
  while (space.metadata.allocate_forever(64) != nullptr) {
  }
  space.metadata.deallocate(recycled, 4096);
  const std::vector<void*> second = claim(2, 1);
  EXPECT_EQ(second.size(), 1u);
  pages.refuse_nothing();
}

TEST(CentralDeathTest, AnObjectOfAClassThatHandedOutNoneIsFatal) {
  EXPECT_DEATH(
      {
        Fixture fixture;
        std::vector<void*> objects = fixture.claim_all(4, 1);
        release_as_new_thread(*fixture.central, 5, objects.data(), 1);
      },
      "deleted with a size that is not its own");
  EXPECT_DEATH(
      {
        Fixture fixture;
        std::vector<void*> objects = fixture.claim_all(4, 1);
        fixture.central->release_to_spans(5, objects.data(), 1);
      },
      "deleted with a size that is not its own");
}

TEST(CentralDeathTest, ADoubleFreeIsFoundWhenTheTransferCacheIsFlushed) {
  Fixture fixture;
  const std::vector<void*> objects = fixture.claim_all(4, 2);
  void* twice[] = {objects[0], objects[0]};
  release_as_new_thread(*fixture.central, 4, twice, 2);
  EXPECT_DEATH(fixture.central->release_all(), "strata: double free of ");
}

struct ShardedCentralTest : CentralTest {
  Central::Place places[3] = {Central::Place(*central), Central::Place(*central),
                              Central::Place(*central)};

  ShardedCentralTest() {
    central->set_most_shards(3, 3);
    for (Central::Place& place : places) central->enter(place);
  }
  ~ShardedCentralTest() override {
    for (Central::Place& place : places) central->leave(place);
  }
  /// Claims as a thread with this place does.
  std::vector<void*> claim_at(Central::Place& place, unsigned size_class, std::size_t count) {
    std::vector<void*> all;
    while (all.size() < count) {
      std::vector<void*> some(count - all.size());
      const std::size_t claimed =
          central->claim(place, size_class, some.data() + some.size(), some.size());
      EXPECT_NE(claimed, 0u);
      if (claimed == 0) break;
      all.insert(all.end(), some.end() - static_cast<std::ptrdiff_t>(claimed), some.end());
    }
    return all;
  }
  unsigned shard_of(const void* object) { return space.map.span_of(object)->shard; }
};

TEST_F(ShardedCentralTest, AThreadMovesOnToTheShardWithTheFewestThreads) {
  EXPECT_EQ(central->shard_count(), 1u);
  central->move_on(places[1], 7);
  EXPECT_EQ(central->shard_count(), 2u);
  central->move_on(places[2], 7);
  EXPECT_EQ(central->shard_count(), 3u);
  for (int again = 0; again < 3; ++again) central->move_on(places[2], 7);
  EXPECT_EQ(central->shard_count(), 3u) << "it is alone already";
  for (unsigned i = 0; i < 3; ++i) {
    std::vector<void*> object = claim_at(places[i], 7, 1);
    EXPECT_EQ(shard_of(object[0]), i);
    central->release_to_spans(7, object.data(), 1);
  }
}

TEST(Central, WhoSumsUpSeesWholeShardsAsTheyCome) {
  for (int round = 0; round < 20; ++round) {
    Fixture fixture;
    Central& central = *fixture.central;
    central.set_most_shards(3, 3);
    Central::Place places[3] = {Central::Place(central), Central::Place(central),
                                Central::Place(central)};
    for (Central::Place& place : places) central.enter(place);
    std::atomic<bool> is_over{false};
    run_together(2, [&](int t) {
      if (t == 0) {
        // relaxed: only the number of shards may order what the two threads do.
        while (!is_over.load(std::memory_order_relaxed)) ASSERT_EQ(central.free_bytes(), 0u);
        return;
      }
      central.move_on(places[1], 7);
      central.move_on(places[2], 7);
      is_over.store(true, std::memory_order_relaxed);
    });
    EXPECT_EQ(central.shard_count(), 3u);
    for (Central::Place& place : places) central.leave(place);
  }
}

/// Objects that a thread freed are in its processor's cache.
TEST_F(ShardedCentralTest, ThreadsOfOneShardGetBackWhatTheyFreed) {
  const auto sorted = [](std::vector<void*> objects) {
    std::sort(objects.begin(), objects.end());
    return objects;
  };
  std::vector<void*> of_first = sorted(claim_at(places[0], 7, 8));
  std::vector<void*> of_second = sorted(claim_at(places[1], 7, 8));
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> objects = of_first;
    central->release(places[0], 7, objects.data(), objects.size());
    objects = of_second;
    central->release(places[1], 7, objects.data(), objects.size());
    EXPECT_EQ(sorted(claim_at(places[0], 7, 8)), of_first);
    EXPECT_EQ(sorted(claim_at(places[1], 7, 8)), of_second);
  }
  EXPECT_EQ(central->shard_count(), 1u);
  central->release_to_spans(7, of_first.data(), of_first.size());
  central->release_to_spans(7, of_second.data(), of_second.size());
}

TEST_F(ShardedCentralTest, WhatAThreadFreedServesOthersOfItsShardBeforeTheSpansDo) {
  const unsigned c = SizeClassMap::class_of(1024);
  std::vector<void*> objects = claim_at(places[1], c, 8);
  const std::size_t in_spans = central->statistics(c).spans.free_objects;
  for (const unsigned by : {2u, 0u, 1u}) {
    std::vector<void*> all = objects;
    central->release(places[(by + 1) % 3], c, all.data(), all.size());
    EXPECT_EQ(central->statistics(c).in_transfer, 8u);
    EXPECT_EQ(claim_at(places[by], c, 8).size(), 8u);
    EXPECT_EQ(central->statistics(c).in_transfer, 0u);
  }
  EXPECT_EQ(central->statistics(c).spans.free_objects, in_spans);
  central->release(places[2], c, objects.data(), objects.size());
  fork_as_parent(*central);
  central->flush_transfer();
  EXPECT_EQ(central->statistics(c).in_transfer, 0u);
  EXPECT_EQ(central->statistics(c).spans.claimed_objects, 0u);
}

TEST_F(ShardedCentralTest, WhatOneThreadGotAnotherOfItsShardMayBringBackWhoseverTheSpansAre) {
  const unsigned c = SizeClassMap::class_of(1024);
  central->move_on(places[0], c);
  std::vector<void*> of_others = claim_at(places[0], c, 7);
  ASSERT_EQ(shard_of(of_others[0]), 1u);
  std::vector<void*> own = claim_at(places[1], c, 7);
  ASSERT_EQ(shard_of(own[0]), 0u);
  std::vector<void*> brought = of_others;
  central->release(places[2], c, brought.data(), 7);
  for (void* object : claim_at(places[1], c, 7))
    EXPECT_EQ(shard_of(object), 1u) << "it went to the shard of its span";
  brought = of_others;
  for (int again = 0; again < 2; ++again) {
    // The threads got fourteen objects: these seven, and the next seven.
    central->release(places[2], c, again == 0 ? brought.data() : own.data(), 7);
  }
  EXPECT_EQ(central->statistics(c).in_transfer, 14u);
  central->flush_transfer();
}

TEST_F(ShardedCentralTest, WhatNobodyNeedsLeavesAllLanes) {
  std::vector<void*> objects = claim_at(places[0], 7, 3);
  for (unsigned i = 0; i < 3; ++i) central->release(places[i], 7, &objects[i], 1);
  EXPECT_EQ(central->statistics(7).in_transfer, 3u);
  for (int round = 0; round < 3; ++round) central->release_unneeded();
  EXPECT_EQ(central->statistics(7).in_transfer, 0u);
  EXPECT_EQ(central->statistics(7).spans.claimed_objects, 0u);
}

TEST_F(ShardedCentralTest, AThreadGetsTheLaneThatTheFewestHave) {
  const std::vector<void*> objects = claim_at(places[0], 7, 4);
  void* brought[] = {objects[0], objects[1], objects[2]};
  for (unsigned i = 0; i < 3; ++i) central->release(places[i], 7, &brought[i], 1);
  central->leave(places[1]);
  Central::Place next(*central);
  central->enter(next);
  EXPECT_EQ(claim_at(next, 7, 1)[0], brought[1]);
  central->leave(next);
  central->enter(places[1]);
  std::vector<void*> last = {objects[1], objects[3]};
  central->release_to_spans(7, last.data(), 2);
}

TEST_F(ShardedCentralTest, WhereThereIsNoMemoryForLanesTheFirstServesAll) {
  std::vector<void*> objects = claim_at(places[0], 7, 2);
  std::vector<void*> brought = objects;
  central->release(places[0], 7, brought.data(), 1);
  pages.refuse_from_call(1);
  while (space.metadata.allocate_forever(64) != nullptr) {
  }
  central->release(places[1], 7, brought.data() + 1, 1);
  EXPECT_EQ(central->statistics(7).in_transfer, 2u);
  pages.refuse_nothing();
  EXPECT_EQ(claim_at(places[2], 7, 2).size(), 2u);
  central->release_to_spans(7, objects.data(), 2);
}

TEST_F(ShardedCentralTest, APlaceThatItsThreadHasLeftMovesNobody) {
  // The cache of a thread that has left is flushed later, and may then meet other threads at the
  // lists.
  central->leave(places[2]);
  central->move_on(places[2], 7);
  EXPECT_EQ(central->shard_count(), 1u);
  central->move_on(places[1], 7);
  std::vector<void*> object = claim_at(places[1], 7, 1);
  EXPECT_EQ(shard_of(object[0]), 1u) << "the first shard has two threads";
  central->release_to_spans(7, object.data(), 1);
  central->enter(places[2]);
}

TEST_F(ShardedCentralTest, OtherClassesOfAThreadStayWhereTheyWere) {
  central->move_on(places[1], 7);
  std::vector<void*> of_moved = claim_at(places[1], 7, 1);
  std::vector<void*> of_other = claim_at(places[1], 8, 1);
  EXPECT_EQ(shard_of(of_moved[0]), 1u);
  EXPECT_EQ(shard_of(of_other[0]), 0u);
  central->move_on(places[1], 8);
  EXPECT_EQ(central->shard_count(), 2u) << "the thread has a shard";
  EXPECT_EQ(shard_of(claim_at(places[1], 8, 1)[0]), 1u);
  central->release_to_spans(7, of_moved.data(), 1);
  central->release_to_spans(8, of_other.data(), 1);
}

TEST_F(ShardedCentralTest, EmptySpansOfTheClassMoveInsteadOfBeingMadeAgain) {
  central->move_on(places[1], 20);
  const std::size_t in_span = kPageBytes / SizeClassMap::bytes_of(20);
  std::vector<void*> objects = claim_at(places[1], 20, 8 * in_span);
  Span* const first = space.map.span_of(objects[0]);
  central->release_to_spans(20, objects.data(), objects.size());
  const std::vector<void*> taken = claim_at(places[0], 20, 1);
  EXPECT_EQ(central->statistics(20).spans.spans, 8u);
  EXPECT_EQ(central->statistics(20).spans.kept_spans, 7u);
  EXPECT_NE(shard_of(taken[0]),
            shard_of(first == space.map.span_of(taken[0]) ? objects[4 * in_span]
                                                          : static_cast<void*>(first->start)))
      << "half of them stay";
  void* object = taken[0];
  central->release_to_spans(20, &object, 1);
}

TEST_F(ShardedCentralTest, WhatAConsumerFreesComesBackToItsProducer) {
  central->move_on(places[1], 5);
  std::vector<void*> objects = claim_at(places[1], 5, 50);
  const std::set<void*> sent(objects.begin(), objects.end());
  release_as_new_thread(*central, 5, objects.data(), objects.size());
  std::vector<void*> again = claim_at(places[1], 5, 50);
  EXPECT_EQ(std::set<void*>(again.begin(), again.end()), sent);
  central->release_to_spans(5, again.data(), again.size());
}

TEST_F(ShardedCentralTest, ObjectsOfSeveralShardsInOneBatchFindTheirSpans) {
  central->move_on(places[1], 5);
  central->move_on(places[2], 5);
  std::vector<void*> batch;
  for (std::size_t i = 0; i < 60; ++i) batch.push_back(claim_at(places[i % 3], 5, 1)[0]);
  std::reverse(batch.begin() + 7, batch.begin() + 40);
  release_as_new_thread(*central, 5, batch.data(), batch.size());
  central->flush_transfer();
  central->check_invariants();
  EXPECT_EQ(central->statistics(5).spans.claimed_objects, 0u);
}

TEST_F(ShardedCentralTest, WhatAThreadGotStaysInItsShardWhoseverTheSpansAre) {
  central->set_most_shards(3, 1);
  central->move_on(places[1], 12);
  central->move_on(places[2], 12);
  std::vector<void*> lent = claim_at(places[1], 12, 64);
  central->release(places[1], 12, lent.data(), lent.size());
  const std::set<void*> of_other(lent.begin(), lent.end());
  const std::size_t used = space.heap.used_pages();
  std::vector<void*> mine = claim_at(places[0], 12, 64);
  EXPECT_EQ(std::set<void*>(mine.begin(), mine.end()), of_other) << "the heap grows last";
  EXPECT_EQ(space.heap.used_pages(), used);
  central->release(places[0], 12, mine.data(), mine.size());
  mine = claim_at(places[0], 12, 64);
  EXPECT_EQ(std::set<void*>(mine.begin(), mine.end()), of_other) << "they went to the other shard";
  central->release_to_spans(12, mine.data(), mine.size());
  central->check_invariants();
}

/// Threads of one shard, on more processors than most classes have lanes.
struct ManyLanesTest : CentralTest {
  const unsigned small = SizeClassMap::class_of(64);
  const unsigned large = SizeClassMap::class_of(1024);
  std::vector<std::unique_ptr<Central::Place>> places;

  void enter(unsigned threads) {
    central->set_most_shards(threads, threads);
    for (unsigned i = 0; i < threads; ++i) {
      places.push_back(std::make_unique<Central::Place>(*central));
      central->enter(*places.back());
    }
  }
  ~ManyLanesTest() override {
    for (auto& place : places) central->leave(*place);
  }
  std::vector<void*> claim_at(unsigned thread, unsigned size_class, std::size_t count) {
    std::vector<void*> objects(count);
    EXPECT_EQ(central->claim(*places[thread], size_class, objects.data() + count, count), count);
    std::sort(objects.begin(), objects.end());
    return objects;
  }
  void release(unsigned thread, unsigned size_class, std::vector<void*> objects) {
    central->release(*places[thread], size_class, objects.data(), objects.size());
  }
};

TEST_F(ManyLanesTest, OfSmallObjectsEachThreadGetsBackItsOwn) {
  enter(9);
  std::vector<std::vector<void*>> objects;
  for (unsigned i = 0; i < 9; ++i) objects.push_back(claim_at(i, small, 8));
  for (unsigned i = 0; i < 9; ++i) release(i, small, objects[i]);
  for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(claim_at(i, small, 8), objects[i]) << i;
  for (auto& each : objects) central->release_to_spans(small, each.data(), each.size());
}

TEST_F(ManyLanesTest, WhatOthersBroughtServesBeforeTheHeapGrows) {
  enter(6);
  for (const unsigned size_class : {small, large}) {
    std::vector<void*> all = claim_at(0, size_class, 1);
    const std::size_t in_spans = central->statistics(size_class).spans.free_objects;
    const std::vector<void*> rest = claim_at(0, size_class, in_spans);
    const std::size_t used = space.heap.used_pages();
    for (unsigned from = 0; from < 6; ++from) {
      for (unsigned to = 0; to < 6; ++to) {
        release(from, size_class, all);
        EXPECT_EQ(claim_at(to, size_class, 1), all) << from << " to " << to;
      }
    }
    EXPECT_EQ(space.heap.used_pages(), used);
    all.insert(all.end(), rest.begin(), rest.end());
    central->release_to_spans(size_class, all.data(), all.size());
  }
}

/// Objects that another thread freed share cache lines with that thread's other objects.
TEST_F(ManyLanesTest, SmallObjectsOfTheSpansServeBeforeWhatOthersBrought) {
  enter(6);
  for (const unsigned size_class : {small, large}) {
    const std::vector<void*> objects = claim_at(0, size_class, 8);
    release(0, size_class, objects);
    const std::vector<void*> own = claim_at(1, size_class, 8);
    EXPECT_EQ(own == objects, size_class == large);
    release(1, size_class, own);
    EXPECT_EQ(claim_at(1, size_class, 8), own);
    std::vector<void*> next = claim_at(2, size_class, 8);
    EXPECT_FALSE(size_class == small && next == objects);
    next.insert(next.end(), own.begin(), own.end());
    central->release_to_spans(size_class, next.data(), next.size());
    central->flush_transfer();
    EXPECT_EQ(central->statistics(size_class).spans.claimed_objects, 0u);
  }
}

/// The two threads have the same lane in the first shard.
TEST_F(ManyLanesTest, ThreadsThatMoveToOneShardHaveLanesOfTheirOwnThere) {
  enter(6);
  for (const unsigned thread : {1u, 5u}) central->move_on(*places[thread], small);
  ASSERT_EQ(central->shard_count(), 2u);
  const std::vector<void*> of_first = claim_at(1, small, 8);
  const std::vector<void*> of_second = claim_at(5, small, 8);
  for (int round = 0; round < 10; ++round) {
    release(1, small, of_first);
    release(5, small, of_second);
    EXPECT_EQ(claim_at(1, small, 8), of_first) << round;
    EXPECT_EQ(claim_at(5, small, 8), of_second) << round;
  }
  for (std::vector<void*> each : {of_first, of_second})
    central->release_to_spans(small, each.data(), each.size());
  central->check_invariants();
}

struct ApartTest : ShardedCentralTest {
  const unsigned small = SizeClassMap::class_of(64);
  const unsigned large = SizeClassMap::class_of(1024);
  static constexpr std::size_t kBatch = 512;
  bool all_of(unsigned shard, const std::vector<void*>& objects) {
    return std::all_of(objects.begin(), objects.end(),
                       [&](void* object) { return shard_of(object) == shard; });
  }
};

TEST_F(ApartTest, AThreadThatGetsBatchesOfAClassAsAnotherDoesMovesOnAtOnce) {
  std::vector<void*> first = claim_at(places[0], small, kBatch);
  std::vector<void*> second = claim_at(places[1], small, kBatch);
  EXPECT_EQ(central->shard_count(), 2u);
  EXPECT_TRUE(places[1].take_moved(small));
  EXPECT_FALSE(places[1].take_moved(small)) << "it has not moved again";
  EXPECT_FALSE(places[0].take_moved(small)) << "one of two is enough";
  std::vector<void*> own = claim_at(places[1], small, kBatch);
  EXPECT_TRUE(all_of(1, own));
  for (std::vector<void*>* batch : {&first, &second, &own})
    central->release_to_spans(small, batch->data(), batch->size());
}

TEST_F(ApartTest, ThreadsThatGetALittleAtATimeShareTheirShard) {
  for (int round = 0; round < 50; ++round) {
    for (Central::Place& place : places) {
      std::vector<void*> some = claim_at(place, small, 64);
      central->release(place, small, some.data(), some.size());
    }
  }
  EXPECT_EQ(central->shard_count(), 1u);
}

TEST_F(ApartTest, WithMoreShardsThanProcessorsNoThreadMovesUnlessTheyWouldShareLines) {
  central->set_most_shards(3, 1);
  const unsigned other = SizeClassMap::class_of(300);
  central->move_on(places[1], other);
  central->move_on(places[2], other);
  ASSERT_EQ(central->shard_count(), 3u);
  for (const unsigned size_class : {small, large}) {
    std::vector<void*> first = claim_at(places[0], size_class, kBatch);
    std::vector<void*> second = claim_at(places[1], size_class, kBatch);
    EXPECT_EQ(places[1].take_moved(size_class), size_class == small);
    central->release_to_spans(size_class, first.data(), first.size());
    central->release_to_spans(size_class, second.data(), second.size());
  }
}

TEST_F(ApartTest, AThreadWhoseNeighbourHasEndedStaysWhereItIs) {
  std::vector<void*> first = claim_at(places[0], small, kBatch);
  central->leave(places[0]);
  central->leave(places[2]);
  std::vector<void*> second = claim_at(places[1], small, kBatch);
  EXPECT_EQ(central->shard_count(), 1u);
  central->release_to_spans(small, first.data(), first.size());
  central->release_to_spans(small, second.data(), second.size());
  central->enter(places[0]);
  central->enter(places[2]);
}

TEST_F(ApartTest, ABatchThatIsOfAnothersSpansGoesHome) {
  central->move_on(places[1], large);
  std::vector<void*> own = claim_at(places[1], large, 64);
  std::vector<void*> others = claim_at(places[0], large, 64);
  ASSERT_TRUE(all_of(0, others));
  central->release(places[1], large, others.data(), others.size());
  std::vector<void*> more = claim_at(places[1], large, 64);
  EXPECT_TRUE(all_of(1, more)) << "the thread keeps what is another's";
  central->release_to_spans(large, own.data(), own.size());
  central->release_to_spans(large, more.data(), more.size());
}

TEST_F(ApartTest, WhereAllShardsRunAtOnceABatchIsNotMadeOfWhatOthersHaveFree) {
  for (const unsigned size_class : {small, large}) {
    central->move_on(places[1], size_class);
    std::vector<void*> others = claim_at(places[0], size_class, kBatch);
    central->release(places[0], size_class, others.data(), others.size());
    std::vector<void*> own = claim_at(places[1], size_class, kBatch);
    EXPECT_TRUE(all_of(1, own));
    central->release_to_spans(size_class, own.data(), own.size());
  }
}

TEST_F(ApartTest, NorIsWhatAThreadWhoseBatchesHaveMovedGetsALittleAtATime) {
  for (const unsigned size_class : {small, large}) {
    std::vector<void*> others = claim_at(places[0], size_class, kBatch);
    std::vector<void*> mixed = claim_at(places[1], size_class, kBatch);
    ASSERT_TRUE(places[1].take_moved(size_class));
    const std::set<void*> of_others(others.begin(), others.end());
    central->release_to_spans(size_class, others.data(), others.size());
    central->release_to_spans(size_class, mixed.data(), mixed.size());
    std::vector<void*> own;
    for (std::size_t round = 0; round < kBatch / 2; ++round) {
      const std::vector<void*> few = claim_at(places[1], size_class, 4);
      own.insert(own.end(), few.begin(), few.end());
    }
    EXPECT_TRUE(std::none_of(own.begin(), own.end(),
                             [&](void* object) { return of_others.contains(object); }));
    central->release_to_spans(size_class, own.data(), own.size());
  }
}

TEST_F(ApartTest, NorIsWhatAThreadThatHadToWaitGetsWhereObjectsShareLines) {
  const auto claim_beside_free_objects = [&](unsigned size_class) {
    std::vector<void*> others = claim_at(places[0], size_class, 4);
    central->release(places[0], size_class, others.data(), others.size());
    std::vector<void*> few = claim_at(places[1], size_class, 4);
    const unsigned shard = all_of(1, few) ? 1 : 0;
    central->release_to_spans(size_class, few.data(), few.size());
    return shard;
  };
  for (const unsigned size_class : {small, large}) central->move_on(places[1], size_class);
  central->move_on(places[2], small);
  EXPECT_EQ(claim_beside_free_objects(small), 1u);
  EXPECT_EQ(claim_beside_free_objects(large), 0u);
  central->set_most_shards(3, 1);
  EXPECT_EQ(claim_beside_free_objects(small), 0u) << "they do not all run at once";
}

TEST_F(ApartTest, NorDoThreadsGetNeighboursOfOneLineWhereOthersHaveFreedSomeOfEach) {
  for (const std::size_t bytes : {16u, 48u, 112u}) {
    const unsigned size_class = SizeClassMap::class_of(bytes);
    std::vector<void*> all = claim_at(places[0], size_class, 600);
    // Of 400 objects, every other one is free; 200 more are free in a row.
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < 400; i += 2) central->release_to_spans(size_class, &all[i], 1);
    central->release_to_spans(size_class, all.data() + 400, 200);
    std::map<std::uintptr_t, int> thread_of;
    std::vector<void*> again;
    for (int round = 0; round < 4; ++round) {
      for (int thread : {1, 2}) {
        for (void* const object : claim_at(places[thread], size_class, 16)) {
          const auto address = reinterpret_cast<std::uintptr_t>(object);
          for (const std::uintptr_t at : {address, address + bytes - 1}) {
            const auto [line, is_new] = thread_of.emplace(at / 128, thread);
            EXPECT_EQ(line->second, thread) << bytes << " bytes";
          }
          EXPECT_GT(object, all[399]) << "its neighbours are in use";
          again.push_back(object);
        }
      }
    }
    EXPECT_EQ(central->shard_count(), 1u);
    for (std::size_t i = 1; i < 400; i += 2) again.push_back(all[i]);
    central->release_to_spans(size_class, again.data(), again.size());
  }
}

TEST_F(ApartTest, WhereOneThreadOrTwoProcessorsAreTheLowestObjectServesFirst) {
  const auto lowest_serves = [&] {
    std::vector<void*> all = claim_at(places[0], small, 64);
    std::sort(all.begin(), all.end());
    central->release_to_spans(small, &all[20], 1);
    central->release_to_spans(small, all.data() + 40, 24);
    const std::vector<void*> again = claim_at(places[0], small, 1);
    EXPECT_EQ(again[0], all[20]);
    central->release_to_spans(small, all.data(), 40);
  };
  central->leave(places[1]);
  central->leave(places[2]);
  lowest_serves();
  central->enter(places[1]);
  central->set_most_shards(2, 2);
  lowest_serves();
  central->enter(places[2]);
}

TEST_F(ApartTest, WhatOthersHaveFreeServesBeforeMemoryIsOut) {
  space.heap.limit().configure(0, 1024 * 1024);
  for (const unsigned size_class : {small, large}) {
    std::vector<void*> others = claim_at(places[0], size_class, 4);
    central->move_on(places[1], size_class);
    central->release(places[0], size_class, others.data(), others.size());
  }
  const unsigned filler = SizeClassMap::class_of(8000);
  std::vector<void*> all;
  void* object = nullptr;
  while (central->claim(places[0], filler, &object + 1, 1) != 0) all.push_back(object);
  for (const unsigned size_class : {small, large}) {
    std::vector<void*> batch(kBatch);
    const std::size_t claimed =
        central->claim(places[1], size_class, batch.data() + kBatch, kBatch);
    EXPECT_GE(claimed, 4u);
    central->release_to_spans(size_class, batch.data() + (kBatch - claimed), claimed);
  }
  central->release_to_spans(filler, all.data(), all.size());
}

TEST_F(ApartTest, WhatAnEndedThreadsShardHasServesBatches) {
  std::vector<void*> own = claim_at(places[0], large, kBatch);
  std::vector<void*> others = claim_at(places[1], large, kBatch);
  ASSERT_TRUE(places[1].take_moved(large));
  central->release_to_spans(large, others.data(), others.size());
  central->leave(places[1]);
  const std::size_t used = space.heap.used_pages();
  std::vector<void*> more = claim_at(places[0], large, kBatch / 2);
  EXPECT_EQ(space.heap.used_pages(), used) << "the heap grew beside spans of nobody";
  central->release_to_spans(large, own.data(), own.size());
  central->release_to_spans(large, more.data(), more.size());
  central->enter(places[1]);
}

TEST_F(ApartTest, EmptySpansThatAnotherUsesForItsBatchesAreLeftToIt) {
  central->move_on(places[1], large);
  std::vector<void*> others = claim_at(places[0], large, kBatch);
  std::vector<void*> of_other_class = claim_at(places[0], small, 4096);
  central->release_to_spans(large, others.data(), others.size());
  central->release_to_spans(small, of_other_class.data(), of_other_class.size());
  const std::size_t kept = central->statistics(large).spans.kept_spans;
  ASSERT_NE(kept, 0u);
  const std::size_t held = space.heap.limit().held_bytes();
  const std::size_t in_span = kPageBytes / SizeClassMap::bytes_of(large);
  std::vector<void*> own = claim_at(places[1], large, 4 * in_span);
  EXPECT_TRUE(all_of(1, own));
  EXPECT_EQ(central->statistics(large).spans.kept_spans, kept);
  EXPECT_EQ(central->statistics(small).spans.kept_spans, 0u) << "those of other classes make room";
  EXPECT_EQ(space.heap.limit().held_bytes(), held);
  central->release_to_spans(large, own.data(), own.size());
}

TEST_F(ApartTest, WithMoreShardsThanProcessorsItIsUnlessTheyWouldShareLines) {
  central->set_most_shards(3, 1);
  central->move_on(places[2], small);
  for (const unsigned size_class : {small, large}) {
    central->move_on(places[1], size_class);
    std::vector<void*> others = claim_at(places[0], size_class, 60);
    central->release(places[0], size_class, others.data(), others.size());
    const std::size_t wanted =
        std::max<std::size_t>(60, 32768 / SizeClassMap::bytes_of(size_class));
    std::vector<void*> own(wanted);
    const std::size_t claimed = central->claim(places[1], size_class, own.data() + wanted, wanted);
    ASSERT_NE(claimed, 0u);
    own.erase(own.begin(), own.end() - static_cast<std::ptrdiff_t>(claimed));
    EXPECT_TRUE(all_of(size_class == small ? 2 : 0, own));
    central->release_to_spans(size_class, own.data(), own.size());
  }
}

TEST_F(ShardedCentralTest, WhatAThreadFreesBeyondWhatItGotGoesHome) {
  central->move_on(places[1], 5);
  std::vector<void*> mine = claim_at(places[0], 5, 10);
  std::vector<void*> others = claim_at(places[1], 5, 200);
  const std::set<void*> of_other(others.begin(), others.end());
  central->release(places[0], 5, others.data(), 150);
  central->release(places[0], 5, mine.data(), mine.size());
  central->release(places[0], 5, others.data() + 150, 50);
  for (void* object : claim_at(places[1], 5, 200)) EXPECT_TRUE(of_other.contains(object));
  central->flush_transfer();
  for (void* object : of_other) central->release_to_spans(5, &object, 1);
  central->check_invariants();
  EXPECT_EQ(central->statistics(5).spans.claimed_objects, 0u);
}

TEST_F(ShardedCentralTest, SpansOfAShardWithoutThreadsServeTheOthers) {
  central->move_on(places[1], 5);
  std::vector<void*> objects = claim_at(places[1], 5, 100);
  void* const live = objects.back();
  central->release_to_spans(5, objects.data(), objects.size() - 1);
  central->leave(places[1]);
  const std::size_t used = space.heap.used_pages();
  std::vector<void*> taken = claim_at(places[0], 5, 90);
  EXPECT_EQ(space.heap.used_pages(), used) << "the heap grew";
  EXPECT_EQ(shard_of(live), 0u);
  taken.push_back(live);
  central->release_to_spans(5, taken.data(), taken.size());
  central->check_invariants();
  central->enter(places[1]);
}

TEST_F(ShardedCentralTest, EmptySpansOfAnyClassAndShardAreUsedBeforeTheHeapGrows) {
  central->move_on(places[1], 20);
  const std::size_t in_page = kPageBytes / SizeClassMap::bytes_of(20);
  std::vector<void*> objects = claim_at(places[1], 20, 6 * in_page);
  central->release_to_spans(20, objects.data(), objects.size());
  const std::size_t held = space.heap.limit().held_bytes();
  std::vector<void*> others = claim_at(places[0], 3, 6 * (kPageBytes / SizeClassMap::bytes_of(3)));
  EXPECT_EQ(space.heap.limit().held_bytes(), held);
  central->release_to_spans(3, others.data(), others.size());
}

TEST_F(ShardedCentralTest, AShardInUseKeepsWhatItNeedsUntilItHasMoreThanEnough) {
  central->move_on(places[1], 20);
  const std::size_t in_span = kPageBytes / SizeClassMap::bytes_of(20);
  std::vector<void*> objects = claim_at(places[1], 20, 3 * in_span);
  // One object of each span stays in use, so that no span is empty.
  std::vector<void*> live;
  std::vector<void*> freed;
  std::set<Span*> seen;
  for (void* object : objects)
    (seen.insert(space.map.span_of(object)).second ? live : freed).push_back(object);
  central->release_to_spans(20, freed.data(), freed.size());
  std::vector<void*> taken = claim_at(places[0], 20, 1);
  EXPECT_EQ(shard_of(taken[0]), 0u);
  EXPECT_EQ(std::count_if(live.begin(), live.end(), [&](void* p) { return shard_of(p) == 0; }), 1);
  live.push_back(taken[0]);
  central->release_to_spans(20, live.data(), live.size());
  central->check_invariants();
}

TEST_F(ShardedCentralTest, WithoutMemoryWhatAnotherShardKeepsServesToo) {
  central->move_on(places[1], 20);
  std::vector<void*> live = claim_at(places[1], 20, 1);  // with its class's bookkeeping
  std::vector<void*> objects = claim_at(places[0], 20, kPageBytes / SizeClassMap::bytes_of(20));
  std::vector<void*> freed;
  for (std::size_t i = 0; i < objects.size(); ++i)
    (i % 2 == 0 ? freed : live).push_back(objects[i]);
  central->release_to_spans(20, freed.data(), freed.size());
  space.limit.configure(0, space.limit.held_bytes());
  // The free objects of its own span come first.
  const std::size_t in_all = central->statistics(20).spans.free_objects;
  ASSERT_GT(in_all, freed.size());
  const std::vector<void*> served = claim_at(places[1], 20, in_all);
  live.insert(live.end(), served.begin(), served.end());
  EXPECT_EQ(central->statistics(20).spans.free_objects, 0u);
  void* none;
  EXPECT_EQ(central->claim(places[1], 20, &none + 1, 1), 0u);
  central->release_to_spans(20, live.data(), live.size());
  central->check_invariants();
}

TEST_F(ShardedCentralTest, WithoutMemoryForAClassOfItsShardAThreadIsServedByOthers) {
  central->move_on(places[1], 20);
  std::vector<void*> objects = claim_at(places[0], 20, 2);
  void* freed = objects.back();
  objects.pop_back();
  central->release_to_spans(20, &freed, 1);
  space.limit.configure(0, space.limit.held_bytes());
  while (space.metadata.allocate(64) != nullptr) {
  }
  objects.push_back(claim_at(places[1], 20, 1).at(0));
  central->release_to_spans(20, objects.data(), objects.size());
  central->check_invariants();
}

TEST_F(ShardedCentralTest, ThreadsThatMoveFreeEachOthersObjectsAndLoseNone) {
  constexpr unsigned kClass = 6;
  constexpr std::size_t kExchange = 200;
  std::atomic<void*> exchange[kExchange] = {};
  const auto claim_and_release = [&](int t) {
    Central::Place place(*central);
    central->enter(place);
    std::vector<void*> mine;
    const auto release_mine = [&] {
      if (t % 2 == 0) {
        central->release(place, kClass, mine.data(), mine.size());
      } else {
        release_as_new_thread(*central, kClass, mine.data(), mine.size());
      }
      mine.clear();
    };
    for (std::size_t i = 0; i < 400; ++i) {
      if (i % 40 == 0) central->move_on(place, kClass);
      for (void* object : claim_at(place, kClass, 1 + i % 70)) {
        *static_cast<int*>(object) = t;
        mine.push_back(object);
      }
      // Leaves some objects for another thread, and frees what lay there.
      for (std::size_t k = 0; k < 20 && k < mine.size(); ++k) {
        void*& object = mine[mine.size() - 1 - k];
        if (void* other = exchange[(i * 20 + k) % kExchange].exchange(object)) {
          object = other;
        } else {
          object = mine.back();
          mine.pop_back();
        }
      }
      if (mine.size() > 2000) release_mine();
    }
    release_mine();
    central->leave(place);
  };
  run_together(4, claim_and_release, [&] {
    central->release_unneeded();
    central->check_invariants();
    fork_as_parent(*central);  // as fork() does, while lanes are made
  });
  for (std::atomic<void*>& slot : exchange) {
    void* object = slot.load();
    if (object != nullptr) release_as_new_thread(*central, kClass, &object, 1);
  }
  central->release_all();
  central->check_invariants();
  EXPECT_EQ(central->statistics(kClass).spans.spans, 0u);
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

/// Two threads in shards of their own, and two objects of the second thread.
struct BusyCentralTest : ::testing::Test {
  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  Central central{space.spans, space.metadata};
  Central::Place places[2] = {Central::Place(central), Central::Place(central)};
  const unsigned c = SizeClassMap::class_of(1024);
  void* elsewhere[2];

  void SetUp() override {
    central.set_most_shards(2, 2);
    for (Central::Place& place : places) central.enter(place);
    central.move_on(places[1], c);
    ASSERT_EQ(central.claim(places[1], c, elsewhere + 2, 2), 2u);
    if (os::page_bytes() == kPageBytes) GTEST_SKIP() << "a span is one OS page";
  }
  void TearDown() override {
    for (Central::Place& place : places) central.leave(place);
    central.check_invariants();
  }
  /// Objects of the first thread, a multiple of 64; the first 40 are free in their span.
  std::vector<void*> claim_and_free_some(std::size_t count) {
    std::vector<void*> objects(count);
    for (std::size_t i = 64; i <= count; i += 64)
      EXPECT_EQ(central.claim(places[0], c, objects.data() + i, 64), 64u);
    central.release_to_spans(c, objects.data(), 40);
    return objects;
  }
  /// Runs `action()` in another thread while the list that has the object is locked.
  template <typename Action>
  void while_busy(unsigned size_class, const void* object, Action action) {
    LockGuard guard(central.list_lock_of(size_class, object));
    std::thread(action).join();
  }
};

TEST_F(BusyCentralTest, AThreadPassesByAListThatAnotherIsAt) {
  std::vector<void*> objects = claim_and_free_some(64);

  void* passed = nullptr;
  while_busy(c, objects[40], [&] { EXPECT_EQ(central.claim(places[0], c, &passed + 1, 1), 1u); });
  ASSERT_NE(passed, nullptr);
  EXPECT_EQ(space.map.span_of(passed)->shard, 1u);
  EXPECT_EQ(central.statistics(c).spans.waits, 0u);

  central.release_to_spans(c, &passed, 1);
  central.release_to_spans(c, elsewhere, 2);
  central.release_to_spans(c, objects.data() + 40, 24);
}

TEST_F(BusyCentralTest, AThreadThatSeldomMeetsOthersStaysAtItsShard) {
  central.set_most_shards(2, 3);
  std::vector<void*> objects = claim_and_free_some(64);
  central.leave(places[1]);  // so that there is room in the other shard
  // Where the thread's next object is.
  const auto claim = [&] {
    void* object = nullptr;
    EXPECT_EQ(central.claim(places[0], c, &object + 1, 1), 1u);
    const unsigned shard = space.map.span_of(object)->shard;
    central.release_to_spans(c, &object, 1);
    return shard;
  };
  const auto meet = [&] { while_busy(c, objects[40], claim); };
  for (int i = 0; i < 5; ++i) {
    meet();
    for (int k = 0; k < 64; ++k) ASSERT_EQ(claim(), 0u) << i;
  }
  for (int i = 0; i < 2; ++i) meet();
  EXPECT_EQ(claim(), 1u);

  central.enter(places[1]);
  central.release_to_spans(c, elsewhere, 2);
  central.release_to_spans(c, objects.data() + 40, 24);
}

/// Where as many shards as processors have the class, those met often do not run at the moment.
TEST_F(BusyCentralTest, AClassHasMoreShardsThanProcessorsOnlyIfItHasMemoryForEach) {
  central.set_most_shards(3, 2);
  Central::Place neighbour(central);
  central.enter(neighbour);
  std::vector<void*> objects = claim_and_free_some(64);
  const auto moves_when_it_meets = [&](int times) {
    for (int i = 0; i < times; ++i) {
      while_busy(c, objects[40], [&] {
        void* object = nullptr;
        EXPECT_EQ(central.claim(places[0], c, &object + 1, 1), 1u);
        central.release_to_spans(c, &object, 1);
      });
    }
    return places[0].take_moved(c);
  };
  EXPECT_FALSE(moves_when_it_meets(20)) << "two spans in two shards";
  std::vector<void*> more(1024);
  for (std::size_t left = more.size(); left != 0;)
    left -= central.claim(places[0], c, more.data() + left, std::min<std::size_t>(left, 64));
  EXPECT_TRUE(moves_when_it_meets(200));
  EXPECT_EQ(central.shard_count(), 3u);

  central.release_to_spans(c, elsewhere, 2);
  central.release_to_spans(c, objects.data() + 40, 24);
  central.release_to_spans(c, more.data(), more.size());
  central.leave(neighbour);
}

/// The thread has a shard of its own already, and its batches have few objects.
TEST_F(BusyCentralTest, AClassOfLargeObjectsMovesAtTheFirstMeetingInALargeHeapOnManyProcessors) {
  const unsigned large = SizeClassMap::class_of(8192);
  const auto meets_and_moves = [&](unsigned size_class) {
    central.leave(places[1]);  // so that earlier meetings do not count
    central.enter(places[1]);
    std::vector<void*> objects(8);
    EXPECT_EQ(central.claim(places[0], size_class, objects.data() + 8, 8), 8u);
    // Meanwhile the third thread gets one of the other objects of this thread's span.
    Central::Place third(central);
    central.enter(third);
    central.move_on(third, size_class);
    void* of_third = nullptr;
    EXPECT_EQ(central.claim(third, size_class, &of_third + 1, 1), 1u);
    central.release_to_spans(size_class, objects.data(), 6);

    void* got = nullptr;
    while_busy(size_class, objects[6],
               [&] { EXPECT_EQ(central.claim(places[1], size_class, &got + 1, 1), 1u); });
    central.release_to_spans(size_class, &got, 1);
    central.release_to_spans(size_class, &of_third, 1);
    central.release_to_spans(size_class, objects.data() + 6, 2);
    central.leave(third);
    return places[1].take_moved(size_class);
  };
  central.set_most_shards(4, 4);
  EXPECT_FALSE(meets_and_moves(large)) << "the heap is small";
  std::vector<Span*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(space.heap.allocate(kPagesPerRegion));
  central.set_most_shards(4, 2);
  EXPECT_FALSE(meets_and_moves(large)) << "two processors";
  central.set_most_shards(4, 4);
  EXPECT_FALSE(meets_and_moves(SizeClassMap::class_of(2048)));
  EXPECT_TRUE(meets_and_moves(large));
  central.release_to_spans(c, elsewhere, 2);
  for (Span* block : blocks) space.heap.deallocate(*block);
}

TEST_F(BusyCentralTest, AnObjectGoesToItsSpanUnlessAnotherThreadIsAtTheList) {
  std::vector<void*> objects = claim_and_free_some(64);

  while_busy(c, objects[40], [&] { EXPECT_FALSE(central.try_release_to_span(c, objects[40])); });
  EXPECT_EQ(central.statistics(c).spans.waits, 0u);
  EXPECT_TRUE(central.try_release_to_span(c, objects[40]));
  EXPECT_TRUE(central.has(c, objects[40]));

  central.release_to_spans(c, elsewhere, 2);
  central.release_to_spans(c, objects.data() + 41, 23);
}

TEST_F(BusyCentralTest, WhatABusyListHasSpansForIsStoredElsewhere) {
  std::vector<void*> objects = claim_and_free_some(128);

  // More objects than the transfer cache of the first shard, which is not locked, has room for.
  while_busy(c, objects[40], [&] { release_as_new_thread(central, c, objects.data() + 40, 88); });
  EXPECT_EQ(central.statistics(c).spans.waits, 0u);
  EXPECT_EQ(central.statistics(c).in_transfer, 88u);

  central.release_to_spans(c, elsewhere, 2);
  central.release_all();
  EXPECT_EQ(central.statistics(c).spans.claimed_objects, 0u);
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
      void** batch = mine.data() + mine.size() - count;
      if (below(4) == 0) {
        central->release_to_spans(c, batch, count);
      } else {
        release_as_new_thread(*central, c, batch, count);
      }
      mine.resize(mine.size() - count);
    }
    central->check_invariants();
    space.heap.check_invariants();
    const Central::ClassStatistics now = central->statistics(c);
    ASSERT_EQ(now.spans.claimed_objects, claimed[c].size() + now.in_transfer);
  }
  for (unsigned c : classes) release_as_new_thread(*central, c, order[c].data(), order[c].size());
  central->release_all();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

TEST_F(CentralTest, ProducersFeedConsumersWhileTheScavengerMovesThingsOn) {
  constexpr unsigned kClass = 2;
  constexpr std::size_t kRounds = 400;
  constexpr std::size_t kBatch = 60;
  // Each pair of threads hands over batches through its own mailbox.
  struct Mailbox {
    std::atomic<bool> is_full{false};
    void* objects[kBatch];
  };
  constexpr int kPairs = 2;
  Mailbox mailboxes[kPairs];
  const auto produce = [&](Mailbox& box) {
    for (std::size_t i = 0; i < kRounds; ++i) {
      const std::vector<void*> batch = claim_all(kClass, kBatch);
      for (void* object : batch) *static_cast<std::size_t*>(object) = i;
      while (box.is_full.load(std::memory_order_acquire)) std::this_thread::yield();
      std::copy(batch.begin(), batch.end(), box.objects);
      box.is_full.store(true, std::memory_order_release);
    }
  };
  const auto consume = [&](Mailbox& box) {
    for (std::size_t i = 0; i < kRounds; ++i) {
      while (!box.is_full.load(std::memory_order_acquire)) std::this_thread::yield();
      for (void* object : box.objects) ASSERT_EQ(*static_cast<std::size_t*>(object), i);
      release_as_new_thread(*central, kClass, box.objects, kBatch);
      box.is_full.store(false, std::memory_order_release);
    }
  };
  run_together(
      2 * kPairs,
      [&](int t) { t % 2 == 0 ? produce(mailboxes[t / 2]) : consume(mailboxes[t / 2]); },
      [&] { central->release_unneeded(); });
  central->release_all();
  central->check_invariants();
  EXPECT_EQ(space.heap.statistics().used_pages, 0u);
}

}  // namespace
}  // namespace strata
