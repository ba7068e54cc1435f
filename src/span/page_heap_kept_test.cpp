#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "base/run_together_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"
#include "span/page_heap.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kAllBytes = ~std::size_t{0};

/// Spans that were freed as blocks.
struct PageHeapKept : ::testing::Test {
  FakePageSource pages;
  FakeAddressSpace space{pages};
  PageHeap& heap = space.heap;
  PagePlace place{0};

  Span& allocate(unsigned page_count, unsigned alignment_pages = 1) {
    Span* const span = heap.allocate(page_count, alignment_pages);
    EXPECT_NE(span, nullptr);
    EXPECT_EQ(span->page_count, page_count);
    for (unsigned i = 0; i < page_count; ++i)
      EXPECT_EQ(space.map.span_of(span->start + i * kPageBytes), span);
    return *span;
  }
  Span* allocate_kept(unsigned page_count) {
    PageShard* const keeper = heap.keeper_of(page_count, place);
    return keeper != nullptr ? heap.allocate_kept(*keeper, page_count, place) : nullptr;
  }
  bool keep(Span& span) { return heap.keep(*space.map.region_of(span.start), span) == nullptr; }
  void TearDown() override { heap.check_invariants(); }
};

TEST_F(PageHeapKept, TheLatestOfAsManyPagesIsUsedFirst) {
  Span& a = allocate(5);
  Span& b = allocate(5);
  Span& c = allocate(6);
  for (Span* span : {&a, &b, &c}) EXPECT_TRUE(keep(*span));
  heap.check_invariants();
  EXPECT_NE(heap.keeper_of(5, place), nullptr);
  EXPECT_EQ(heap.keeper_of(4, place), nullptr);
  EXPECT_EQ(&allocate(6), &c);
  EXPECT_EQ(allocate_kept(5), &b);
  EXPECT_EQ(heap.allocate(5, 1, PageHeap::Pages::kIdle), &a);
  EXPECT_EQ(heap.keeper_of(5, place), nullptr);
  EXPECT_EQ(allocate_kept(5), nullptr);
  for (const Span* span : {&a, &b, &c}) EXPECT_FALSE(span->is_zero);
}

TEST_F(PageHeapKept, AreIdleAndInNoSpan) {
  for (unsigned count = 1; count <= kPagesPerRegion; ++count) {
    Span& span = allocate(count);
    char* const start = span.start;
    const std::size_t idle = heap.idle_pages();
    const std::size_t used = heap.used_pages();
    ASSERT_TRUE(keep(span));
    EXPECT_EQ(heap.idle_pages(), idle + count);
    EXPECT_EQ(heap.used_pages(), used - count);
    for (unsigned i = 0; i < count; ++i)
      EXPECT_EQ(space.map.span_of(start + i * kPageBytes), nullptr) << count;
    heap.for_each_span([](const Span&) { FAIL() << "none is in use"; });
    EXPECT_FALSE(keep(span)) << "it is free already";
    heap.check_invariants();
    EXPECT_EQ(&allocate(count), &span);
    EXPECT_EQ(heap.idle_pages(), idle);
    heap.check_invariants();
    heap.deallocate(span);
  }
}

TEST_F(PageHeapKept, ASpanOfAClassIsNone) {
  Span& span = *space.spans.create(1);
  EXPECT_FALSE(keep(span)) << "another thread freed the block that was there";
  EXPECT_EQ(space.map.span_of(span.start), &span);
  space.spans.destroy(span);
}

TEST_F(PageHeapKept, AreMergedBeforeTheHeapGrows) {
  std::vector<Span*> spans;
  for (int i = 0; i < 4; ++i) spans.push_back(&allocate(8));
  ASSERT_EQ(heap.statistics().regions, 1u);
  for (Span* span : spans) ASSERT_TRUE(keep(*span));
  allocate(32);
  EXPECT_EQ(heap.statistics().regions, 1u);
  EXPECT_EQ(heap.idle_pages(), 0u);
}

TEST_F(PageHeapKept, AreMergedForSpansOfClassesToo) {
  Span& whole = allocate(32);
  ASSERT_TRUE(keep(whole));
  for (int i = 0; i < 8; ++i) allocate(4);
  EXPECT_EQ(heap.statistics().regions, 1u);
}

/// A thread that merges all of them keeps others waiting.
TEST_F(PageHeapKept, AreMergedBeforeThereAreTooMany) {
  std::vector<Span*> spans;
  for (int i = 0; i < 3000; ++i) spans.push_back(&allocate(16));
  for (Span* span : spans) EXPECT_TRUE(keep(*span));
  std::size_t kept = 0;
  while (allocate_kept(16) != nullptr) ++kept;
  EXPECT_GE(kept, 100u);
  EXPECT_LT(kept, 2000u);
}

TEST_F(PageHeapKept, MakeRoomForABlockThatGrows) {
  Span& grows = allocate(4);
  Span& next = allocate(4);
  ASSERT_EQ(next.start, grows.start + grows.bytes());
  ASSERT_TRUE(keep(next));
  EXPECT_TRUE(heap.resize(grows, 8));
  EXPECT_EQ(space.map.span_of(grows.start + 8 * kPageBytes - 1), &grows);
}

TEST_F(PageHeapKept, StayWhereARoundFindsNothingUnneeded) {
  Span& span = allocate(5);
  ASSERT_TRUE(keep(span));
  EXPECT_EQ(heap.decommit_unneeded(), 0u) << "an interval begins";
  EXPECT_NE(heap.keeper_of(5, place), nullptr);
  EXPECT_EQ(&allocate(5), &span);
}

TEST_F(PageHeapKept, AreNotTakenWhereTheyAreNotAligned) {
  allocate(1);
  Span& odd = allocate(4);
  ASSERT_NE(odd.first_page % 4, 0);
  ASSERT_TRUE(keep(odd));
  const Span& aligned = allocate(4, 4);
  EXPECT_EQ(aligned.first_page % 4, 0);
}

TEST_F(PageHeapKept, GoBackToTheKernelLikeOtherIdlePages) {
  for (int round = 0; round < 3; ++round) {
    Span& span = allocate(5);
    std::memset(span.start, 1, span.bytes());
    ASSERT_TRUE(keep(span));
    if (round == 0) {
      EXPECT_EQ(heap.decommit(kAllBytes), 5u);
    } else {
      heap.decommit_unneeded();  // an interval begins
      EXPECT_EQ(heap.decommit_unneeded(), 5u);
    }
    EXPECT_EQ(heap.idle_pages(), 0u);
    heap.check_invariants();
    Span& clean = allocate(5);
    EXPECT_TRUE(clean.is_zero);
    heap.deallocate(clean);
    EXPECT_EQ(heap.decommit(kAllBytes), 5u);
  }
}

TEST_F(PageHeapKept, WhatWasUsedDuringTheIntervalStays) {
  Span& five = allocate(5);
  ASSERT_TRUE(keep(allocate(6)));
  ASSERT_TRUE(keep(five));
  heap.decommit_unneeded();
  ASSERT_TRUE(keep(allocate(5)));
  EXPECT_EQ(heap.decommit_unneeded(), 6u);
}

TEST_F(PageHeapKept, OfAHugeRegionAreHeldAsAWhole) {
  FakePageSource huge_pages;
  FakeAddressSpace huge(huge_pages, HugePages::kAlways);
  Span* const span = huge.heap.allocate(5);
  ASSERT_EQ(huge.heap.keep(*huge.map.region_of(span->start), *span), nullptr);
  EXPECT_EQ(huge.heap.idle_pages(), kPagesPerRegion);
  huge.heap.check_invariants();
  EXPECT_EQ(huge.heap.allocate(5), span);
  EXPECT_EQ(huge.heap.idle_pages(), kPagesPerRegion - 5);
  ASSERT_EQ(huge.heap.keep(*huge.map.region_of(span->start), *span), nullptr);
  EXPECT_EQ(huge.heap.decommit(kAllBytes, PageHeap::From::kNotWhole), 0u);
  EXPECT_EQ(huge.heap.decommit(kAllBytes), kPagesPerRegion);
  EXPECT_TRUE(huge.heap.allocate(5)->is_zero);
  huge.heap.check_invariants();
}

TEST_F(PageHeapKept, AreGoneWithTheHeap) {
  ASSERT_TRUE(keep(allocate(5)));
  heap.discard();
  EXPECT_EQ(heap.keeper_of(5, place), nullptr);
  EXPECT_EQ(heap.idle_pages(), 0u);
  heap.configure(free_addresses(), HugePages::kNever);
  allocate(5);
}

TEST_F(PageHeapKept, ThreadsTakeEachOnce) {
  constexpr int kThreads = 3;
  heap.set_most_shards(kThreads);
  run_together(kThreads, [&](int t) {
    PagePlace own;
    std::vector<Span*> mine;
    for (unsigned i = 0; i < 3000; ++i) {
      const unsigned page_count = 3 + i / 100 % 3;
      if (mine.size() < 8 && i % 3 != 2) {
        Span* span = heap.allocate(page_count, 1, PageHeap::Pages::kIdle, own);
        if (span == nullptr) span = heap.allocate(page_count, 1, PageHeap::Pages::kAny, own);
        ASSERT_NE(span, nullptr);
        std::memset(span->start, t + 1, 64);
        mine.push_back(span);
      } else {
        ASSERT_EQ(mine.back()->start[63], t + 1);
        ASSERT_TRUE(keep(*mine.back()));
        mine.pop_back();
      }
      if (i % 500 == 0) heap.decommit(10);
      if (i % 800 == 0) heap.check_invariants();
    }
    for (Span* span : mine) ASSERT_TRUE(keep(*span));
  });
  EXPECT_EQ(heap.used_pages(), 0u);
  heap.decommit(kAllBytes);
  EXPECT_EQ(heap.idle_pages(), 0u);
}

}  // namespace
}  // namespace strata
