#include "span/page_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/seeded_test.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kEvery = 4096;  // contents are written and read once per so many bytes

/// Fills a run with words that depend on their address and on `tag`.
void write_content(char* start, std::size_t bytes, std::uint64_t tag) {
  for (std::size_t i = 0; i < bytes; i += kEvery) {
    const std::uint64_t word = tag ^ reinterpret_cast<std::uintptr_t>(start + i);
    std::memcpy(start + i, &word, sizeof word);
    std::memcpy(start + i + kEvery - sizeof word, &word, sizeof word);
  }
}

bool has_content(const char* start, std::size_t bytes, std::uint64_t tag) {
  for (std::size_t i = 0; i < bytes; i += kEvery) {
    const std::uint64_t word = tag ^ reinterpret_cast<std::uintptr_t>(start + i);
    if (std::memcmp(start + i, &word, sizeof word) != 0) return false;
    if (std::memcmp(start + i + kEvery - sizeof word, &word, sizeof word) != 0) return false;
  }
  return true;
}

bool reads_zero(const Span& span) {
  for (std::size_t i = 0; i < span.bytes(); i += kEvery) {
    std::uint64_t words[2];
    std::memcpy(&words[0], span.start + i, sizeof words[0]);
    std::memcpy(&words[1], span.start + i + kEvery - sizeof words[1], sizeof words[1]);
    if (words[0] != 0 || words[1] != 0) return false;
  }
  return true;
}

struct PageHeapTest : ::testing::Test {
  FakePageSource pages;
  FakeAddressSpace space{pages};
  PageHeap& heap = space.heap;
  PagePlace place{0};

  Span& allocate(unsigned page_count, unsigned alignment_pages = 1) {
    Span* span = heap.allocate(page_count, alignment_pages);
    EXPECT_NE(span, nullptr);
    EXPECT_EQ(span->page_count, page_count);
    EXPECT_EQ(space.map.span_of(span->start), span);
    return *span;
  }
  std::size_t regions() { return heap.statistics().regions; }
  const Region& region_of(const Span& span) { return *space.map.region_of(span.start); }
  void TearDown() override { heap.check_invariants(); }
};

TEST_F(PageHeapTest, MapsNothingBeforeTheFirstRequest) {
  EXPECT_EQ(pages.fallible_calls(), 0u);
  EXPECT_EQ(regions(), 0u);
}

TEST_F(PageHeapTest, SplitsARegionIntoSinglePagesBeforeItTakesAnother) {
  std::map<char*, Span*> spans;
  for (unsigned i = 0; i < kPagesPerRegion; ++i) {
    Span& span = allocate(1);
    EXPECT_TRUE(spans.emplace(span.start, &span).second);
  }
  EXPECT_EQ(regions(), 1u);
  EXPECT_EQ(spans.rbegin()->first - spans.begin()->first,
            static_cast<std::ptrdiff_t>(kRegionBytes - kPageBytes));
  allocate(1);
  EXPECT_EQ(regions(), 2u);
}

/// The kernel joins two mappings that touch, and then waits for page faults in the first one.
TEST_F(PageHeapTest, NoChunkTouchesAnother) {
  std::set<char*> regions;
  for (int i = 0; i < 40; ++i) regions.insert(allocate(kPagesPerRegion).start);
  unsigned chunks = 1;
  for (auto next = std::next(regions.begin()); next != regions.end(); ++next)
    chunks += *next != *std::prev(next) + kRegionBytes;
  EXPECT_EQ(chunks, 4u) << "of 8, 8, 16 and 32 regions";
}

TEST_F(PageHeapTest, MergesWithBothNeighboursWhenReleased) {
  Span& a = allocate(10);
  Span& b = allocate(12);
  Span& c = allocate(10);
  ASSERT_EQ(regions(), 1u);
  heap.deallocate(a);
  heap.deallocate(c);
  heap.deallocate(b);
  allocate(kPagesPerRegion);
  EXPECT_EQ(regions(), 1u);
}

TEST_F(PageHeapTest, KeepsAlignment) {
  for (unsigned alignment = 1; alignment <= kPagesPerRegion; alignment *= 2) {
    for (unsigned count : {1u, 3u, 16u, kPagesPerRegion}) {
      allocate(1);  // so that the next free page is an odd one
      const Span& span = allocate(count, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(span.start) % (alignment * kPageBytes), 0u)
          << count << " pages aligned to " << alignment;
    }
  }
}

TEST_F(PageHeapTest, TakesTheTightestRegionThatFits) {
  Span& full = allocate(27);  // leaves 5 pages
  Span& half = allocate(12);  // leaves 20 pages of another
  ASSERT_EQ(regions(), 2u);
  Region* tight = space.map.region_of(full.start);
  Region* wide = space.map.region_of(half.start);
  EXPECT_EQ(space.map.region_of(allocate(6).start), wide);
  EXPECT_EQ(space.map.region_of(allocate(4).start), tight);
  EXPECT_EQ(space.map.region_of(allocate(1).start), tight);
  EXPECT_EQ(space.map.region_of(allocate(1).start), wide);
  EXPECT_EQ(regions(), 2u);
}

TEST_F(PageHeapTest, UsesIdlePagesBeforeCleanOnes) {
  Span& low = allocate(4);
  Span& high = allocate(1);
  char* const high_start = high.start;
  ASSERT_GT(high_start, low.start);
  heap.deallocate(low);
  EXPECT_EQ(heap.decommit(~std::size_t{0}), 4u);
  heap.deallocate(high);
  Span& again = allocate(1);
  EXPECT_EQ(again.start, high_start);
  EXPECT_FALSE(again.is_zero);
  EXPECT_TRUE(allocate(1).is_zero);
}

TEST_F(PageHeapTest, FindsIdlePagesWhereAnotherRegionHasATighterRunOfCleanOnes) {
  allocate(30);  // leaves 2 clean pages
  Span& idle = allocate(32);
  char* const start = idle.start;
  heap.deallocate(idle);
  Span* const found = heap.allocate(2, 1, PageHeap::Pages::kIdle);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->start, start);
  EXPECT_FALSE(found->is_zero);
  EXPECT_EQ(heap.allocate(31, 1, PageHeap::Pages::kIdle), nullptr) << "30 are left";
  heap.check_invariants();
}

TEST_F(PageHeapTest, TakesIdlePagesOfTheTightestRunSoThatOtherRegionsStayWhole) {
  Span& tight = allocate(2);
  char* const start = tight.start;
  allocate(30);
  Span& whole = allocate(32);
  heap.deallocate(tight);
  heap.deallocate(whole);
  Span* const found = heap.allocate(2, 1, PageHeap::Pages::kIdle);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->start, start);
  EXPECT_NE(heap.allocate(32, 1, PageHeap::Pages::kIdle), nullptr);
  heap.check_invariants();
}

TEST_F(PageHeapTest, FindsIdlePagesWhereManyRegionsHaveTighterRunsOfCleanOnes) {
  // Free runs of two pages each, one of which is idle.
  for (int region = 0; region < 40; ++region) ASSERT_TRUE(heap.resize(allocate(31), 30));
  Span& idle = allocate(32);
  char* const start = idle.start;
  heap.deallocate(idle);
  Span* const found = heap.allocate(2, 1, PageHeap::Pages::kIdle);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->start, start);
  heap.check_invariants();
}

TEST_F(PageHeapTest, ABlockThatGrowsHasRoomOfIdlePagesAfterIt) {
  EXPECT_EQ(heap.allocate_to_grow(2, place), nullptr) << "nothing is idle";
  Span& first = allocate(4);
  space.map.set_class(first, 1);
  Span& idle = allocate(12);
  allocate(8);
  Span& short_one = allocate(8);
  char* const start = idle.start;
  heap.deallocate(idle);
  heap.deallocate(short_one);
  EXPECT_EQ(heap.allocate_to_grow(4, place), nullptr) << "no run is so long";
  Span* const block = heap.allocate_to_grow(2, place);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->start, start) << "a span of objects does not grow";
  Span* const other = heap.allocate_to_grow(2, place);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->start, start + (2 + 4) * kPageBytes) << "the one before may grow";
  EXPECT_TRUE(heap.resize(*block, 6));
  EXPECT_TRUE(heap.resize(*other, 6));
  EXPECT_FALSE(heap.resize(*block, 7));
  space.map.set_class(first, 0);
  heap.check_invariants();
}

TEST_F(PageHeapTest, ABlockThatGrowsAloneHasItsRegionToItself) {
  heap.deallocate(allocate(32));
  Span* const block = heap.allocate_to_grow(12, place);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(block->first_page, 0u);
  EXPECT_TRUE(heap.resize(*block, 32));
}

/// Threads that free read it each time, so it must not change with each block.
TEST_F(PageHeapTest, SaysAtMostHowMuchIsIdleUntilItIsAsked) {
  Span& small = allocate(2);
  Span& large = allocate(5);
  EXPECT_EQ(heap.most_idle_bytes(), 0u);
  heap.deallocate(large);
  EXPECT_EQ(heap.most_idle_bytes(), 5 * kPageBytes);
  for (int i = 0; i < 3; ++i) {
    Span& again = allocate(5);
    EXPECT_EQ(heap.most_idle_bytes(), 5 * kPageBytes);
    heap.keep(*space.map.region_of(again.start), again);
    EXPECT_EQ(heap.most_idle_bytes(), 5 * kPageBytes);
  }
  heap.deallocate(small);
  EXPECT_EQ(heap.most_idle_bytes(), 7 * kPageBytes);
  allocate(4);
  heap.settle_idle();
  EXPECT_EQ(heap.most_idle_bytes(), 3 * kPageBytes);
  heap.decommit(~std::size_t{0});
  heap.settle_idle();
  EXPECT_EQ(heap.most_idle_bytes(), 0u);
}

/// The threads of a growing heap ask for idle pages before each span.
TEST_F(PageHeapTest, AsksForIdlePagesWithoutTheLockWhereThereAreNone) {
  allocate(1);
  std::atomic<bool> is_over{false};
  LocksInFork::begin();
  heap.hold_locks_for_fork();
  std::thread other([&] {
    EXPECT_EQ(heap.allocate(1, 1, PageHeap::Pages::kIdle), nullptr);
    is_over.store(true);
  });
  while (!is_over.load() && heap.waits() == 0) std::this_thread::yield();
  EXPECT_EQ(heap.waits(), 0u);
  LocksInFork::end_in_parent();
  other.join();
}

TEST_F(PageHeapTest, KnowsWhichPagesReadAsZero) {
  Span& fresh = allocate(8);
  EXPECT_TRUE(fresh.is_zero);
  EXPECT_TRUE(reads_zero(fresh));
  write_content(fresh.start, fresh.bytes(), 1);
  heap.deallocate(fresh);
  Span& used = allocate(8);
  EXPECT_FALSE(used.is_zero);
  heap.deallocate(used);
  EXPECT_EQ(heap.decommit(~std::size_t{0}), 8u);
  Span& returned = allocate(8);
  EXPECT_TRUE(returned.is_zero);
  EXPECT_TRUE(reads_zero(returned));
}

TEST_F(PageHeapTest, ARunOfCleanAndIdlePagesIsNotZero) {
  Span& a = allocate(1);
  write_content(a.start, a.bytes(), 1);
  heap.deallocate(a);
  EXPECT_FALSE(allocate(kPagesPerRegion).is_zero);
}

TEST_F(PageHeapTest, GrowsASpanIntoFreePagesOnly) {
  Span& a = allocate(4);
  write_content(a.start, a.bytes(), 7);
  Span& b = allocate(4);
  ASSERT_EQ(b.start, a.start + a.bytes());
  EXPECT_FALSE(heap.resize(a, 5));
  EXPECT_EQ(a.page_count, 4);
  heap.deallocate(b);
  EXPECT_TRUE(heap.resize(a, 8));
  EXPECT_EQ(a.page_count, 8);
  EXPECT_TRUE(has_content(a.start, 4 * kPageBytes, 7));
  EXPECT_EQ(space.map.span_of(a.start + 8 * kPageBytes - 1), &a);
  heap.check_invariants();
  EXPECT_TRUE(heap.resize(a, kPagesPerRegion));
  EXPECT_FALSE(heap.resize(a, kPagesPerRegion + 1));
  heap.deallocate(a);
  EXPECT_EQ(heap.statistics().used_pages, 0u);
}

TEST_F(PageHeapTest, ShrinksASpanAndFreesItsTail) {
  Span& a = allocate(kPagesPerRegion);
  write_content(a.start, a.bytes(), 7);
  EXPECT_TRUE(heap.resize(a, a.page_count));
  EXPECT_TRUE(heap.resize(a, 1));
  EXPECT_TRUE(has_content(a.start, kPageBytes, 7));
  EXPECT_EQ(space.map.span_of(a.start + kPageBytes), nullptr);
  EXPECT_EQ(heap.statistics().used_pages, 1u);
  heap.check_invariants();
  allocate(kPagesPerRegion - 1);
  EXPECT_EQ(regions(), 1u);
}

TEST_F(PageHeapTest, AsksForHugePagesAndCountsTheWholeRegionAsBacked) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAlways);
  Span* span = other.heap.allocate(1);
  ASSERT_NE(span, nullptr);
  EXPECT_GE(other_pages.calls(FakePageSource::kAdviseHuge), 1u);
  EXPECT_EQ(other.heap.statistics().huge_regions, 1u);
  EXPECT_EQ(other.heap.statistics().idle_pages, kPagesPerRegion - 1);
  other.heap.deallocate(*span);
  EXPECT_EQ(other.heap.decommit(~std::size_t{0}), kPagesPerRegion);
  EXPECT_EQ(other.heap.statistics().idle_pages, 0u);
  EXPECT_TRUE(other.heap.allocate(kPagesPerRegion)->is_zero);
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, NearTheHardLimitARegionHasSmallPages) {
  constexpr std::size_t kRoomFor = 9;  // pages
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAlways);
  other.limit.configure(0, (std::size_t{1} << 20) + kRoomFor * kPageBytes);
  other.limit.hold((std::size_t{1} << 20) - 256 * 1024);  // but for a chunk of bookkeeping
  for (std::size_t i = 0; i < kRoomFor; ++i) ASSERT_NE(other.heap.allocate(1), nullptr) << i;
  EXPECT_EQ(other.heap.allocate(1), nullptr);
  EXPECT_GE(other_pages.calls(FakePageSource::kAdviseSmall), 1u);
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, WhatABlockGrowsByIsGrowthOfTheHeap) {
  Span& block = allocate(2);
  heap.take_growth();
  ASSERT_TRUE(heap.resize(block, 5));
  EXPECT_EQ(heap.take_growth(), 3 * kPageBytes);
  ASSERT_TRUE(heap.resize(block, 2));
  ASSERT_TRUE(heap.resize(block, 4));
  EXPECT_EQ(heap.take_growth(), 0u) << "these pages were touched before";
}

/// Meanwhile other threads wait for the heap, and the kernel lets no other thread map.
TEST_F(PageHeapTest, AsksForHugePagesOnceForAllRegionsOfAChunk) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAlways);
  for (int i = 0; i < 8; ++i) ASSERT_NE(other.heap.allocate(kPagesPerRegion), nullptr);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseHuge), 1u);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseSmall), 0u);
  EXPECT_EQ(other.heap.statistics().huge_regions, 8u);
}

/// The heap may begin to ask for huge pages in the middle of a chunk.
TEST_F(PageHeapTest, ARegionThatIsNotLikeItsChunkIsAdvisedByItself) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAuto);
  const auto advised = [&](FakePageSource::Call call) { return other_pages.calls(call); };
  std::size_t asked = 0;
  for (int i = 0; i < 24; ++i) {
    ASSERT_NE(other.heap.allocate(kPagesPerRegion), nullptr);
    if (i == 15) {
      EXPECT_EQ(advised(FakePageSource::kAdviseHuge), 0u);
    }
  }
  asked = advised(FakePageSource::kAdviseHuge);
  EXPECT_GE(asked, 1u);
  const std::size_t small = advised(FakePageSource::kAdviseSmall);
  const std::size_t huge_regions = other.heap.statistics().huge_regions;
  ASSERT_EQ(huge_regions, 8u);
  other.heap.limit().configure(1, 0);
  ASSERT_NE(other.heap.allocate(kPagesPerRegion), nullptr);
  EXPECT_EQ(advised(FakePageSource::kAdviseSmall), small + 1);
  EXPECT_EQ(other.heap.statistics().huge_regions, huge_regions);
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, WhereEarlierRegionsAreHardlyTouchedNewOnesGetSmallPages) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAuto);
  const auto count_huge = [&](int regions) {
    const std::size_t before = other.heap.statistics().huge_regions;
    for (; regions != 0; --regions) EXPECT_NE(other.heap.allocate(kPagesPerRegion), nullptr);
    return other.heap.statistics().huge_regions - before;
  };
  other_pages.say_touched(false);
  EXPECT_EQ(count_huge(40), 0u);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseHuge), 0u) << "nor is a chunk advised";
  other_pages.say_touched(true);
  EXPECT_EQ(count_huge(4), 4u);
  other_pages.say_touched(false);
  EXPECT_EQ(count_huge(20), 20u) << "of those with huge pages nobody can tell";
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, AfterASlowHugePageSomeRegionsGetSmallOnes) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAuto);
  // Counts huge pages among the next regions.
  const auto count_huge = [&](std::size_t regions) {
    const std::size_t before = other.heap.statistics().huge_regions;
    for (; regions != 0; --regions) EXPECT_TRUE(other.heap.allocate(kPagesPerRegion)->is_zero);
    return other.heap.statistics().huge_regions - before;
  };
  const auto touched = [&] { return other_pages.calls(FakePageSource::kTouch); };
  ASSERT_EQ(count_huge(16), 0u);
  EXPECT_EQ(touched(), 0u);
  ASSERT_EQ(count_huge(1), 1u);
  EXPECT_EQ(touched(), 1u);
  other_pages.make_touches_take(2'000'000);
  EXPECT_EQ(count_huge(1), 1u);
  EXPECT_EQ(count_huge(8), 0u);
  EXPECT_EQ(count_huge(1), 1u);
  EXPECT_EQ(count_huge(16), 0u);
  other_pages.make_touches_take(100'000);
  EXPECT_EQ(count_huge(20), 20u);
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, WhoeverGetsPagesOfARegionBeforeItIsBackedMeasuresToo) {
  // While the first thread waits for the kernel, another thread comes.
  struct BusyPages final : FakePageSource {
    std::uint64_t touch(void* address) noexcept override {
      if (auto other = std::exchange(meanwhile, nullptr)) other();
      return FakePageSource::touch(address);
    }
    std::function<void()> meanwhile;
  } other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAuto);
  for (int i = 0; i < 16; ++i) ASSERT_NE(other.heap.allocate(kPagesPerRegion), nullptr);
  other_pages.meanwhile = [&] { ASSERT_NE(other.heap.allocate(1), nullptr); };
  ASSERT_NE(other.heap.allocate(1), nullptr);
  EXPECT_EQ(other_pages.calls(FakePageSource::kTouch), 2u);
  ASSERT_NE(other.heap.allocate(1), nullptr);
  EXPECT_EQ(other_pages.calls(FakePageSource::kTouch), 2u) << "it is backed now";
}

TEST_F(PageHeapTest, ARegionThatBeginsAnewIsTouchedOnceMoreWhereTheKernelMayUseHugePages) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kAuto);
  for (int i = 0; i < 16; ++i) ASSERT_NE(other.heap.allocate(kPagesPerRegion), nullptr);
  Span* first = other.heap.allocate(1);
  Span* const second = other.heap.allocate(1);
  ASSERT_EQ(other_pages.calls(FakePageSource::kTouch), 1u);
  other.heap.deallocate(*second);
  other.heap.decommit(1);  // small pages from now on
  other.heap.deallocate(*first);
  other.heap.decommit(~std::size_t{0});
  const std::size_t asked = other_pages.calls(FakePageSource::kAdviseHuge);
  other_pages.make_touches_take(2'000'000);
  first = other.heap.allocate(1);
  EXPECT_EQ(other_pages.calls(FakePageSource::kTouch), 2u);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseHuge), asked + 1);
  EXPECT_EQ(other.heap.idle_pages(), kPagesPerRegion - 1);
  // Regions also keep small pages while the pause lasts.
  other.heap.decommit(1);
  other.heap.deallocate(*first);
  other.heap.decommit(~std::size_t{0});
  first = other.heap.allocate(1);
  EXPECT_EQ(other_pages.calls(FakePageSource::kTouch), 2u);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseHuge), asked + 1);
  EXPECT_EQ(other.heap.idle_pages(), 0u);
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, NeverAsksForHugePagesWhenToldSo) {
  for (int i = 0; i < 64; ++i) allocate(kPagesPerRegion);
  EXPECT_EQ(pages.calls(FakePageSource::kAdviseHuge), 0u);
  EXPECT_EQ(heap.statistics().huge_regions, 0u);
}

TEST_F(PageHeapTest, TellsTheKernelNothingOfHugePagesWhenTheyAreLeftToTheSystem) {
  FakePageSource other_pages;
  FakeAddressSpace other(other_pages, HugePages::kSystem);
  std::vector<Span*> spans;
  for (int i = 0; i < 40; ++i) spans.push_back(other.heap.allocate(kPagesPerRegion));
  other.heap.deallocate(*spans.back());
  EXPECT_EQ(other.heap.decommit(kPagesPerRegion), kPagesPerRegion);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseHuge), 0u);
  EXPECT_EQ(other_pages.calls(FakePageSource::kAdviseSmall), 0u);
  EXPECT_EQ(other.heap.statistics().huge_regions, 0u);
  other.heap.check_invariants();
}

TEST_F(PageHeapTest, IsNullWhenNothingCanBeMappedAndWorksOnAfterwards) {
  // Bookkeeping and regions are mapped by different calls. Whichever is refused, nothing is lost.
  for (std::size_t n = 1; n <= 5; ++n) {
    FakePageSource refusing;
    FakeAddressSpace other(refusing);
    std::vector<Span*> spans;
    refusing.refuse_from_call(n);
    for (int i = 0; i < 150; ++i) {
      Span* span = other.heap.allocate(kPagesPerRegion);
      other.heap.check_invariants();
      if (span == nullptr) break;
      write_content(span->start, kPageBytes, 3);
      spans.push_back(span);
    }
    EXPECT_GT(refusing.refused_calls(), 0u);
    refusing.refuse_nothing();
    for (int i = 0; i < 20; ++i) {
      Span* span = other.heap.allocate(kPagesPerRegion);
      ASSERT_NE(span, nullptr);
      write_content(span->start, kPageBytes, 3);
      spans.push_back(span);
    }
    other.heap.check_invariants();
    for (Span* span : spans) {
      ASSERT_TRUE(has_content(span->start, kPageBytes, 3));
      other.heap.deallocate(*span);
    }
    EXPECT_EQ(other.heap.statistics().used_pages, 0u);
    other.heap.check_invariants();
  }
}

TEST_F(PageHeapTest, AsksTheKernelOnceAfterItWasRefused) {
  pages.refuse_from_call(1);
  EXPECT_EQ(heap.allocate(1), nullptr);
  for (int i = 0; i < 10; ++i) {
    const std::size_t before = pages.fallible_calls();
    EXPECT_EQ(heap.allocate(1), nullptr);
    EXPECT_EQ(pages.fallible_calls(), before + 1);
  }
  pages.refuse_nothing();
  EXPECT_NE(heap.allocate(1), nullptr);
}

TEST_F(PageHeapTest, StepsOverAddressesThatSomebodyElseUses) {
  const std::uintptr_t start = free_addresses();
  void* const taken = reinterpret_cast<void*>(start + 2 * kRegionBytes);
  ASSERT_EQ(os::kernel_pages().map_at(taken, kRegionBytes), os::MapAt::kMapped);
  heap.configure(start, HugePages::kNever);
  std::memset(taken, 0x5a, kRegionBytes);
  for (int i = 0; i < 20; ++i) {
    Span& span = allocate(kPagesPerRegion);
    ASSERT_NE(span.start, taken);
    ASSERT_TRUE(reads_zero(span));
    write_content(span.start, span.bytes(), 1);
  }
  for (std::size_t i = 0; i < kRegionBytes; ++i) ASSERT_EQ(static_cast<char*>(taken)[i], 0x5a);
  os::kernel_pages().unmap(taken, kRegionBytes);
}

/// The regions of a chunk, in the order in which they come into use.
std::vector<std::size_t> order_of_regions(std::uint64_t seed, std::size_t count) {
  FakePageSource pages;
  FakeAddressSpace space(pages);
  const std::uintptr_t first = free_addresses();
  space.heap.configure(first, HugePages::kNever, SIZE_MAX, seed);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    Span* const span = space.heap.allocate(kPagesPerRegion);
    if (span == nullptr) break;
    order.push_back((reinterpret_cast<std::uintptr_t>(span->start) - first) / kRegionBytes);
  }
  space.heap.check_invariants();
  return order;
}

TEST_F(PageHeapTest, RegionsComeIntoUseUpwardsWithoutASeed) {
  EXPECT_EQ(order_of_regions(0, 8), (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(PageHeapTest, ASeedDecidesInWhichOrderEachRegionOfAChunkComesIntoUse) {
  // Each order needs an address space, for which an emulator needs some 40 MB of bookkeeping.
  constexpr std::uint64_t kSeeds = os::kIsEmulated ? 8 : 64;
  std::set<std::vector<std::size_t>> orders;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::vector<std::size_t> order = order_of_regions(seed, 8);
    EXPECT_EQ(order, order_of_regions(seed, 8)) << "the same each time";
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7})) << "seed " << seed;
  }
  EXPECT_GE(orders.size(), kSeeds - kSeeds / 16);
}

TEST_F(PageHeapTest, UnmapsWhatItNeverUsedInWhateverOrderItUsedTheRest) {
  heap.configure(free_addresses(), HugePages::kNever, SIZE_MAX, 1);
  const std::size_t before = pages.mapped_bytes() - space.metadata.mapped_bytes();
  for (int i = 0; i < 11; ++i) allocate(kPagesPerRegion);
  heap.discard();
  EXPECT_EQ(pages.mapped_bytes() - space.metadata.mapped_bytes(), before);
}

TEST_F(PageHeapTest, MapsNoMoreAtATimeThanItMay) {
  heap.configure(free_addresses(), HugePages::kNever, 3 * kRegionBytes);
  for (std::size_t regions = 1; regions <= 30; ++regions) {
    allocate(kPagesPerRegion);
    const PageHeap::Statistics now = heap.statistics();
    EXPECT_EQ(now.regions, regions);
    EXPECT_LT(now.reserved_bytes, 3 * kRegionBytes);
    EXPECT_LE(now.reserved_bytes, regions / 4 * kRegionBytes) << "nor much before it is used";
  }
  heap.configure(free_addresses(), HugePages::kNever, 0);
  allocate(kPagesPerRegion);
  EXPECT_EQ(heap.statistics().reserved_bytes, 0u) << "a region at a time is the least";
}

/// Random operations against a model: the set of live runs and their contents.
class PageHeapRandomTest : public SeededTest {
 protected:
  struct Run {
    Span* span;
    std::uint64_t tag;
  };

  void run(HugePages huge_pages, int steps) {
    FakePageSource pages;
    FakeAddressSpace space(pages, huge_pages);
    PageHeap& heap = space.heap;
    heap.set_most_shards(3);
    constexpr unsigned kPlaces = 6;
    PagePlace places[kPlaces] = {PagePlace(),  PagePlace(),  PagePlace(),
                                 PagePlace(0), PagePlace(1), PagePlace(2)};
    std::map<char*, Run> live;
    std::size_t used_pages = 0;
    for (int step = 0; step < steps; ++step) {
      SCOPED_TRACE(step);
      const std::size_t action = below(100);
      if (live.empty() || (action < 45 && used_pages < 64 * kPagesPerRegion)) {
        const auto count =
            static_cast<unsigned>(1 + (below(4) == 0 ? below(kPagesPerRegion) : below(4)));
        const unsigned alignment = below(5) == 0 ? 1u << below(6) : 1u;
        const bool is_to_grow = alignment == 1 && below(8) == 0;
        Span* span = is_to_grow ? heap.allocate_to_grow(count, places[below(kPlaces)]) : nullptr;
        if (span == nullptr)
          span = heap.allocate(count, alignment, PageHeap::Pages::kAny, places[below(kPlaces)]);
        ASSERT_NE(span, nullptr);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(span->start) % (alignment * kPageBytes), 0u);
        ASSERT_EQ(span->bytes(), count * kPageBytes);
        if (span->is_zero) {
          ASSERT_TRUE(reads_zero(*span));
        }
        auto above = live.lower_bound(span->start);
        if (above != live.end()) {
          ASSERT_LE(span->start + span->bytes(), above->first);
        }
        if (above != live.begin()) {
          --above;
          ASSERT_LE(above->first + above->second.span->bytes(), span->start);
        }
        const std::uint64_t tag = random();
        write_content(span->start, span->bytes(), tag);
        live.emplace(span->start, Run{span, tag});
        used_pages += count;
      } else if (action < 80) {
        auto it = choose(live);
        ASSERT_TRUE(has_content(it->first, it->second.span->bytes(), it->second.tag));
        used_pages -= it->second.span->page_count;
        if (below(2) == 0) {
          ASSERT_EQ(heap.keep(*space.map.region_of(it->first), *it->second.span), nullptr);
        } else {
          heap.deallocate(*it->second.span);
        }
        live.erase(it);
      } else if (action < 92) {
        auto it = choose(live);
        Span& span = *it->second.span;
        const auto wanted = static_cast<unsigned>(1 + below(kPagesPerRegion));
        const unsigned before = span.page_count;
        const bool resized = heap.resize(span, wanted);
        ASSERT_EQ(span.page_count, resized ? wanted : before);
        ASSERT_TRUE(resized || wanted > before);
        ASSERT_EQ(space.map.span_of(it->first), &span);
        ASSERT_TRUE(has_content(it->first, std::min(wanted, before) * kPageBytes, it->second.tag));
        write_content(it->first, span.bytes(), it->second.tag);
        used_pages += span.page_count;
        used_pages -= before;
      } else if (action < 96) {
        const std::size_t wanted = below(100);
        const std::size_t idle = heap.idle_pages();
        ASSERT_EQ(heap.decommit(wanted), std::min(wanted, idle));
        ASSERT_EQ(heap.idle_pages(), idle - std::min(wanted, idle));
      } else {
        const std::size_t idle = heap.idle_pages();
        const std::size_t released = heap.decommit_unneeded();
        ASSERT_EQ(heap.idle_pages(), idle - released);
      }
      ASSERT_EQ(heap.statistics().used_pages, used_pages);
      heap.check_invariants();
      if (HasFailure()) return;
    }
    for (auto& [start, run] : live) {
      ASSERT_TRUE(has_content(start, run.span->bytes(), run.tag));
      heap.deallocate(*run.span);
    }
    heap.check_invariants();
    heap.decommit(~std::size_t{0});
    ASSERT_EQ(heap.statistics().idle_pages, 0u);
    ASSERT_EQ(heap.statistics().used_pages, 0u);
    heap.check_invariants();
  }

 private:
  template <typename Map>
  typename Map::iterator choose(Map& map) {
    auto it = map.lower_bound(
        reinterpret_cast<char*>(map.begin()->first) +
        below(static_cast<std::size_t>(map.rbegin()->first - map.begin()->first) + 1));
    return it;
  }
};

TEST_F(PageHeapRandomTest, SpansNeverOverlapAndKeepTheirContents) { run(HugePages::kNever, 6000); }
TEST_F(PageHeapRandomTest, SpansOfHugeRegionsNeverOverlapAndKeepTheirContents) {
  run(HugePages::kAlways, 3000);
}

}  // namespace
}  // namespace strata
