#include "span/page_shard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"
#include "span/page_heap.h"

namespace strata {
namespace {

using os::FakePageSource;
using Pages = PageHeap::Pages;

/// Threads that use a page heap, in one shard or in several.
struct PageShardTest : ::testing::Test {
  static constexpr int kOften = 8;

  FakePageSource pages;
  FakeAddressSpace space{pages};
  PageHeap& heap = space.heap;
  PagePlace first;
  PagePlace second;

  void SetUp() override { heap.set_most_shards(2); }
  void TearDown() override { heap.check_invariants(); }

  Span& allocate(unsigned page_count, PagePlace& place, Pages which = Pages::kAny) {
    Span* const span = heap.allocate(page_count, 1, which, place);
    EXPECT_NE(span, nullptr);
    return *span;
  }
  Region& region_of(const Span& span) { return *space.map.region_of(span.start); }
  bool keep(Span& span) { return heap.keep(region_of(span), span) == nullptr; }
  std::size_t regions() { return heap.statistics().regions; }
  /// Has the two threads meet until each has its own shard.
  void meet() {
    for (int i = 0; i < kOften; ++i) {
      heap.deallocate(allocate(1, first));
      heap.deallocate(allocate(1, second));
    }
  }
};

/// The same, where the first thread uses so many pages that a kept run may stay whole.
struct PageShardWithWholeRuns : PageShardTest {
  static constexpr unsigned kWholeShare = 64;
  static constexpr unsigned kRun = 4;

  void SetUp() override {
    PageShardTest::SetUp();
    meet();
    for (unsigned i = 0; i < kWholeShare * kRun / kPagesPerRegion; ++i)
      allocate(kPagesPerRegion, first);
  }
};

TEST_F(PageShardTest, ThreadsThatMeetHaveAShardAndRegionsEach) {
  meet();
  EXPECT_NE(first.shard(), second.shard());
  Span& of_first = allocate(kPagesPerRegion, first);
  Span& of_second = allocate(kPagesPerRegion, second);
  EXPECT_EQ(region_of(of_first).shard, first.shard());
  EXPECT_EQ(region_of(of_second).shard, second.shard());
  const Region& regions_first = region_of(of_first);
  const Region& regions_second = region_of(of_second);
  heap.deallocate(of_first);
  heap.deallocate(of_second);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(&region_of(allocate(1, first, Pages::kIdle)), &regions_first);
    EXPECT_EQ(&region_of(allocate(1, second, Pages::kIdle)), &regions_second);
  }
}

/// The thread never asked for other pages, so its shard was never made.
TEST_F(PageShardTest, AThreadThatOnlyNeedsKeptPagesMovesToo) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(keep(allocate(5, first)));
  for (int i = 0; i < kOften; ++i) {
    for (PagePlace* place : {&first, &second}) {
      PageShard* const keeper = heap.keeper_of(5, *place);
      Span* const span =
          keeper != nullptr ? heap.allocate_kept(*keeper, 5, *place) : &allocate(5, *place);
      EXPECT_TRUE(keep(*span));
    }
  }
  ASSERT_NE(first.shard(), second.shard());
  EXPECT_NE(heap.keeper_of(5, first), heap.keeper_of(5, second));
}

TEST_F(PageShardTest, AThreadThatHasMovedStaysThere) {
  meet();
  const unsigned shards[] = {first.shard(), second.shard()};
  PagePlace third;
  for (int i = 0; i < 100 * kOften; ++i) {
    for (PagePlace* place : {&first, &second, &third}) heap.deallocate(allocate(1, *place));
    ASSERT_EQ(second.shard() + first.shard(), shards[0] + shards[1]);
  }
}

TEST_F(PageShardTest, AThreadThatSeldomAsksStaysWhereTheOtherIs) {
  for (int i = 0; i < 100 * kOften; ++i) {
    heap.deallocate(allocate(1, first));
    if (i % (40 * kOften) == 0) heap.deallocate(allocate(1, second));
  }
  EXPECT_EQ(first.shard(), 0u);
  EXPECT_EQ(second.shard(), 0u);
}

TEST_F(PageShardTest, WhereThereMayBeOneShardNobodyMoves) {
  heap.set_most_shards(1);
  meet();
  EXPECT_EQ(first.shard(), 0u);
  EXPECT_EQ(second.shard(), 0u);
}

TEST(PageShard, WhoSumsUpSeesWholeShardsAsTheyCome) {
  constexpr unsigned kShards = 3;
  for (int round = 0; round < 20; ++round) {
    FakePageSource pages;
    FakeAddressSpace space(pages);
    PageHeap& heap = space.heap;
    heap.set_most_shards(kShards);
    std::atomic<bool> is_over{false};
    run_together(2, [&](int t) {
      if (t == 0) {
        // relaxed: only the heap may order what the two threads do.
        while (!is_over.load(std::memory_order_relaxed))
          ASSERT_LE(heap.idle_pages(), kShards * kPagesPerRegion);
        return;
      }
      for (unsigned i = 1; i < kShards; ++i) {
        PagePlace place(i);
        EXPECT_NE(heap.allocate(1, 1, Pages::kAny, place), nullptr);
      }
      is_over.store(true, std::memory_order_relaxed);
    });
  }
}

TEST_F(PageShardTest, SpansOfTwoShardsShareNoRegionAsTheHeapGrows) {
  std::set<const Region*> of_first;
  std::set<const Region*> of_second;
  for (unsigned i = 0; i < 2 * kPagesPerRegion; ++i) {
    PagePlace places[] = {PagePlace(0), PagePlace(1)};
    of_first.insert(&region_of(*heap.allocate(1, 1, Pages::kAny, places[0])));
    of_second.insert(&region_of(*heap.allocate(1, 1, Pages::kAny, places[1])));
  }
  EXPECT_EQ(of_first.size(), 2u);
  EXPECT_EQ(of_second.size(), 2u);
  EXPECT_EQ(regions(), 4u);
}

TEST_F(PageShardTest, CleanPagesOfAnotherShardServeABlockBeforeTheHeapGrows) {
  meet();
  const Region& region = region_of(allocate(1, first));
  for (unsigned i = 1; i < kPagesPerRegion; ++i)
    EXPECT_EQ(&region_of(allocate(1, second)), &region);
  EXPECT_EQ(regions(), 1u);
}

TEST_F(PageShardTest, KeptPagesServeTheThreadsOfTheirShard) {
  meet();
  Span& block = allocate(5, second);
  ASSERT_TRUE(keep(block));
  EXPECT_NE(heap.keeper_of(5, second), nullptr);
  EXPECT_EQ(heap.keeper_of(5, first), nullptr);
  PageShard& keeper = *heap.keeper_of(5, second);
  EXPECT_EQ(heap.allocate_kept(keeper, 5, second), &block);
  EXPECT_EQ(heap.allocate_kept(keeper, 5, second), nullptr) << "another thread may have been there";
}

TEST_F(PageShardWithWholeRuns, AFewKeptRunsStayWholeBesideOtherRequests) {
  PagePlace of_objects(first.shard());
  ASSERT_TRUE(keep(allocate(kRun, first)));
  const PageShard* const keeper = heap.keeper_of(kRun, first);
  ASSERT_NE(keeper, nullptr);
  for (const unsigned count : {1u, 3u, kRun + 1, kPagesPerRegion}) allocate(count, of_objects);
  heap.decommit(kRun, PageHeap::From::kNotWhole);
  EXPECT_EQ(heap.keeper_of(kRun, first), keeper);
  EXPECT_EQ(heap.idle_pages(), kRun);

  ASSERT_TRUE(keep(allocate(kRun + 1, first)));
  allocate(1, of_objects);
  EXPECT_EQ(heap.keeper_of(kRun, first), nullptr) << "they are more than a 64th";

  ASSERT_TRUE(keep(allocate(kRun, first)));
  heap.decommit(kRun);
  EXPECT_EQ(heap.keeper_of(kRun, first), nullptr);
}

TEST_F(PageShardWithWholeRuns, AKeptRunServesAnyRequestThatWouldBeRefused) {
  for (const unsigned shard : {first.shard(), second.shard()}) {
    ASSERT_TRUE(keep(allocate(kRun, first)));
    ASSERT_EQ(heap.idle_pages(), kRun) << "nothing but the kept run";
    space.limit.configure(0, space.limit.held_bytes());
    PagePlace of_objects(shard);
    Span* const span = heap.allocate(kRun - 1, 1, Pages::kAny, of_objects);
    ASSERT_NE(span, nullptr) << "memory is refused beside pages that are free";
    heap.check_invariants();
    allocate(1, first, Pages::kIdle);
    space.limit.configure(0, 0);
  }
}

TEST_F(PageShardTest, IdlePagesOfAnotherShardAreUsedBeforeMoreIsHeld) {
  meet();
  heap.decommit(~std::size_t{0});
  Span& other = allocate(1, second);
  Span& block = allocate(5, second);
  char* const start = block.start;
  for (const bool is_kept : {false, true}) {
    is_kept ? static_cast<void>(keep(block)) : heap.deallocate(block);
    heap.check_invariants();
    Span& taken = allocate(5, first, Pages::kIdle);
    EXPECT_EQ(taken.start, start);
    EXPECT_EQ(&region_of(taken), &region_of(other)) << "in use, so it stays where it is";
    EXPECT_EQ(region_of(taken).shard, second.shard());
  }
}

TEST_F(PageShardTest, RoomToGrowIsLookedForInOtherShardsToo) {
  meet();
  heap.decommit(~std::size_t{0});
  allocate(1, second);
  heap.deallocate(allocate(20, second));
  Span* const block = heap.allocate_to_grow(5, first);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(region_of(*block).shard, second.shard());
  EXPECT_TRUE(heap.resize(*block, 20));
}

TEST_F(PageShardTest, AFreeRegionOfAnotherShardBecomesTheThreadsOwn) {
  meet();
  heap.decommit(~std::size_t{0});
  Span& block = allocate(10, second);
  Region& region = region_of(block);
  ASSERT_EQ(region.shard, 1u);
  heap.deallocate(block);
  const std::size_t idle = heap.idle_pages();
  EXPECT_EQ(&region_of(allocate(4, first, Pages::kIdle)), &region);
  EXPECT_EQ(region.shard, 0u);
  EXPECT_EQ(heap.idle_pages(), idle - 4);
  EXPECT_EQ(heap.used_pages(), 4u);
}

TEST_F(PageShardTest, ARegionOfAnotherShardServesWhereTheHeapCannotGrow) {
  meet();
  const Region& region = region_of(allocate(1, second));
  pages.refuse_from_call(1);
  while (heap.allocate(1, 1, Pages::kAny, first) != nullptr) {
  }
  EXPECT_EQ(region.free_pages, 0u);
}

TEST_F(PageShardTest, InALargeHeapAnyPagesOfOthersAreUsedBeforeItGrows) {
  meet();
  constexpr unsigned kHalf = kPagesPerRegion / 2;
  std::vector<Span*> spans;
  while (heap.is_small()) spans.push_back(&allocate(kHalf, second));
  while (region_of(*spans.back()).free_pages != 0) spans.push_back(&allocate(kHalf, second));
  for (std::size_t i = 0; i < spans.size(); i += 2) heap.deallocate(*spans[i]);
  heap.decommit(~std::size_t{0});
  const std::size_t before = regions();
  PagePlace place(0);
  for (int i = 0; i < 4; ++i) EXPECT_NE(heap.allocate(kHalf, 1, Pages::kAny, place), nullptr);
  EXPECT_EQ(regions(), before);
}

TEST_F(PageShardTest, AFirstRegionForEachThreadMakesNoLargeHeap) {
  constexpr unsigned kMany = 16;
  heap.set_most_shards(kMany);
  for (unsigned i = 0; i < kMany; ++i) {
    PagePlace place(i);
    ASSERT_NE(heap.allocate(1, 1, Pages::kAny, place), nullptr);
  }
  EXPECT_EQ(regions(), kMany);
  EXPECT_TRUE(heap.is_small());
}

/// More than two shards; the first has idle pages.
struct BusyShardTest : PageShardTest {
  PageShard* busy = nullptr;

  void SetUp() override {
    heap.set_most_shards(3);
    meet();
    PagePlace third;
    allocate(1, third);  // so that the region stays where it is
    EXPECT_TRUE(keep(allocate(20, third)));
    busy = heap.keeper_of(20, third);
    ASSERT_NE(busy, nullptr);
    ASSERT_NE(second.shard(), busy->index());
  }

  /// The result of `ask()` in another thread while the first shard is locked.
  template <typename Ask>
  Span* while_busy(Ask ask) {
    // A thread that waited would get the span, too, but only after the lock was released.
    std::promise<Span*> asked;
    std::future<Span*> answer = asked.get_future();
    busy->lock().lock();
    std::thread asking([&] { asked.set_value(ask()); });
    const bool is_there = answer.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    busy->lock().unlock();
    asking.join();
    EXPECT_TRUE(is_there);
    return answer.get();
  }
};

TEST_F(BusyShardTest, InASmallHeapItIsPassedBy) {
  Span* const span = while_busy([this] { return &allocate(1, second, Pages::kIdle); });
  EXPECT_EQ(region_of(*span).shard, second.shard());
  EXPECT_EQ(regions(), 2u);
  // Clean pages of that region serve as well, and the heap begins no other region.
  Span* const next = while_busy([this] { return &allocate(1, second, Pages::kIdle); });
  EXPECT_EQ(&region_of(*next), &region_of(*span));
  EXPECT_EQ(regions(), 2u);
  // A thread that need not wait uses the idle pages.
  EXPECT_EQ(region_of(allocate(1, second, Pages::kIdle)).shard, busy->index());
}

TEST_F(BusyShardTest, WhereItHasNothingToGiveNothingElseIsUsed) {
  heap.decommit(~std::size_t{0});
  EXPECT_EQ(while_busy([this] { return heap.allocate(1, 1, Pages::kIdle, second); }), nullptr);
  EXPECT_EQ(regions(), 1u);
}

TEST_F(BusyShardTest, WhereItHasTooLittleRoomForABlockToGrowNothingElseIsUsed) {
  EXPECT_EQ(while_busy([this] { return heap.allocate_to_grow(8, second); }), nullptr);
  EXPECT_EQ(regions(), 1u);
}

TEST_F(BusyShardTest, WhereThereIsALimitItIsWaitedFor) {
  heap.limit().configure(0, std::size_t{1} << 40);
  Span* span = nullptr;
  busy->lock().lock();
  std::thread asking([&] { span = &allocate(1, second, Pages::kIdle); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  busy->lock().unlock();
  asking.join();
  EXPECT_EQ(region_of(*span).shard, busy->index());
}

TEST_F(BusyShardTest, InASmallHeapABlockThatGrowsPassesItBy) {
  Span* const span = while_busy([this] { return heap.allocate_to_grow(2, second); });
  ASSERT_NE(span, nullptr);
  EXPECT_EQ(region_of(*span).shard, second.shard());
  EXPECT_TRUE(heap.resize(*span, 8));
}

/// Two of several threads in a large heap; the second one has some idle pages between used ones.
struct LargeHeapTest : PageShardTest {
  static constexpr int kMany = 1000;
  std::vector<Span*> gaps;

  void begin(unsigned most_shards) {
    heap.set_most_shards(most_shards);
    meet();
    ASSERT_NE(first.shard(), second.shard());
    heap.decommit(~std::size_t{0});
    while (heap.is_small()) {
      allocate(20, second);
      gaps.push_back(&allocate(12, second));
    }
    free_gaps(4);
  }
  void free_gaps(std::size_t count) {
    for (; count != 0 && !gaps.empty(); --count) {
      heap.deallocate(*gaps.back());
      gaps.pop_back();
    }
  }
  /// How often the first thread gets one of the other's pages before it gets one of its own, which
  /// it keeps; at most kMany.
  int visits_before_a_page_of_its_own() {
    for (int visits = 0; visits < kMany; ++visits) {
      Span& span = allocate(1, first, Pages::kIdle);
      if (region_of(span).shard == first.shard()) return visits;
      heap.deallocate(span);
    }
    return kMany;
  }
};

TEST_F(LargeHeapTest, AThreadThatOftenGetsPagesOfOthersGetsSomeOfItsOwnInstead) {
  begin(3);
  EXPECT_LT(visits_before_a_page_of_its_own(), kMany);
  const int visits = visits_before_a_page_of_its_own();
  EXPECT_GT(visits, 1);
  EXPECT_EQ(visits_before_a_page_of_its_own(), visits) << "each page is paid for";
  for (int i = 0; i < 2 * visits; ++i) {
    Span& span = allocate(2, first, Pages::kIdle);
    EXPECT_EQ(region_of(span).shard, second.shard()) << i;
    heap.deallocate(span);
  }
  PagePlace of_objects(first.shard());
  EXPECT_EQ(region_of(allocate(2, of_objects, Pages::kIdle)).shard, second.shard());
  EXPECT_EQ(region_of(allocate(2, first, Pages::kIdle)).shard, first.shard());
}

TEST_F(LargeHeapTest, WhereTheKernelRefusesMoreItIsSeldomAsked) {
  begin(3);
  pages.refuse_from_call(1);
  while (heap.allocate(kPagesPerRegion, 1, Pages::kAny, second) != nullptr) {
  }
  pages.refuse_from_call(1);
  EXPECT_EQ(visits_before_a_page_of_its_own(), kMany);
  EXPECT_GT(pages.refused_calls(), 0u);
  EXPECT_LT(pages.refused_calls(), 200u);
}

TEST_F(LargeHeapTest, WhereMuchIsIdleThatIsUsed) {
  begin(3);
  free_gaps(~std::size_t{0});
  ASSERT_GE(heap.idle_pages(), heap.used_pages() / 2);
  EXPECT_EQ(visits_before_a_page_of_its_own(), kMany);
}

TEST_F(LargeHeapTest, WhereThereIsALimitWhatIsIdleIsUsed) {
  begin(3);
  heap.limit().configure(0, std::size_t{1} << 40);
  EXPECT_EQ(visits_before_a_page_of_its_own(), kMany);
}

TEST_F(LargeHeapTest, WhereThereAreTwoShardsWhatIsIdleIsUsed) {
  begin(2);
  EXPECT_EQ(visits_before_a_page_of_its_own(), kMany);
}

TEST_F(PageShardTest, InASmallHeapWhatIsIdleIsUsed) {
  heap.set_most_shards(3);
  meet();
  heap.decommit(~std::size_t{0});
  allocate(24, second);
  heap.deallocate(allocate(5, second));
  for (int i = 0; i < kOften * 100; ++i) {
    Span& span = allocate(1, first, Pages::kIdle);
    EXPECT_EQ(region_of(span).shard, second.shard());
    heap.deallocate(span);
  }
}

TEST_F(PageShardTest, WhatIsDecommittedComesFromEveryShard) {
  meet();
  heap.decommit(~std::size_t{0});
  Span& a = allocate(9, first);
  Span& b = allocate(21, second);
  heap.deallocate(a);
  ASSERT_TRUE(keep(b));
  EXPECT_EQ(heap.decommit(10), 10u);
  EXPECT_EQ(heap.idle_pages(), 20u);
  heap.decommit_unneeded();  // an interval begins
  EXPECT_EQ(heap.decommit_unneeded(), 20u);
}

/// Two shards whose locks a test can hold.
struct TwoShards : ::testing::Test {
  FakePageSource pages;
  FakeAddressSpace space{pages};
  MemoryLimit limit;
  RegionSource source{space.map, space.metadata, limit, pages, 7};
  IdleTally tally;
  PageShard mine{source, tally, 0};
  PageShard theirs{source, tally, 1};

  void SetUp() override { source.configure(free_addresses(), HugePages::kNever, SIZE_MAX, 0); }
  void TearDown() override {
    for (PageShard* shard : {&mine, &theirs}) {
      LockGuard guard(shard->lock());
      shard->check_invariants();
    }
    mine.discard();
    theirs.discard();
    source.discard();
  }

  /// A span of the shard, for its own use.
  static Span* give(PageShard& shard, unsigned page_count) {
    Span* const span = shard.allocate({page_count}, shard, PageShard::Growth::kAny, nullptr).span;
    EXPECT_NE(span, nullptr);
    return span;
  }
  /// What `mine` gets from another shard.
  PageShard::Taken ask_for(PageShard& shard, unsigned page_count) {
    return shard.allocate({page_count}, mine, PageShard::Growth::kNone, nullptr);
  }
  /// The same while another thread holds the lock of `mine`.
  PageShard::Taken ask_while_busy(unsigned page_count) {
    PageShard::Taken taken;
    LockGuard guard(mine.lock());
    std::thread([&] { taken = ask_for(theirs, page_count); }).join();
    return taken;
  }
};

TEST_F(TwoShards, AFreeRegionGoesToWhoNeedsIt) {
  Span* const freed = give(theirs, 3);
  Region& region = *space.map.region_of(freed->start);
  theirs.deallocate(*freed, false, Was::kInUse);
  EXPECT_TRUE(ask_for(theirs, 4).was_given);
  EXPECT_EQ(region.shard, 0u);
  EXPECT_EQ(theirs.idle_pages(), 0u);
  EXPECT_EQ(mine.idle_pages(), 3u);
  EXPECT_EQ(mine.used_pages(), 0u);
}

/// Two threads that each wait for the other's shard would wait for ever.
TEST_F(TwoShards, ARegionStaysWhereTheOtherShardIsBusy) {
  Span* const freed = give(theirs, 3);
  Region& region = *space.map.region_of(freed->start);
  theirs.deallocate(*freed, false, Was::kInUse);
  const PageShard::Taken taken = ask_while_busy(3);
  EXPECT_NE(taken.span, nullptr);
  EXPECT_FALSE(taken.was_given);
  EXPECT_EQ(region.shard, 1u);
}

TEST_F(TwoShards, ASecondFreeIsNoticedAfterTheRegionHasMoved) {
  Span* const freed = give(theirs, 3);
  Region& region = *space.map.region_of(freed->start);
  theirs.deallocate(*freed, false, Was::kInUse);
  ASSERT_TRUE(ask_for(theirs, 5).was_given);
  Span* const again = give(mine, 3);
  ASSERT_EQ(again, freed);
  EXPECT_EQ(theirs.keep(region, *again), again) << "who looked before it moved";
  EXPECT_EQ(mine.keep(region, *again), nullptr);
}

}  // namespace
}  // namespace strata
