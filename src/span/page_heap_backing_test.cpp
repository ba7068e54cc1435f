#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/seeded_test.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"
#include "span/page_heap.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kAll = ~std::size_t{0};
// The least number of regions at which full ones are looked at.
constexpr std::size_t kEnough = 5;

template <typename Pages, HugePages huge_pages>
struct Backing : ::testing::Test {
  Pages pages;
  FakeAddressSpace space{pages, huge_pages};
  PageHeap& heap = space.heap;

  /// Takes whole regions and writes into so much of each.
  std::vector<Span*> fill(std::size_t regions, std::size_t bytes = kRegionBytes) {
    std::vector<Span*> spans;
    for (std::size_t i = 0; i < regions; ++i) {
      spans.push_back(heap.allocate(kPagesPerRegion));
      EXPECT_NE(spans.back(), nullptr);
      std::memset(spans.back()->start, 0xa5, bytes);
    }
    return spans;
  }
  /// Looks at regions until that has an end.
  void collapse_all() {
    while (heap.may_have_filled()) heap.collapse_filled();
  }
  std::size_t huge() { return heap.statistics().huge_regions; }
  void TearDown() override { heap.check_invariants(); }
};

/// A kernel that is always quick, so that pauses are short.
struct QuickPages : FakePageSource {
  bool collapse(void*, std::size_t) noexcept override {
    ++collapses;
    return !refuses;
  }
  std::size_t collapses = 0;
  bool refuses = false;
};

using PageHeapBacking = Backing<QuickPages, HugePages::kAuto>;
using PageHeapBackingNever = Backing<FakePageSource, HugePages::kNever>;
using PageHeapBackingByTheKernel = Backing<FakePageSource, HugePages::kAuto>;

TEST_F(PageHeapBackingByTheKernel, FullRegionsBecomeHugePagesAndKeepTheirContents) {
  const std::vector<Span*> spans = fill(kEnough);
  EXPECT_EQ(huge(), 0u);
  collapse_all();
  EXPECT_EQ(huge(), kEnough);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), kEnough);
  for (const Span* span : spans) {
    for (std::size_t i = 0; i < kRegionBytes; i += 4096) ASSERT_EQ(span->start[i], '\xa5');
  }
}

TEST_F(PageHeapBacking, ASmallHeapKeepsItsSmallPages) {
  fill(kEnough - 1);
  EXPECT_FALSE(heap.may_have_filled());
  EXPECT_EQ(huge(), 0u);
}

TEST_F(PageHeapBackingNever, NoRegionBecomesOneWhereTheUserForbidsIt) {
  fill(kEnough);
  EXPECT_FALSE(heap.may_have_filled());
  EXPECT_EQ(huge(), 0u);
}

TEST_F(PageHeapBacking, WhatTheProgramHasNotTouchedStaysUntouched) {
  fill(kEnough, kRegionBytes / 10 * 9);
  collapse_all();
  EXPECT_EQ(huge(), 0u);
  EXPECT_EQ(pages.collapses, 0u);
}

TEST_F(PageHeapBacking, ARegionThatIsTouchedLaterIsLookedAtAgain) {
  const std::vector<Span*> spans = fill(kEnough, 1);
  for (std::size_t i = 0; i <= kEnough; ++i) heap.collapse_filled();
  ASSERT_TRUE(heap.may_have_filled());
  for (Span* span : spans) std::memset(span->start, 0xa5, kRegionBytes);
  collapse_all();
  EXPECT_EQ(huge(), kEnough);
}

TEST_F(PageHeapBacking, RegionsWithFreePagesAreNotFull) {
  for (Span* span : fill(kEnough)) ASSERT_TRUE(heap.resize(*span, kPagesPerRegion - 4));
  collapse_all();
  EXPECT_EQ(huge(), 0u);
}

TEST_F(PageHeapBacking, RegionsWithFreePagesHereAndThereAreNotFull) {
  std::vector<Span*> spans;
  for (std::size_t i = 0; i < kEnough * kPagesPerRegion; ++i) {
    spans.push_back(heap.allocate(1));
    ASSERT_NE(spans.back(), nullptr);
    std::memset(spans.back()->start, 0xa5, kPageBytes);
  }
  for (std::size_t i = 0; i < spans.size(); i += 4) heap.deallocate(*spans[i]);
  collapse_all();
  EXPECT_EQ(huge(), 0u);
}

TEST_F(PageHeapBacking, RegionsWithHolesWaitUntilTheseAreFilled) {
  std::vector<Span*> spans = fill(kEnough);
  heap.begin_holes(*spans[0]);
  heap.begin_holes(*spans[0]);
  collapse_all();
  EXPECT_EQ(huge(), kEnough - 1);
  heap.end_holes(*spans[0]);
  fill(1);
  collapse_all();
  EXPECT_EQ(huge(), kEnough);
  heap.end_holes(*spans[0]);
  fill(1);
  collapse_all();
  EXPECT_EQ(huge(), kEnough + 2);
}

TEST_F(PageHeapBacking, AboveTheSoftLimitNoneBecomesOne) {
  fill(kEnough);
  space.limit.configure(1, 0);
  collapse_all();
  EXPECT_EQ(huge(), 0u);
}

TEST_F(PageHeapBacking, ARegionThatGivesAPartBackIsSplitAndStaysSo) {
  std::vector<Span*> spans = fill(kEnough);
  collapse_all();
  ASSERT_TRUE(heap.resize(*spans[0], kPagesPerRegion / 2));
  const std::size_t advice = pages.calls(FakePageSource::kAdviseSmall);
  EXPECT_EQ(heap.decommit(kAll), kPagesPerRegion / 2);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseSmall), advice + 1);
  fill(1);
  collapse_all();
  EXPECT_EQ(pages.collapses, kEnough + 1);
}

TEST_F(PageHeapBacking, ARegionThatGaveAllBackBeginsWithSmallPages) {
  std::vector<Span*> spans = fill(kEnough);
  collapse_all();
  heap.deallocate(*spans[0]);
  EXPECT_EQ(heap.decommit(kAll), kPagesPerRegion);
  const std::size_t advice = pages.calls(FakePageSource::kAdviseSmall);
  Span* const again = heap.allocate(1);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(huge(), kEnough - 1);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseSmall), advice + 1);
  // One page is held, not the region.
  EXPECT_EQ(heap.used_pages() * kPageBytes, (kEnough - 1) * kRegionBytes + kPageBytes);
}

TEST_F(PageHeapBacking, AKernelThatRefusesIsAskedOnceAndLeftTheRest) {
  fill(kEnough);
  pages.refuses = true;
  collapse_all();
  EXPECT_EQ(pages.collapses, 1u);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), kEnough);
  EXPECT_EQ(huge(), kEnough);
}

/// A kernel that takes long.
struct SlowPages : FakePageSource {
  bool collapse(void* address, std::size_t bytes) noexcept override {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return FakePageSource::collapse(address, bytes);
  }
};
using PageHeapBackingSlow = Backing<SlowPages, HugePages::kAuto>;

TEST_F(PageHeapBackingSlow, TheProgramPausesForASmallShareOfItsTime) {
  fill(kEnough);
  // The next one is due after fifty times the pause: ten seconds.
  for (int i = 0; i < 1000; ++i) heap.collapse_filled();
  EXPECT_EQ(pages.calls(FakePageSource::kCollapse), 1u);
}

struct PageHeapBackingThreads : SeededTest {
  FakePageSource pages;
  FakeAddressSpace space{pages, HugePages::kAuto};
  PageHeap& heap = space.heap;
};

/// Threads take and give back pages, whose contents have to stay, while regions are collapsed,
/// split and decommitted.
TEST_F(PageHeapBackingThreads, CollapseWhileThreadsTakeAndGiveBackPages) {
  constexpr int kThreads = 3;
  constexpr int kSteps = 3000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, start = random()] {
      std::mt19937_64 draw(start);
      std::vector<Span*> mine(8 * kPagesPerRegion / kThreads);
      for (int i = 0; i < kSteps; ++i) {
        Span*& span = mine[draw() % mine.size()];
        if (span != nullptr && draw() % 8 == 0) {
          EXPECT_EQ(std::memcmp(span->start, &span, sizeof span), 0);
          heap.deallocate(*span);
          span = nullptr;
        } else if (span == nullptr && (span = heap.allocate(1)) != nullptr) {
          std::memset(span->start, 1, span->bytes());
          std::memcpy(span->start, &span, sizeof span);
        }
      }
      for (Span* span : mine) {
        if (span != nullptr) heap.deallocate(*span);
      }
      running.fetch_sub(1);
    });
  }
  while (running.load() != 0) {
    heap.collapse_filled();
    if (random() % 1024 == 0) heap.decommit(random() % 64);
  }
  for (std::thread& thread : threads) thread.join();
  heap.check_invariants();
  heap.decommit(kAll);
  EXPECT_EQ(heap.idle_pages(), 0u);
  heap.check_invariants();
}

}  // namespace
}  // namespace strata
