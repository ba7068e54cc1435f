#include "user_heap/bookkeeping_pages.h"
#include <strata/heap.hpp>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/access_test.h"
#include "os/fake_page_source.h"
#include "user_heap/heap_table.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

using os::FakePageSource;

constexpr std::size_t kUnit = BookkeepingPages::kUnitBytes;

/// The source's windows count as mapped as soon as they are reserved.
struct Bookkeeping {
  FakePageSource kernel;
  BookkeepingPages pages{kernel};

  char* map(std::size_t bytes) { return static_cast<char*>(pages.map(bytes)); }
};

TEST(BookkeepingPages, GiveZeroesAndGiveThemAgainWhenTheyHaveComeBack) {
  Bookkeeping all;
  for (const std::size_t bytes : {kUnit, os::page_bytes(), 3 * kUnit, 16 * kUnit, 17 * kUnit}) {
    for (int round = 0; round < 3; ++round) {
      char* const p = all.map(bytes);
      ASSERT_NE(p, nullptr);
      EXPECT_TRUE(reads_as(p, bytes, 0));
      std::memset(p, 'x', bytes);
      EXPECT_TRUE(all.pages.unmap(p, bytes));
    }
  }
  char* const p = all.map(kUnit);
  EXPECT_TRUE(all.pages.unmap(p, kUnit));
  EXPECT_EQ(all.map(kUnit), p) << "the lowest that is free";
}

TEST(BookkeepingPages, TheLowestThatIsFreeIsGivenFirstAndMadeWritableOnce) {
  Bookkeeping all;
  std::vector<char*> ranges;
  for (int i = 0; i < 200; ++i) ranges.push_back(all.map(kUnit));
  const std::size_t commits = all.kernel.calls(FakePageSource::kCommit);
  for (const std::size_t i : {150u, 3u, 70u}) EXPECT_TRUE(all.pages.unmap(ranges[i], kUnit));
  for (const std::size_t i : {3u, 70u, 150u}) EXPECT_EQ(all.map(kUnit), ranges[i]);
  EXPECT_EQ(all.kernel.calls(FakePageSource::kCommit), commits);
}

TEST(BookkeepingPages, MemoryThatTheKernelKeepsIsClearedAndGivenAgain) {
  Bookkeeping all;
  char* const p = all.map(kUnit);
  std::memset(p, 'x', kUnit);
  all.kernel.refuse_call(1);
  EXPECT_TRUE(all.pages.unmap(p, kUnit));
  EXPECT_EQ(all.kernel.refused_calls(), 1u);
  EXPECT_EQ(all.map(kUnit), p);
  EXPECT_TRUE(reads_as(p, kUnit, 0));
}

TEST(BookkeepingPages, ThousandsOfRangesLieInADozenWindowsWhoseEndsAreInaccessible) {
  Bookkeeping all;
  std::vector<char*> ranges;
  for (int i = 0; i < 10'000; ++i) {
    ranges.push_back(all.map(i % 9 == 0 ? 2 * kUnit : kUnit));
    ASSERT_NE(ranges.back(), nullptr);
  }
  EXPECT_EQ(all.kernel.calls(FakePageSource::kReserve), 11u) << "of 16,384 units in all";
  EXPECT_EQ(all.kernel.calls(FakePageSource::kMap), 0u);
  const std::vector<os::Mapping> mappings = os::mappings();
  std::set<std::uintptr_t> found;
  for (std::size_t i = 1; i + 1 < mappings.size(); ++i) {
    const auto is_in = [&](char* p) { return mappings[i].holds(p); };
    if (std::none_of(ranges.begin(), ranges.end(), is_in)) continue;
    found.insert(mappings[i].start);
    EXPECT_EQ(mappings[i].access, "rw-p");
    EXPECT_EQ(mappings[i - 1].access, "---p");
    EXPECT_EQ(mappings[i - 1].end, mappings[i].start);
    EXPECT_EQ(mappings[i + 1].access, "---p");
    EXPECT_EQ(mappings[i + 1].start, mappings[i].end);
  }
  EXPECT_LE(found.size(), 11u);
}

TEST(BookkeepingPages, OnlyWhatWasAskedForIsWritable) {
  Bookkeeping all;
  char* const p = all.map(kUnit);
  EXPECT_EQ(os::access_at(p + kUnit), "---p");
  char* const four = all.map(4 * kUnit);
  EXPECT_EQ(four, p + 4 * kUnit) << "aligned to as many units";
  EXPECT_EQ(os::access_at(four + 4 * kUnit), "---p");
  EXPECT_EQ(all.map(kUnit), p + kUnit);
  EXPECT_EQ(all.map(2 * kUnit), p + 2 * kUnit);
}

TEST(BookkeepingPages, WhatIsLargerThanTheFirstWindowHasInaccessiblePagesOfItsOwnAndIsUnmapped) {
  Bookkeeping all;
  constexpr std::size_t kLarge = BookkeepingPages::kLargestBytes + kUnit;
  char* const p = all.map(kLarge);
  EXPECT_EQ(all.kernel.calls(FakePageSource::kReserve), 0u);
  EXPECT_TRUE(os::lies_apart(p, kLarge, "rw-p"));
  EXPECT_TRUE(all.pages.unmap(p, kLarge));
  EXPECT_EQ(all.kernel.mapped_bytes(), 0u);
}

TEST(BookkeepingPages, WithoutAddressesForAWindowEachRangeHasInaccessiblePagesOfItsOwn) {
  Bookkeeping all;
  all.kernel.limit_mapped_bytes(4 * kUnit);
  std::vector<char*> ranges;
  while (char* const p = all.map(kUnit)) ranges.push_back(p);
  EXPECT_EQ(ranges.size(), 4u);
  for (char* p : ranges) {
    EXPECT_TRUE(os::lies_apart(p, kUnit, "rw-p"));
    EXPECT_TRUE(all.pages.unmap(p, kUnit));
  }
  EXPECT_EQ(all.kernel.mapped_bytes(), 0u);
}

TEST(BookkeepingPages, ARefusalIsAnAnswerAndNothingIsLost) {
  const auto run = [](Bookkeeping& all) {
    std::set<char*> given;
    for (int i = 0; i < 80; ++i) {
      char* p = all.map(kUnit);
      if (p == nullptr) p = all.map(kUnit);  // only the n-th call is refused
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(given.insert(p).second);
      std::memset(p, 'x', 100);
    }
    for (char* p : given) EXPECT_TRUE(all.pages.unmap(p, kUnit));
    for (std::size_t i = 0; i < given.size(); ++i) ASSERT_TRUE(reads_as(all.map(kUnit), 100, 0));
  };
  for (std::size_t n = 1;; ++n) {
    Bookkeeping all;
    all.kernel.refuse_call(n);
    run(all);
    if (all.kernel.refused_calls() == 0) break;
  }
}

struct BookkeepingPagesRandomTest : SeededTest {};

TEST_F(BookkeepingPagesRandomTest, RangesNeverOverlapAndReadAsZero) {
  Bookkeeping all;
  std::vector<std::pair<char*, std::size_t>> live;
  for (int i = 0; i < 1000; ++i) {
    if (live.size() < 200 && below(2) == 0) {
      const std::size_t page = os::page_bytes();
      const std::size_t bytes = std::max((1 + below(20)) * kUnit - below(2) * page, page);
      char* const p = all.map(bytes);
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(p[0] == 0 && p[bytes / 2] == 0 && p[bytes - 1] == 0);
      for (std::size_t at = 0; at < bytes; at += os::page_bytes()) p[at] = 'x';
      p[bytes / 2] = p[bytes - 1] = 'x';
      for (const auto& [other, other_bytes] : live)
        ASSERT_TRUE(p + bytes <= other || other + other_bytes <= p);
      live.emplace_back(p, bytes);
    } else if (!live.empty()) {
      std::swap(live[below(live.size())], live.back());
      all.pages.unmap(live.back().first, live.back().second);
      live.pop_back();
    }
  }
}

TEST(BookkeepingPages, ThreadsTakeAndGiveBackAtOnce) {
  Bookkeeping all;
  run_together(4, [&all](int t) {
    for (int round = 0; round < 200; ++round) {
      char* ranges[8];
      for (char*& p : ranges) {
        p = all.map(kUnit);
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(reads_as(p, 100, 0));
        std::memset(p, 'a' + t, 100);
      }
      for (char* p : ranges) {
        ASSERT_TRUE(reads_as(p, 100, static_cast<unsigned char>('a' + t)));
        all.pages.unmap(p, kUnit);
      }
    }
  });
}

// The bookkeeping of heaps.

/// Bookkeeping of all heaps: the malloc of each, and what its arena handed out last.
std::vector<const void*> bookkeeping_of_all_heaps() {
  std::vector<const void*> places;
  LockGuard guard(g_heap_table.lock());
  for (UserHeap* heap = g_heap_table.next_made(0); heap != nullptr;
       heap = g_heap_table.next_made(std::size_t{heap->number()} + 1)) {
    MallocInstance* const malloc = heap->malloc_if_made();
    places.push_back(malloc);
    places.push_back(malloc->engine().metadata().allocate(64));
    places.push_back(heap);
  }
  return places;
}

TEST(HeapBookkeeping, OfManyHeapsLiesBesideNoMemoryOfTheProgramAndTakesFewMappings) {
  constexpr int kHeaps = 500;
  constexpr std::size_t kBytes = 64 << 10;
  std::vector<Heap> heaps(kHeaps);
  std::vector<void*> neighbours;
  for (int i = 0; i < kHeaps; ++i) {
    ASSERT_NE(heaps[static_cast<std::size_t>(i)].allocate(100), nullptr);
    // A mapping of the program's, which the kernel tends to place beside the last one.
    neighbours.push_back(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(neighbours.back(), MAP_FAILED);
    if (i % 7 == 0) heaps[static_cast<std::size_t>(i / 2)] = Heap();  // ends, and leaves a gap
  }
  const std::vector<const void*> places = bookkeeping_of_all_heaps();
  EXPECT_GT(places.size(), 3u * 400);
  const std::vector<os::Mapping> mappings = os::mappings();
  std::set<std::uintptr_t> found;
  for (const void* place : places) {
    auto mapping = std::find_if(mappings.begin(), mappings.end(),
                                [place](const os::Mapping& each) { return each.holds(place); });
    ASSERT_NE(mapping, mappings.end());
    if (!found.insert(mapping->start).second) continue;
    ASSERT_TRUE(mapping != mappings.begin() && mapping + 1 != mappings.end());
    EXPECT_EQ(mapping->access, "rw-p");
    EXPECT_EQ((mapping - 1)->access, "---p") << place;
    EXPECT_EQ((mapping - 1)->end, mapping->start);
    EXPECT_EQ((mapping + 1)->access, "---p") << place;
    EXPECT_EQ((mapping + 1)->start, mapping->end);
  }
  EXPECT_LE(found.size(), 20u);
  for (void* neighbour : neighbours) munmap(neighbour, kBytes);
}

}  // namespace
}  // namespace strata
