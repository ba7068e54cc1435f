// Heaps whose blocks lie in pages that the program provides.

#include <strata/heap.hpp>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "os/child_in_test.h"
#include "os/emulation.h"
#include "user_heap/buffer_pages_test.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

Heap::Options over(const BufferPages& pages) {
  Heap::Options options = named("pool");
  options.pages = pages.source();
  return options;
}

/// Blocks of each kind: small, large, huge.
constexpr std::size_t kSizes[] = {100, 30'000, 300'000, 3 << 20, 5'000'000};

TEST(HeapPages, AllBlocksLieInThePagesOfTheSourceAndEachOfItsBytesIsAccounted) {
  BufferPages pages;
  {
    Heap heap(over(pages));
    EXPECT_EQ(pages.given_bytes(), 0u) << "before the first allocation";
    for (const std::size_t bytes : kSizes) {
      void* p = heap.allocate_zeroed(bytes);
      ASSERT_NE(p, nullptr) << bytes;
      EXPECT_TRUE(BufferPages::holds(p) &&
                  BufferPages::holds(static_cast<char*>(p) + heap.usable_size(p) - 1));
      EXPECT_TRUE(heap.owns(p));
      std::memset(p, 1, bytes);
      p = heap.reallocate(p, bytes + bytes / 2);
      ASSERT_NE(p, nullptr);
      EXPECT_TRUE(BufferPages::holds(p));
      EXPECT_EQ(static_cast<char*>(p)[bytes - 1], 1);
      heap.check_invariants();
      const Heap::Statistics now = heap.statistics();
      EXPECT_EQ(now.mapped, pages.given_bytes() + now.metadata);
      if (bytes % 2 == 0) heap.deallocate(p);
    }
  }
  EXPECT_EQ(pages.given_bytes(), 0u);
}

TEST(HeapPages, ABlockBeyond1MiBGoesBackAsItIsFreedAndTheOthersPagesAsTheHeapEnds) {
  BufferPages pages;
  std::optional<Heap> heap(over(pages));
  void* small = heap->allocate(100);
  EXPECT_EQ(pages.given_bytes(), BufferPages::kUnitBytes);
  void* huge = heap->allocate(5'000'000);
  EXPECT_GT(pages.given_bytes(), BufferPages::kUnitBytes + 5'000'000);
  EXPECT_TRUE(heap->resize_in_place(huge, 2'000'000)) << "what shrinks stays as it is";
  heap->deallocate(huge);
  heap->deallocate(small);
  heap->release_memory();
  EXPECT_EQ(pages.given_bytes(), BufferPages::kUnitBytes);
  (void)heap->allocate(5'000'000);
  heap->reset();
  EXPECT_EQ(pages.given_bytes(), BufferPages::kUnitBytes);
  heap.reset();
  EXPECT_EQ(pages.given_bytes(), 0u);
}

TEST(HeapPages, AFullSourceRefusesAndServesAsMuchAgainAfterTheFrees) {
  BufferPages pages;
  for (const std::size_t bytes : kSizes) {
    Heap heap(over(pages));
    std::size_t counts[2];
    for (std::size_t& count : counts) {
      std::vector<void*> live;
      errno = 0;
      while (void* p = heap.allocate(bytes)) {
        ASSERT_EQ(errno, 0);
        std::memset(p, 1, bytes);
        live.push_back(p);
      }
      EXPECT_EQ(errno, ENOMEM);
      EXPECT_GT(live.size() * bytes, BufferPages::kUnits * BufferPages::kUnitBytes / 2) << bytes;
      count = live.size();
      for (void* p : live) heap.deallocate(p);
      heap.check_invariants();
      EXPECT_EQ(heap.statistics().live, 0u);
    }
    EXPECT_EQ(counts[0], counts[1]) << bytes;
  }
}

TEST(HeapPages, ARefusalOfAnyCallLeavesTheHeapSound) {
  for (const Heap::Checks checks :
       {Heap::Checks::kBasic, Heap::Checks::kFull, Heap::Checks::kFrees}) {
    std::size_t n = 1;
    for (bool is_over = false; !is_over; ++n) {
      BufferPages pages;
      Heap::Options options = over(pages);
      options.checks = checks;
      Heap heap(options);
      pages.refuse_call(n);
      std::vector<std::pair<void*, std::size_t>> live;
      for (int i = 0; i < 2; ++i) {
        for (const std::size_t bytes : kSizes) {
          if (void* p = heap.allocate_zeroed(bytes)) live.emplace_back(p, bytes);
          heap.check_invariants();
        }
        for (auto& [p, bytes] : live) {
          ASSERT_EQ(*static_cast<char*>(p), 0);
          if (void* moved = heap.reallocate(p, bytes + 200'000)) p = moved, bytes += 200'000;
        }
      }
      for (const auto& [p, bytes] : live) heap.deallocate(p, bytes);
      heap.check_invariants();
      EXPECT_EQ(heap.statistics().live, 0u);
      is_over = !pages.has_refused();
    }
    EXPECT_GT(n, 8u) << "calls of map()";
  }
}

TEST(HeapPages, WhatIsIdleIsPurgedAndReadsAsZero) {
  BufferPages pages;
  Heap heap(over(pages));
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> live;
    for (int i = 0; i < 40; ++i) {
      live.push_back(heap.allocate_zeroed(200'000));
      const auto* bytes = static_cast<const unsigned char*>(live.back());
      ASSERT_TRUE(std::all_of(bytes, bytes + 200'000, [](unsigned char c) { return c == 0; }));
      std::memset(live.back(), 0xee, 200'000);
    }
    for (void* p : live) heap.deallocate(p);
    const std::size_t held = heap.statistics().held;
    const std::size_t purged = pages.purged_bytes();
    EXPECT_TRUE(heap.release_memory());
    EXPECT_EQ(pages.purged_bytes() - purged, held - heap.statistics().held);
    EXPECT_GT(pages.purged_bytes() - purged, std::size_t{40} * 200'000);
    heap.check_invariants();
  }
}

TEST(HeapPages, WithoutPurgeIdleMemoryStaysWithTheHeap) {
  BufferPages pages(BufferPages::Purges::kNo);
  Heap::Options options = over(pages);
  options.reclaim_delay_ms = 2;
  options.soft_limit_bytes = 4 * kMiB;
  Heap heap(options);
  std::vector<void*> live;
  for (int i = 0; i < 40; ++i) live.push_back(heap.allocate(200'000));
  for (void* p : live) std::memset(p, 1, 200'000);
  for (void* p : live) heap.deallocate(p);
  heap.release_memory();
  EXPECT_GT(heap.statistics().free, std::size_t{40} * 200'000);
  const auto* zeroed = static_cast<const unsigned char*>(heap.allocate_zeroed(200'000));
  EXPECT_TRUE(std::all_of(zeroed, zeroed + 200'000, [](unsigned char c) { return c == 0; }));
  heap.check_invariants();
}

TEST(HeapPages, ItsLimitsAndGuardsHoldAsAnyHeaps) {
  BufferPages pages;
  Heap::Options options = over(pages);
  options.hard_limit_bytes = 8 * kMiB;
  options.guard_rate = 20;
  options.huge_pages = Heap::HugePages::kAlways;  // has no effect
  Heap heap(options);
  std::size_t outside = 0;
  while (void* p = heap.allocate(1000)) {
    std::memset(p, 1, 1000);
    outside += !BufferPages::holds(p);
  }
  EXPECT_GT(outside, 0u) << "guarded blocks lie elsewhere";
  EXPECT_LE(heap.statistics().peak, options.hard_limit_bytes);
  EXPECT_GT(heap.statistics().refusals, 0u);
  heap.check_invariants();
}

TEST(HeapPages, AHeapThatRefusedPurgesHaveTakenAboveItsHardLimitIsSound) {
  BufferPages pages;
  Heap::Options options;
  options.pages = pages.source();
  options.hard_limit_bytes = 4 * kMiB;
  options.reclaims = false;
  Heap heap(options);
  std::vector<void*> blocks;
  for (std::size_t round = 0; round < 40; ++round) {
    while (void* const p = heap.allocate(2048 + 100 * round)) blocks.push_back(p);
    for (std::size_t i = round % 3; i < blocks.size(); i += 3) {
      heap.deallocate(std::exchange(blocks[i], nullptr));
    }
    heap.release_memory();
    pages.refuse_purges(round % 2 != 0);
    heap.check_invariants();
  }
  EXPECT_GT(heap.statistics().peak, options.hard_limit_bytes);
}

TEST(HeapPages, SeveralHeapsAndThreadsShareASource) {
  BufferPages pages;
  std::vector<Heap> heaps;
  for (int i = 0; i < 3; ++i) heaps.emplace_back(over(pages));
  run_together(4, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    std::vector<std::pair<Heap*, void*>> live;
    for (int i = 0; i < 3000; ++i) {
      Heap& heap = heaps[random() % heaps.size()];
      if (void* p = heap.allocate(random() % (std::size_t{16} << random() % 17))) {
        *static_cast<char*>(p) = 1;
        live.emplace_back(&heap, p);
      }
      if (live.size() > 40 || (i % 500 == 0 && !live.empty())) {
        std::swap(live[random() % live.size()], live.back());
        live.back().first->deallocate(live.back().second);
        live.pop_back();
      }
      if (i % 500 == 0) heap.release_memory();
    }
    for (const auto& [heap, p] : live) heap->deallocate(p);
  });
  for (Heap& heap : heaps) {
    heap.check_invariants();
    EXPECT_EQ(heap.statistics().live, 0u);
  }
}

TEST(HeapPages, AHeapOverASourceWorksOnBothSidesOfAFork) {
  BufferPages pages;
  Heap heap(over(pages));
  auto* p = static_cast<char*>(heap.allocate(300'000));
  std::memset(p, 1, 300'000);
  const int status = os::status_in_child([&] {
    p[0] = 2;
    heap.deallocate(p);
    void* another = heap.allocate(3 * kMiB);
    heap.check_invariants();
    return another != nullptr && heap.statistics().live == 3 * kMiB ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(p[0], 1);
  heap.deallocate(p);
}

TEST(HeapPages, ASourceThatCannotMapOrUnmapIsRefusedWithASentence) {
  BufferPages pages;
  for (const bool lacks_map : {true, false}) {
    Heap::PageSource source = *pages.source();
    if (lacks_map) {
      source.map = nullptr;
    } else {
      source.unmap = nullptr;
    }
    Heap::Options options;
    options.pages = &source;
    const char* reason = nullptr;
    EXPECT_FALSE(Heap::try_create(options, &reason).has_value());
    EXPECT_STREQ(reason, "Heap: its page source lacks map or unmap");
  }
}

/// A source that has one range and gives it once.
struct LastRange {
  static void* map(void* self, std::size_t, std::size_t) {
    return std::exchange(static_cast<LastRange*>(self)->range, nullptr);
  }
  void* range;
};

TEST(HeapPages, ARefusalIsNoRangeThoughTheLowestAddressesAreAHeaps) {
  // The second of all regions: a range of 3 MiB from nullptr on would overlap it.
  constexpr std::size_t kBytes = BufferPages::kUnitBytes;
  void* const low = mmap(reinterpret_cast<void*>(kBytes), kBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reinterpret_cast<std::uintptr_t>(low) != kBytes) {
    munmap(low, kBytes);
    GTEST_SKIP() << "something lies there";
  }
  LastRange last{low};
  Heap::PageSource source;
  source.context = &last;
  source.map = LastRange::map;
  source.unmap = [](void*, void*, std::size_t) {};
  Heap::Options options = named("low");
  options.pages = &source;
  {
    Heap heap(options);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(heap.allocate(100)) / kBytes, 1u);
    EXPECT_EQ(heap.allocate(3 * kMiB), nullptr);
  }
  munmap(low, kBytes);
}

TEST(HeapPagesDeathTest, ARangeThatIsNotAlignedOrInUseIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = os::kSafestDeathTests;
  static char* g_begin;
  BufferPages pages;
  Heap first(over(pages));
  g_begin = static_cast<char*>(first.allocate(BufferPages::kUnitBytes / 2));
  Heap::PageSource source;
  source.unmap = [](void*, void*, std::size_t) {};
  source.map = [](void*, std::size_t, std::size_t) -> void* { return g_begin; };
  Heap::Options options = named("tenant");
  options.pages = &source;
  EXPECT_DEATH(static_cast<void>(Heap(options).allocate(100)),
               "strata: the page source of the heap 'tenant' gave 0x.*: blocks of a heap lie there "
               "already");
  EXPECT_DEATH(static_cast<void>(Heap(options).allocate(3 * kMiB)), "lie there already");
  source.map = [](void*, std::size_t, std::size_t) -> void* { return g_begin + 4096; };
  EXPECT_DEATH(
      static_cast<void>(Heap(options).allocate(100)),
      "the page source of the heap 'tenant' gave 0x.*: it is not aligned to 2097152 bytes");
}

}  // namespace
}  // namespace strata
