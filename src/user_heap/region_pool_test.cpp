#include "user_heap/region_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "base/memory_limit.h"
#include "base/metadata_arena.h"
#include "os/fake_page_source.h"
#include "span/heap_addresses.h"
#include "span/huge_heap.h"
#include "span/page_heap.h"

namespace strata {
namespace {

/// Has addresses for tables, but none for regions while the test says so.
struct PagesWithoutRegions final : os::FakePageSource {
  os::MapAt map_at(void* address, std::size_t bytes) noexcept override {
    return has_regions ? FakePageSource::map_at(address, bytes) : os::MapAt::kNoMemory;
  }
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    return has_regions ? FakePageSource::map_aligned(bytes, alignment) : nullptr;
  }
  bool has_regions = false;
};

TEST(RegionPool, ThatCannotStartKeepsTablesAloneAndCanBeTriedAgain) {
  PagesWithoutRegions pages;
  PageMap map;
  RegionPool pool(map, pages);
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(pool.start(0));
    EXPECT_EQ(pages.mapped_bytes(), map.reserved_bytes());
    EXPECT_EQ(map.limit(), 0u);
  }
  pages.has_regions = true;
  ASSERT_TRUE(pool.start(0));
  void* const region = pool.map_aligned(kRegionBytes, kRegionBytes);
  ASSERT_NE(region, nullptr);
  EXPECT_TRUE(pool.unmap(region, kRegionBytes));
  map.discard(pages);
}

struct StartedRegionPool : ::testing::Test {
  PagesWithoutRegions pages;
  PageMap map;
  RegionPool pool{map, pages};

  void SetUp() override {
    pages.has_regions = true;
    ASSERT_TRUE(pool.start(0));
  }
  void TearDown() override { map.discard(pages); }
};

TEST_F(StartedRegionPool, ARegionWhoseMemoryIsLockedServesTheNextHeapAndReadsAsZero) {
  auto* const region = static_cast<char*>(pool.map_aligned(kRegionBytes, kRegionBytes));
  ASSERT_NE(region, nullptr);
  std::memset(region, 1, kRegionBytes);
  pages.refuse_decommits(true);
  EXPECT_TRUE(pool.unmap(region, kRegionBytes));
  EXPECT_EQ(pool.statistics().waiting, pool.statistics().regions);
  EXPECT_EQ(pool.map_aligned(kRegionBytes, kRegionBytes), region);
  EXPECT_EQ(std::count(region, region + kRegionBytes, 0), static_cast<long>(kRegionBytes));
}

TEST_F(StartedRegionPool, WhatWaitsIsUnmappedOnDemandAndMappedAgainWhereItWas) {
  std::set<void*> regions;
  for (int i = 0; i < 100; ++i) regions.insert(pool.map_aligned(kRegionBytes, kRegionBytes));
  ASSERT_EQ(regions.count(nullptr), 0u);
  for (void* const region : regions) EXPECT_TRUE(pool.unmap(region, kRegionBytes));
  const RegionPool::Statistics before = pool.statistics();
  const std::size_t mapped = pages.mapped_bytes();
  EXPECT_EQ(pool.unmap_waiting(1), kRegionBytes);
  // Those that were never in use go as well.
  EXPECT_EQ(pool.unmap_waiting(SIZE_MAX), (before.waiting - 1) * kRegionBytes);
  EXPECT_EQ(pages.mapped_bytes(), mapped - before.waiting * kRegionBytes);
  EXPECT_EQ(pool.statistics().regions, before.regions - before.waiting);
  EXPECT_EQ(pool.statistics().waiting, 0u);
  for (std::size_t i = 0; i < before.waiting; ++i)
    regions.erase(pool.map_aligned(kRegionBytes, kRegionBytes));
  EXPECT_TRUE(regions.empty());
  EXPECT_EQ(pages.mapped_bytes(), mapped);
}

TEST_F(StartedRegionPool, APlaceThatSomebodyElseHasIsGivenUpAndTheNextOneTaken) {
  std::vector<void*> regions;
  while (regions.empty() || pool.statistics().waiting != 0)
    regions.push_back(pool.map_aligned(kRegionBytes, kRegionBytes));
  for (void* const region : regions) pool.unmap(region, kRegionBytes);
  EXPECT_EQ(pool.unmap_waiting(SIZE_MAX), regions.size() * kRegionBytes);
  // The first one was unmapped last.
  ASSERT_EQ(pages.map_at(regions.front(), os::page_bytes()), os::MapAt::kMapped);
  std::set<void*> again;
  for (std::size_t i = 1; i < regions.size(); ++i)
    again.insert(pool.map_aligned(kRegionBytes, kRegionBytes));
  EXPECT_EQ(again, std::set<void*>(regions.begin() + 1, regions.end()));
  EXPECT_EQ(pool.statistics().regions, regions.size() - 1);
  for (int i = 0; i < 300; ++i) {
    void* const region = pool.map_aligned(kRegionBytes, kRegionBytes);
    EXPECT_NE(region, nullptr);
    EXPECT_NE(region, regions.front());
    EXPECT_TRUE(again.insert(region).second);
  }
}

/// A heap over the pool, with some free regions.
struct HeapOverRegionPool : StartedRegionPool {
  MemoryLimit limit;
  MetadataArena metadata{pages, &limit};
  PageHeap heap{map, metadata, limit, pool, 1};

  void SetUp() override {
    StartedRegionPool::SetUp();
    heap.configure(HeapAddresses::kNone, HugePages::kNever, kRegionBytes);
    std::vector<Span*> spans;
    for (int i = 0; i < 4; ++i) spans.push_back(heap.allocate(kPagesPerRegion));
    ASSERT_EQ(pool.statistics().waiting, 0u);
    for (Span* const span : spans) heap.deallocate(*span);
  }
};

TEST_F(HeapOverRegionPool, FreeRegionsThatTheKernelCannotUnmapStayTheHeaps) {
  pages.refuse_unmaps(true);
  EXPECT_EQ(heap.unmap(SIZE_MAX), 0u);
  EXPECT_EQ(heap.statistics().regions, 4u);
  EXPECT_EQ(pool.statistics().waiting, 0u);
  heap.check_invariants();
  pages.refuse_unmaps(false);
  EXPECT_EQ(heap.unmap(kRegionBytes + 1), 2 * kRegionBytes);
  EXPECT_EQ(pool.statistics().regions, 2u);
  heap.check_invariants();
}

TEST_F(HeapOverRegionPool, WhatIsInNoHeapIsUnmappedFirst) {
  void* const waiting = pool.map_aligned(kRegionBytes, kRegionBytes);
  pool.unmap(waiting, kRegionBytes);
  const std::size_t in_no_heap = pool.statistics().waiting * kRegionBytes;
  EXPECT_EQ(heap.unmap(in_no_heap), in_no_heap);
  EXPECT_EQ(heap.statistics().regions, 4u);
  EXPECT_EQ(heap.unmap(SIZE_MAX), 4 * kRegionBytes);
  EXPECT_EQ(pool.statistics().regions, 0u);
}

TEST_F(StartedRegionPool, AtALimitOfAddressesAHugeBlockGetsThoseOfFreeRegions) {
  MemoryLimit limit;
  MetadataArena metadata(pages, &limit);
  PageHeap heap(map, metadata, limit, pool, 1);
  heap.configure(HeapAddresses::kNone, HugePages::kNever, kRegionBytes);
  HugeHeap huge(heap, metadata, pages);
  huge.deallocate(huge.allocate(2 * kRegionBytes, 1).address);
  huge.release_all();
  pages.limit_mapped_bytes(pages.mapped_bytes() + 20 * kRegionBytes);
  std::vector<Span*> spans;
  while (Span* const span = heap.allocate(kPagesPerRegion)) spans.push_back(span);
  EXPECT_GE(spans.size(), 18u);
  for (Span* const span : spans) heap.deallocate(*span);
  void* const block = huge.allocate(15 * kRegionBytes, 1).address;
  EXPECT_NE(block, nullptr);
  huge.deallocate(block);
  huge.release_all();
  std::size_t again = 0;
  while (heap.allocate(kPagesPerRegion) != nullptr) ++again;
  EXPECT_EQ(again, spans.size());
  heap.check_invariants();
}

TEST_F(StartedRegionPool, AsksForSmallPagesWhereAnythingMayHaveHugeOnes) {
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseSmall), 1u) << "of its first chunk";
  void* const region = pool.map_aligned(kRegionBytes, kRegionBytes);
  pool.advise_small(region, kRegionBytes);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseSmall), 1u) << "it has small ones";
  pool.advise_huge(region, kRegionBytes);
  pool.advise_small(region, kRegionBytes);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseSmall), 2u);
}

TEST_F(StartedRegionPool, AsksTheKernelOnceAfterItWasRefused) {
  pages.refuse_from_call(1);
  while (pool.map_aligned(kRegionBytes, kRegionBytes) != nullptr) {
  }
  const std::size_t calls = pages.fallible_calls();
  EXPECT_EQ(pool.map_aligned(kRegionBytes, kRegionBytes), nullptr);
  EXPECT_EQ(pages.fallible_calls(), calls + 1);
  pages.refuse_nothing();
  EXPECT_NE(pool.map_aligned(kRegionBytes, kRegionBytes), nullptr);
}

TEST_F(StartedRegionPool, AChunkGoesBackThatNothingDescribesAndOneRegionIsTriedNext) {
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {  // the page map is opened for 2048 at a time
    const std::size_t mapped = pages.mapped_bytes();
    const std::size_t regions = pool.statistics().regions;
    pages.refuse_call(2);  // what follows the mapping of a chunk, if anything does
    const void* const region = pool.map_aligned(kRegionBytes, kRegionBytes);
    pages.refuse_nothing();
    if (region != nullptr) continue;
    ++refused;
    EXPECT_EQ(pages.mapped_bytes(), mapped);
    ASSERT_NE(pool.map_aligned(kRegionBytes, kRegionBytes), nullptr);
    EXPECT_EQ(pool.statistics().regions, regions + 1);
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace strata
