#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "os/child_in_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"
#include "span/page_heap.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kAll = ~std::size_t{0};

/// Remembers which ranges were returned, in order.
class RecordingPageSource : public FakePageSource {
 public:
  bool decommit(void* address, std::size_t bytes) noexcept override {
    decommits.emplace_back(static_cast<char*>(address), bytes);
    return FakePageSource::decommit(address, bytes);
  }
  std::vector<std::pair<char*, std::size_t>> decommits;
};

struct PageHeapRelease : ::testing::Test {
  RecordingPageSource pages;
  FakeAddressSpace space{pages};
  PageHeap& heap = space.heap;

  std::vector<Span*> allocate(std::size_t count, unsigned page_count = 1) {
    std::vector<Span*> spans;
    for (std::size_t i = 0; i < count; ++i) {
      spans.push_back(heap.allocate(page_count));
      EXPECT_NE(spans.back(), nullptr);
      std::memset(spans.back()->start, 0xa5, spans.back()->bytes());
    }
    return spans;
  }
  void deallocate(const std::vector<Span*>& spans) {
    for (Span* span : spans) heap.deallocate(*span);
  }
  void make_idle(std::size_t page_count) { deallocate(allocate(page_count)); }
  void TearDown() override { heap.check_invariants(); }
};

TEST_F(PageHeapRelease, WhatIsLockedKeepsNothingElse) {
  const std::vector<Span*> spans = allocate(12 * kPagesPerRegion);
  for (std::size_t i = 0; i < spans.size(); i += kPagesPerRegion)
    pages.refuse_decommits_with(spans[i]->start + kPageBytes / 2);
  deallocate(spans);
  EXPECT_EQ(heap.decommit(kAll), spans.size() - 12);
  EXPECT_EQ(heap.idle_pages(), 12u);
}

TEST_F(PageHeapRelease, WhereAllIsLockedTheKernelIsNotAskedForEver) {
  make_idle(40 * kPagesPerRegion);
  pages.refuse_decommits(true);
  pages.decommits.clear();
  EXPECT_EQ(heap.decommit(kAll), 0u);
  EXPECT_LE(pages.decommits.size(), 10 * (kPagesPerRegion + 1));
  pages.refuse_decommits(false);
  EXPECT_EQ(heap.decommit(kAll), 40 * kPagesPerRegion);
}

TEST_F(PageHeapRelease, UnmapsFreeRegionsAndMapsThemAgainWhereTheyWere) {
  std::vector<Span*> spans = allocate(10, kPagesPerRegion);
  char* const live = spans.back()->start;
  std::set<const char*> starts;
  for (const Span* span : spans) starts.insert(span->start);
  while (heap.statistics().reserved_bytes != 0) allocate(1, kPagesPerRegion);
  const std::size_t regions = heap.statistics().regions;
  deallocate({spans.begin(), spans.end() - 1});
  const std::size_t before = pages.mapped_bytes();
  EXPECT_EQ(heap.unmap(3 * kRegionBytes - 1), 3 * kRegionBytes);
  EXPECT_EQ(heap.unmap(kAll), 6 * kRegionBytes);
  EXPECT_EQ(heap.unmap(kAll), 0u);
  EXPECT_EQ(pages.mapped_bytes(), before - 9 * kRegionBytes);
  EXPECT_EQ(heap.idle_pages(), 0u);
  EXPECT_EQ(heap.limit().held_bytes(),
            (regions - 9) * kRegionBytes + space.metadata.mapped_bytes());
  EXPECT_EQ(heap.statistics().regions, regions - 9);
  EXPECT_EQ(space.map.region_of(spans.front()->start), nullptr);
  heap.check_invariants();
  for (const Span* span : allocate(9, kPagesPerRegion)) {
    EXPECT_EQ(starts.count(span->start), 1u);
    EXPECT_NE(span->start, live);
    EXPECT_TRUE(span->is_zero);
  }
}

TEST_F(PageHeapRelease, RegionsOfTheChunkThatWereNotBegunAreUnmappedFirst) {
  deallocate(allocate(1, kPagesPerRegion));
  const std::size_t fresh = heap.statistics().reserved_bytes;
  ASSERT_GT(fresh, kRegionBytes);
  const std::size_t before = pages.mapped_bytes();
  EXPECT_EQ(heap.unmap(1), kRegionBytes);
  EXPECT_EQ(heap.unmap(fresh - kRegionBytes), fresh - kRegionBytes);
  EXPECT_EQ(heap.statistics().reserved_bytes, 0u);
  EXPECT_EQ(heap.statistics().regions, 1u);
  EXPECT_EQ(heap.idle_pages(), kPagesPerRegion);
  EXPECT_EQ(heap.unmap(kAll), kRegionBytes);
  heap.check_invariants();
  const std::size_t count = fresh / kRegionBytes + 1;
  for (const Span* span : allocate(count, kPagesPerRegion)) EXPECT_TRUE(span->is_zero);
  EXPECT_EQ(heap.statistics().regions, count);
  EXPECT_EQ(heap.statistics().reserved_bytes, 0u) << "all are where they were";
  EXPECT_LE(pages.mapped_bytes(), before + space.metadata.mapped_bytes());
}

TEST_F(PageHeapRelease, WhereThePlaceOfAnUnmappedRegionIsTakenAnotherIsMapped) {
  Span* const span = heap.allocate(kPagesPerRegion);
  while (heap.statistics().reserved_bytes != 0) heap.allocate(kPagesPerRegion);
  char* const place = span->start;
  heap.deallocate(*span);
  EXPECT_EQ(heap.unmap(1), kRegionBytes);
  ASSERT_EQ(pages.map_at(place, os::page_bytes()), os::MapAt::kMapped);
  const Span* const another = heap.allocate(kPagesPerRegion);
  ASSERT_NE(another, nullptr);
  EXPECT_NE(another->start, place);
  EXPECT_EQ(space.map.region_of(place), nullptr);
}

TEST_F(PageHeapRelease, AnUnmappedRegionAsksForHugePagesAgainAndIsNoLongerSplit) {
  RecordingPageSource huge_pages;
  FakeAddressSpace huge(huge_pages, HugePages::kAlways);
  const auto advised = [&](FakePageSource::Call call) { return huge_pages.calls(call); };
  Span* const first = huge.heap.allocate(1);
  char* const place = first->start;
  while (huge.heap.statistics().reserved_bytes != 0) huge.heap.allocate(kPagesPerRegion);
  huge.heap.deallocate(*huge.heap.allocate(kPagesPerRegion - 1));
  EXPECT_EQ(huge.heap.decommit(5), 5u) << "small pages back this region now";
  huge.heap.deallocate(*first);
  const std::size_t huge_regions = huge.heap.statistics().huge_regions;
  EXPECT_EQ(huge.heap.unmap(kAll), kRegionBytes);
  EXPECT_EQ(huge.heap.statistics().huge_regions, huge_regions - 1);
  const std::size_t asked = advised(FakePageSource::kAdviseHuge);
  const std::size_t small = advised(FakePageSource::kAdviseSmall);
  Span* const again = huge.heap.allocate(kPagesPerRegion);
  EXPECT_EQ(again->start, place);
  EXPECT_EQ(huge.heap.statistics().huge_regions, huge_regions);
  EXPECT_EQ(advised(FakePageSource::kAdviseHuge), asked + 1);
  EXPECT_TRUE(huge.heap.resize(*again, 1));
  huge.heap.decommit(5);
  EXPECT_EQ(advised(FakePageSource::kAdviseSmall), small + 1) << "it was whole again";
  huge.heap.check_invariants();
}

TEST_F(PageHeapRelease, ARegionThatCannotBeUnmappedStays) {
  deallocate(allocate(2, kPagesPerRegion));
  const std::size_t held = heap.limit().held_bytes();
  pages.refuse_unmaps(true);
  const std::size_t regions = heap.statistics().regions;
  EXPECT_EQ(heap.unmap(kAll), 0u);
  EXPECT_EQ(heap.statistics().regions, regions);
  EXPECT_EQ(heap.limit().held_bytes(), held);
  heap.check_invariants();
  pages.refuse_unmaps(false);
  const std::size_t fresh = heap.statistics().reserved_bytes;
  EXPECT_EQ(heap.unmap(kAll), fresh + 2 * kRegionBytes);
  EXPECT_EQ(heap.limit().held_bytes(), space.metadata.mapped_bytes());
}

TEST_F(PageHeapRelease, GivesBackNoMoreThanAskedFor) {
  make_idle(20);
  EXPECT_EQ(heap.decommit(0), 0u);
  EXPECT_EQ(heap.decommit(7), 7u);
  EXPECT_EQ(heap.idle_pages(), 13u);
  heap.check_invariants();
  EXPECT_EQ(heap.decommit(kAll), 13u);
  EXPECT_EQ(heap.decommit(kAll), 0u);
  EXPECT_EQ(heap.statistics().decommitted_pages, 20u);
  EXPECT_EQ(pages.decommitted_bytes(), 20 * kPageBytes);
}

TEST_F(PageHeapRelease, GivesBackARunWithOneCall) {
  deallocate(allocate(1, kPagesPerRegion));
  heap.decommit(kAll);
  EXPECT_EQ(pages.calls(FakePageSource::kDecommit), 1u);
}

TEST_F(PageHeapRelease, NeverGivesBackAPageThatIsInUse) {
  const std::vector<Span*> spans = allocate(kPagesPerRegion);
  for (std::size_t i = 0; i < spans.size(); i += 2) heap.deallocate(*spans[i]);
  EXPECT_EQ(heap.decommit(kAll), kPagesPerRegion / 2);
  for (std::size_t i = 1; i < spans.size(); i += 2) {
    for (std::size_t b = 0; b < kPageBytes; ++b) ASSERT_EQ(spans[i]->start[b], '\xa5');
  }
}

TEST_F(PageHeapRelease, TheLongestIdleGoFirst) {
  const std::vector<Span*> regions = allocate(3, kPagesPerRegion);
  for (int i : {1, 2, 0}) heap.deallocate(*regions[static_cast<std::size_t>(i)]);
  for (int i : {1, 2, 0}) {
    heap.decommit(kPagesPerRegion);
    EXPECT_EQ(pages.decommits.back().first, regions[static_cast<std::size_t>(i)]->start);
  }
}

TEST_F(PageHeapRelease, WhatWasUsedDuringTheIntervalStays) {
  make_idle(10);
  heap.decommit_unneeded();  // an interval begins with 10 idle pages
  deallocate(allocate(4));   // of which 4 are used at some time
  EXPECT_EQ(heap.decommit_unneeded(), 6u);
  EXPECT_EQ(heap.idle_pages(), 4u);
  EXPECT_EQ(heap.decommit_unneeded(), 4u);
  EXPECT_EQ(heap.idle_pages(), 0u);
  EXPECT_EQ(heap.decommit_unneeded(), 0u);
}

TEST_F(PageHeapRelease, ABurstThatComesBackInEveryIntervalIsNotThrashed) {
  for (int round = 0; round < 10; ++round) {
    make_idle(3 * kPagesPerRegion);
    EXPECT_EQ(heap.decommit_unneeded(), 0u) << "round " << round;
  }
  EXPECT_EQ(pages.calls(FakePageSource::kDecommit), 0u);
}

TEST_F(PageHeapRelease, ABurstThatIsOverIsGoneAfterTwoIntervals) {
  make_idle(1000);
  heap.decommit_unneeded();
  heap.decommit_unneeded();
  EXPECT_EQ(heap.idle_pages(), 0u);
  EXPECT_EQ(heap.statistics().decommitted_pages, 1000u);
}

TEST_F(PageHeapRelease, WhatWasIdleBeforeItCameGoesBackInTheSameRound) {
  const std::vector<Span*> idle = allocate(5);
  const std::vector<Span*> in_use = allocate(3);
  heap.decommit_unneeded();
  for (Span* span : idle) heap.deallocate(*span, false, Was::kIdle);
  deallocate(in_use);
  heap.check_invariants();
  EXPECT_EQ(heap.decommit_unneeded(), 5u);
  EXPECT_EQ(heap.decommit_unneeded(), 3u);
}

TEST_F(PageHeapRelease, WhatAReleaseTookIsNotCountedAsUnneededAgain) {
  make_idle(10);
  heap.decommit_unneeded();
  EXPECT_EQ(heap.decommit(8), 8u);
  make_idle(10);
  EXPECT_LE(heap.decommit_unneeded(), 2u);
}

TEST_F(PageHeapRelease, PagesThatTheKernelRefusesToTakeStayIdleAndInUse) {
  make_idle(8);
  pages.refuse_from_call(1);
  EXPECT_EQ(heap.decommit(kAll), 0u);
  EXPECT_EQ(heap.decommit_unneeded(), 0u);
  EXPECT_EQ(heap.idle_pages(), 8u);
  EXPECT_EQ(heap.statistics().used_pages, 0u);
  heap.check_invariants();
  Span* span = heap.allocate(8);
  EXPECT_FALSE(span->is_zero);
  heap.deallocate(*span);
  pages.refuse_nothing();
  EXPECT_EQ(heap.decommit(kAll), 8u);
}

TEST_F(PageHeapRelease, OneRefusedRunDoesNotSpoilTheOthersOfItsRegion) {
  const std::vector<Span*> spans = allocate(6);
  for (int i : {0, 2, 4}) heap.deallocate(*spans[static_cast<std::size_t>(i)]);
  pages.refuse_decommits_with(spans[2]->start);
  EXPECT_EQ(heap.decommit(kAll), 2u);
  EXPECT_EQ(heap.idle_pages(), 1u);
  heap.check_invariants();
  Span* refused = heap.allocate(1);  // idle pages come first
  EXPECT_FALSE(refused->is_zero);
  EXPECT_TRUE(heap.allocate(1)->is_zero);
}

TEST_F(PageHeapRelease, CleanPagesOfAHugeRegionStayCleanWhileOthersGoBack) {
  RecordingPageSource huge_pages;
  FakeAddressSpace huge(huge_pages, HugePages::kAlways);
  Span* first = huge.heap.allocate(1);
  Span* rest = huge.heap.allocate(kPagesPerRegion - 1);
  huge.heap.deallocate(*rest);
  EXPECT_EQ(huge.heap.decommit(kAll), kPagesPerRegion - 1);
  huge.heap.deallocate(*first);
  EXPECT_EQ(huge.heap.idle_pages(), 1u);
  EXPECT_EQ(huge.heap.decommit(kAll), 1u);
  EXPECT_EQ(huge.heap.idle_pages(), 0u);
  EXPECT_EQ(huge_pages.decommitted_bytes(), kRegionBytes);
  huge.heap.check_invariants();
}

TEST_F(PageHeapRelease, ARegionThatWentBackInPartIsSmallPagesUntilAllOfItHas) {
  RecordingPageSource huge_pages;
  FakeAddressSpace huge(huge_pages, HugePages::kAlways);
  const auto advised = [&](FakePageSource::Call call) { return huge_pages.calls(call); };
  Span* first = huge.heap.allocate(1);
  Span* second = huge.heap.allocate(1);
  Span* rest = huge.heap.allocate(kPagesPerRegion - 2);
  const std::size_t small = advised(FakePageSource::kAdviseSmall);
  const std::size_t asked = advised(FakePageSource::kAdviseHuge);
  huge.heap.deallocate(*rest);
  huge.heap.decommit(kAll);
  EXPECT_EQ(advised(FakePageSource::kAdviseSmall), small + 1) << "huge pages would fill it again";
  huge.heap.deallocate(*second);
  huge.heap.decommit(kAll);
  EXPECT_EQ(advised(FakePageSource::kAdviseSmall), small + 1) << "it is known already";
  huge.heap.deallocate(*first);
  huge.heap.decommit(kAll);
  EXPECT_EQ(advised(FakePageSource::kAdviseHuge), asked);
  first = huge.heap.allocate(1);
  EXPECT_EQ(advised(FakePageSource::kAdviseHuge), asked + 1) << "it begins anew";
  huge.heap.deallocate(*first);
  EXPECT_EQ(huge.heap.idle_pages(), kPagesPerRegion) << "the kernel may have backed all of it";
  huge.heap.decommit(kAll);
  EXPECT_EQ(advised(FakePageSource::kAdviseSmall), small + 1) << "all of it went at once";
  huge.heap.check_invariants();
}

TEST_F(PageHeapRelease, WhatAHugePageWouldBeSplitForCanStay) {
  RecordingPageSource huge_pages;
  FakeAddressSpace huge(huge_pages, HugePages::kAlways);
  using From = PageHeap::From;
  Span* const first = huge.heap.allocate(1);
  huge.heap.deallocate(*huge.heap.allocate(kPagesPerRegion - 1));
  EXPECT_EQ(huge.heap.decommit(kAll, From::kNotWhole), 0u);
  EXPECT_EQ(huge.heap.decommit(5), 5u) << "small pages back this region now";
  Span* const second = huge.heap.allocate(kPagesPerRegion);
  EXPECT_TRUE(huge.heap.resize(*second, 2));
  EXPECT_EQ(huge.heap.decommit(3, From::kNotWhole), 3u);
  EXPECT_EQ(huge.heap.decommit(kAll, From::kNotWhole), kPagesPerRegion - 9);
  EXPECT_EQ(huge.heap.idle_pages(), kPagesPerRegion - 2) << "of the second region";
  EXPECT_EQ(huge.heap.decommit(kAll, From::kNotWhole), 0u);
  EXPECT_EQ(huge.heap.decommit(kAll), kPagesPerRegion - 2);
  huge.heap.deallocate(*first);
  huge.heap.deallocate(*second);
  huge.heap.check_invariants();
  make_idle(20);
  EXPECT_EQ(heap.decommit(kAll, From::kNotWhole), 20u);
}

/// Forks when pages are next returned; the child uses the heap.
class ForkingPageSource : public FakePageSource {
 public:
  bool decommit(void* address, std::size_t bytes) noexcept override {
    PageHeap* const used = std::exchange(heap, nullptr);
    if (used == nullptr) return FakePageSource::decommit(address, bytes);
    status = os::status_in_child([&] {
      used->check_invariants();
      Span* const span = used->allocate(3);
      if (span == nullptr) return 1;
      used->deallocate(*span);
      used->decommit(kAll);
      used->check_invariants();
      return used->statistics().used_pages == bytes / kPageBytes ? 0 : 2;
    });
    return FakePageSource::decommit(address, bytes);
  }
  PageHeap* heap = nullptr;
  int status = -1;
};

TEST(PageHeapInForks, IsSoundWherePagesWereOnTheirWayToTheKernel) {
  ForkingPageSource pages;
  FakeAddressSpace space(pages);
  Span* const span = space.heap.allocate(9);
  ASSERT_NE(span, nullptr);
  std::memset(span->start, 0xa5, span->bytes());
  space.heap.deallocate(*span);
  pages.heap = &space.heap;
  EXPECT_EQ(space.heap.decommit(kAll), 9u);
  EXPECT_EQ(pages.status, 0);
  space.heap.check_invariants();
}

TEST_F(PageHeapRelease, GoesOnWhileOthersAllocateAndFree) {
  const auto come_and_go = [&](int t) {
    std::vector<Span*> mine;
    for (unsigned i = 0; i < 3000; ++i) {
      if (mine.size() < 20 && i % 3 != 2) {
        Span* span = heap.allocate(1 + i % 5, 1u << i % 3);
        ASSERT_NE(span, nullptr);
        if (span->is_zero) {
          ASSERT_EQ(span->start[0], 0);
        }
        std::memset(span->start, t + 1, 64);
        mine.push_back(span);
      } else {
        ASSERT_EQ(mine.back()->start[63], t + 1);
        heap.deallocate(*mine.back());
        mine.pop_back();
      }
    }
    for (Span* span : mine) heap.deallocate(*span);
  };
  run_together(3, come_and_go, [&, i = 0]() mutable {
    heap.decommit(static_cast<std::size_t>(i % 40));
    if (i++ % 7 == 0) heap.decommit_unneeded();
  });
  EXPECT_EQ(heap.statistics().used_pages, 0u);
  heap.decommit(kAll);
  EXPECT_EQ(heap.idle_pages(), 0u);
}

}  // namespace
}  // namespace strata
