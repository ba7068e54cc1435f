#include <strata/coalescing_heap.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "heap/heap_support_test.h"
#include "heap/size_bins.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

bool is_aligned(const void* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

std::size_t free_blocks(const CoalescingHeap& heap) {
  std::size_t count = 0;
  heap.walk([&](CoalescingHeap::Block block) { count += block.is_free; });
  return count;
}

TEST(SizeBins, EverySizeLiesBetweenTheSmallestOfItsBinAndOfTheNext) {
  for (std::uint32_t granules = 1; granules < 100'000; ++granules) {
    const std::uint32_t bin = size_bins::bin_of(granules);
    ASSERT_LE(size_bins::smallest_of(bin), granules);
    ASSERT_GT(size_bins::smallest_of(bin + 1), granules);
  }
}

TEST(SizeBins, ARequestIsServedByEveryBlockOfItsBin) {
  for (std::uint32_t granules = 1; granules < 100'000; ++granules) {
    const std::uint32_t bin = size_bins::bin_for(granules);
    ASSERT_GE(size_bins::smallest_of(bin), granules);
    ASSERT_LT(size_bins::smallest_of(bin - 1), granules);
    ASSERT_LE(size_bins::smallest_of(bin) - granules, granules / 16);
  }
}

TEST(CoalescingHeap, IsOneFreeBlockWhenFresh) {
  Region region(4096);
  EXPECT_EQ(free_blocks(region.heap), 1u);
  EXPECT_EQ(region.heap.live_blocks(), 0u);
  EXPECT_EQ(region.heap.used_bytes(), 0u);
  EXPECT_GE(region.heap.capacity_bytes(), 4096u - 48);
  EXPECT_EQ(region.heap.largest_free_block(), region.heap.capacity_bytes() - 8);
  region.heap.check_invariants();
}

TEST(CoalescingHeap, ServesItsWholeCapacityAsOneBlock) {
  Region region(4096);
  const std::size_t all = region.heap.largest_free_block();
  void* block = region.heap.allocate(all);
  ASSERT_NE(block, nullptr);
  std::memset(block, 0xff, all);
  EXPECT_EQ(region.heap.largest_free_block(), 0u);
  EXPECT_EQ(region.heap.allocate(1), nullptr);
  region.heap.check_invariants();
  region.heap.deallocate(block);
  EXPECT_EQ(region.heap.largest_free_block(), all);
}

TEST(CoalescingHeap, WhatItCallsTheLargestFreeBlockCanBeHad) {
  std::mt19937_64 random(seed_of_this_run());
  Region region(1 << 16);
  std::vector<void*> live;
  for (int step = 0; step < 2000; ++step) {
    if (live.empty() || random() % 2 == 0) {
      if (void* block = region.heap.allocate(random() % 3000)) live.push_back(block);
    } else {
      std::swap(live[random() % live.size()], live.back());
      region.heap.deallocate(live.back());
      live.pop_back();
    }
    const std::size_t largest = region.heap.largest_free_block();
    if (largest == 0) continue;
    void* block = region.heap.allocate(largest);
    ASSERT_NE(block, nullptr) << largest;
    region.heap.deallocate(block);
  }
}

TEST(CoalescingHeap, TriesOnlyTheFirstOfTheBinThatHasSmallerBlocksThanTheRequestToo) {
  Region region(8 + 16 + 67 * 16 + 8);
  CoalescingHeap& heap = region.heap;
  void* smaller = heap.allocate(32 * 16 - 8);
  ASSERT_NE(heap.allocate(24), nullptr);  // a fence; the 33 granules behind it are free
  heap.deallocate(smaller);
  EXPECT_EQ(heap.allocate(33 * 16 - 8), nullptr);
  EXPECT_EQ(heap.allocate(32 * 16 - 8), smaller);
  EXPECT_NE(heap.allocate(33 * 16 - 8), nullptr);
  heap.check_invariants();
}

TEST(CoalescingHeap, MergesWithBothNeighboursAtOnce) {
  Region region(4096);
  void* a = region.heap.allocate(100);
  void* b = region.heap.allocate(100);
  void* c = region.heap.allocate(100);
  void* d = region.heap.allocate(100);
  region.heap.deallocate(a);
  EXPECT_EQ(free_blocks(region.heap), 2u);
  region.heap.deallocate(c);
  EXPECT_EQ(free_blocks(region.heap), 3u);
  region.heap.deallocate(b);
  EXPECT_EQ(free_blocks(region.heap), 2u);
  region.heap.deallocate(d);
  EXPECT_EQ(free_blocks(region.heap), 1u);
  region.heap.check_invariants();
}

TEST(CoalescingHeap, AlignsEveryBlockTo16AndGivesAtLeastWhatWasAsked) {
  Region region(1 << 16);
  for (std::size_t bytes = 0; bytes < 5000; bytes += 1 + bytes / 16) {
    void* block = region.heap.allocate(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(is_aligned(block, 16));
    EXPECT_GE(region.heap.usable_size(block), bytes);
    EXPECT_LE(region.heap.usable_size(block), bytes + bytes / 4 + 40);
    region.heap.deallocate(block);
  }
}

TEST(CoalescingHeap, TakesBlocksOfEveryAlignmentBackWithoutBeingToldTheAlignment) {
  // In heaps of this kind, alignment padding often hides the tag from free.
  for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
    Region region(1 << 16);
    std::vector<void*> blocks;
    for (std::size_t bytes : {0, 1, 24, 100, 1000}) {
      void* odd = region.heap.allocate(40);  // so that the next start is not aligned by luck
      void* block = region.heap.allocate(bytes, alignment);
      ASSERT_NE(block, nullptr) << bytes << " at " << alignment;
      EXPECT_TRUE(is_aligned(block, alignment));
      std::memset(block, 0xa5, region.heap.usable_size(block));
      blocks.push_back(odd);
      blocks.push_back(block);
      region.heap.check_invariants();
    }
    for (void* block : blocks) {
      region.heap.deallocate(block);
      region.heap.check_invariants();
    }
    EXPECT_EQ(free_blocks(region.heap), 1u);
  }
}

TEST(CoalescingHeap, GrowsInPlaceIntoAFreeNeighbour) {
  Region region(4096);
  char* a = static_cast<char*>(region.heap.allocate(64));
  void* b = region.heap.allocate(64);
  void* fence = region.heap.allocate(64);
  std::memset(a, 7, 64);
  region.heap.deallocate(b);
  EXPECT_EQ(region.heap.reallocate(a, 120), a);
  EXPECT_EQ(a[63], 7);
  region.heap.check_invariants();
  region.heap.deallocate(a);
  region.heap.deallocate(fence);
  EXPECT_EQ(free_blocks(region.heap), 1u);
}

TEST(CoalescingHeap, ShrinksInPlaceAndFreesTheRest) {
  Region region(4096);
  void* a = region.heap.allocate(1000);
  void* fence = region.heap.allocate(64);
  EXPECT_EQ(region.heap.reallocate(a, 100), a);
  EXPECT_LE(region.heap.usable_size(a), 136u);
  EXPECT_EQ(free_blocks(region.heap), 2u);
  EXPECT_EQ(region.heap.reallocate(a, 0), a);  // not freed
  EXPECT_EQ(region.heap.live_blocks(), 2u);
  region.heap.check_invariants();
  region.heap.deallocate(fence);
  EXPECT_EQ(free_blocks(region.heap), 1u);
}

/// In a full heap, a free block that serves the smaller size may be smaller than the block that
/// shrinks.
TEST(CoalescingHeap, WhatShrinksStaysWhereItIsThoughABinIsLarger) {
  Region region(16384);
  CoalescingHeap& heap = region.heap;
  void* a = heap.allocate(3000, 32);  // as large as asked for: an alignment is not rounded up
  auto* behind = static_cast<char*>(heap.allocate(64));
  void* b = heap.allocate(3040, 32);
  while (heap.largest_free_block() != 0) {
    ASSERT_NE(heap.allocate(heap.largest_free_block()), nullptr);
  }
  std::memset(b, 3, 3040);
  std::memset(behind, 5, 64);
  heap.deallocate(a);
  EXPECT_EQ(heap.reallocate(b, 2990), b);
  EXPECT_EQ(behind[0], 5);
  heap.check_invariants();
}

TEST(CoalescingHeap, MovesABlockThatCannotGrowAndKeepsItsContents) {
  Region region(4096);
  char* a = static_cast<char*>(region.heap.allocate(64));
  void* fence = region.heap.allocate(64);
  std::memset(a, 9, 64);
  char* moved = static_cast<char*>(region.heap.reallocate(a, 500));
  ASSERT_NE(moved, nullptr);
  EXPECT_NE(moved, a);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(moved[i], 9);
  region.heap.deallocate(moved);
  region.heap.deallocate(fence);
  region.heap.check_invariants();
}

TEST(CoalescingHeap, LeavesTheOldBlockAloneWhenItCannotBeResized) {
  Region region(1024);
  char* a = static_cast<char*>(region.heap.allocate(64));
  std::memset(a, 5, 64);
  EXPECT_EQ(region.heap.reallocate(a, 5000), nullptr);
  EXPECT_EQ(region.heap.reallocate(a, SIZE_MAX), nullptr);
  EXPECT_EQ(a[63], 5);
  region.heap.deallocate(a);
  region.heap.check_invariants();
}

TEST(CoalescingHeap, RefusesSizesThatNoRegionHolds) {
  Region region(1024);
  for (std::size_t bytes :
       {std::size_t{1025}, std::size_t{1} << 33, std::size_t{1} << 34, SIZE_MAX - 8, SIZE_MAX}) {
    EXPECT_EQ(region.heap.allocate(bytes), nullptr);
    EXPECT_EQ(region.heap.allocate(bytes, 64), nullptr);
  }
  EXPECT_EQ(region.heap.allocate(16, std::size_t{1} << 63), nullptr);
  region.heap.check_invariants();
}

TEST(CoalescingHeap, TakesARegionOfAnySizeAndAlignment) {
  alignas(16) char memory[256];
  for (std::size_t start = 0; start < 16; ++start) {
    for (std::size_t bytes = 0; bytes + start <= sizeof memory; ++bytes) {
      std::memset(memory, 0x5a, sizeof memory);
      std::optional<CoalescingHeap> made = CoalescingHeap::try_create(memory + start, bytes);
      if (!made) {
        ASSERT_LT(bytes, 72u) << "a granule at most to align, a tag, a block and the end";
        continue;
      }
      CoalescingHeap heap(std::move(*made));
      heap.check_invariants();
      while (void* block = heap.allocate(1)) {
        const std::size_t usable = heap.usable_size(block);
        ASSERT_GE(static_cast<char*>(block), memory + start);
        ASSERT_LE(static_cast<char*>(block) + usable, memory + start + bytes);
        std::memset(block, 0, usable);
      }
      heap.check_invariants();
      for (std::size_t i = 0; i < start; ++i) ASSERT_EQ(memory[i], 0x5a);
      for (std::size_t i = start + bytes; i < sizeof memory; ++i) ASSERT_EQ(memory[i], 0x5a);
    }
  }
}

TEST(CoalescingHeap, ReservesARegionAndGivesItBack) {
  os::FakePageSource pages;
  {
    CoalescingHeap heap(1 << 20, pages);
    EXPECT_EQ(pages.mapped_bytes(), 1u << 20);
    void* block = heap.allocate(100'000);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(heap.owns(block));
    EXPECT_FALSE(heap.owns(&heap));
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

TEST(CoalescingHeap, OwnsNothingBesideItsRegion) {
  alignas(4096) static char memory[3 * 4096];
  CoalescingHeap heap(memory + 4096, 4096);
  EXPECT_TRUE(heap.owns(heap.allocate(1000)));
  EXPECT_FALSE(heap.owns(memory + 4096 - 1));
  EXPECT_FALSE(heap.owns(memory + 2 * 4096));
}

TEST(CoalescingHeap, SaysWhyItRefuses) {
  os::FakePageSource pages;
  const auto why = [&](std::size_t bytes) {
    const char* reason = nullptr;
    EXPECT_FALSE(CoalescingHeap::try_create(bytes, &reason, &pages));
    return reason;
  };
  EXPECT_STREQ(why(0), "CoalescingHeap: the size of the region is 0");
  EXPECT_STREQ(why(CoalescingHeap::kMaxRegionBytes + 1),
               "CoalescingHeap: the region is above 16 GiB");
  EXPECT_EQ(pages.fallible_calls(), 0u);
  pages.refuse_call(1);
  EXPECT_STREQ(why(1 << 20), "CoalescingHeap: the kernel refuses a region of this size");
  char small[16];
  const char* reason = nullptr;
  EXPECT_FALSE(CoalescingHeap::try_create(small, sizeof small, &reason));
  EXPECT_STREQ(reason, "CoalescingHeap: not one block fits into the region");
  EXPECT_FALSE(CoalescingHeap::try_create(nullptr, 4096, &reason));
  EXPECT_STREQ(reason, "CoalescingHeap: not one block fits into the region");
  EXPECT_TRUE(CoalescingHeap::try_create(4096, &reason));
  EXPECT_EQ(reason, nullptr);
}

TEST(CoalescingHeap, ThrowsTheSentenceWhereItsConstructorRefuses) {
  os::FakePageSource pages;
  EXPECT_THAT([] { CoalescingHeap{0}; },
              testing::ThrowsMessage<std::invalid_argument>(
                  testing::StrEq("CoalescingHeap: the size of the region is 0")));
  EXPECT_THAT([] { CoalescingHeap(nullptr, 0); },
              testing::ThrowsMessage<std::invalid_argument>(
                  testing::StrEq("CoalescingHeap: not one block fits into the region")));
  pages.refuse_call(1);
  EXPECT_THAT([&] { CoalescingHeap(4096, pages); },
              testing::ThrowsMessage<std::bad_alloc>(
                  testing::StrEq("CoalescingHeap: the kernel refuses a region of this size")));
}

TEST(CoalescingHeap, KeepsItsBlocksWhenItMovesAndGivesItsRegionBackOnce) {
  os::FakePageSource pages;
  {
    CoalescingHeap first(1 << 20, pages);
    auto* block = static_cast<char*>(first.allocate(1000));
    first.deallocate(first.allocate(5000));
    block[999] = 'x';
    CoalescingHeap second(std::move(first));
    EXPECT_TRUE(second.owns(block));
    EXPECT_EQ(block[999], 'x');
    EXPECT_EQ(second.live_blocks(), 1u);
    second.check_invariants();
    EXPECT_EQ(first.allocate(1), nullptr);  // NOLINT: a heap that moved refuses every request
    EXPECT_EQ(first.capacity_bytes(), 0u);
    EXPECT_EQ(first.largest_free_block(), 0u);
    first.check_invariants();
    CoalescingHeap third(8192, pages);
    third = std::move(second);
    EXPECT_EQ(pages.mapped_bytes(), 1u << 20) << "what was assigned to is gone at once";
    third.deallocate(block);
    EXPECT_EQ(third.live_blocks(), 0u);
    third.check_invariants();
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

TEST(CoalescingHeap, TrimReturnsThePagesInsideFreeBlocksOnceAndKeepsTheBlocks) {
  os::FakePageSource pages;
  CoalescingHeap heap(1 << 20, pages);
  EXPECT_EQ(heap.trim(), 0u) << "a fresh region was never touched";
  void* first = heap.allocate(100);
  char* big = static_cast<char*>(heap.allocate(500'000));
  char* last = static_cast<char*>(heap.allocate(100));
  std::memset(big, 1, 500'000);
  last[0] = 3;
  heap.deallocate(big);
  const std::size_t returned = heap.trim();
  EXPECT_GE(returned, 500'000u - 2 * os::page_bytes());
  EXPECT_GE(pages.decommitted_bytes(), returned) << "the block is larger than what was touched";
  EXPECT_EQ(heap.trim(), 0u);
  EXPECT_EQ(last[0], 3);
  heap.check_invariants();
  big = static_cast<char*>(heap.allocate(400'000));
  EXPECT_EQ(heap.trim(), 0u) << "the rest of a returned block is still clean";
  std::memset(big, 2, 400'000);
  heap.deallocate(big);
  heap.deallocate(first);
  heap.deallocate(last);
  heap.check_invariants();
}

TEST(CoalescingHeap, TrimCountsTheMemoryThatWentBackNotTheAddresses) {
  if (!os::knows_pages()) GTEST_SKIP() << "the emulator answers for its host's pages";
  CoalescingHeap heap(64 << 20);
  auto* block = static_cast<char*>(heap.allocate(40 << 20));
  std::memset(block + (8 << 20), 1, 100 * os::page_bytes());
  heap.deallocate(block);
  const std::size_t returned = heap.trim();
  EXPECT_GE(returned, 100 * os::page_bytes());
  EXPECT_LE(returned, 103 * os::page_bytes()) << "and the tags at both ends";
}

TEST(CoalescingHeap, DecommitThatFailsIsTriedAgainByTheNextTrim) {
  os::FakePageSource pages;
  CoalescingHeap heap(1 << 20, pages);
  void* block = heap.allocate(500'000);
  std::memset(block, 1, 500'000);
  heap.deallocate(block);
  pages.refuse_call(1);
  EXPECT_EQ(heap.trim(), 0u);
  heap.check_invariants();
  EXPECT_GT(heap.trim(), 0u);
}

/// Every sequence of `length` operations on a tiny region, depth first. A heap cannot be copied, so
/// each sequence is replayed from its start.
TEST(CoalescingHeap, KeepsItsInvariantsThroughEveryShortSequenceOnATinyRegion) {
  constexpr int kSizes[] = {1, 40, 60, 90};
  constexpr int kOperations = 4 + 1 + 4 + 2;  // allocate, aligned, free i, resize the oldest
  constexpr int kLength = 5;
  int sequences = 1;
  for (int i = 0; i < kLength; ++i) sequences *= kOperations;
  for (int sequence = 0; sequence < sequences; ++sequence) {
    alignas(16) char memory[288];
    CoalescingHeap heap(memory, sizeof memory);
    std::vector<std::pair<unsigned char*, std::size_t>> live;
    int rest = sequence;
    unsigned char stamp = 0;
    for (int step = 0; step < kLength; ++step, rest /= kOperations) {
      const int operation = rest % kOperations;
      if (operation < 5) {
        void* block = operation < 4 ? heap.allocate(static_cast<std::size_t>(kSizes[operation]))
                                    : heap.allocate(20, 64);
        if (block != nullptr) {
          const std::size_t bytes = heap.usable_size(block);
          std::memset(block, ++stamp, bytes);
          live.emplace_back(static_cast<unsigned char*>(block), bytes);
        }
      } else if (operation < 9) {
        const auto i = static_cast<std::size_t>(operation - 5);
        if (i >= live.size()) break;  // a shorter sequence has been seen
        heap.deallocate(live[i].first);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        if (live.empty()) break;
        const std::size_t kept = std::min<std::size_t>(live[0].second, 1);
        const unsigned char first = kept != 0 ? live[0].first[0] : 0;
        void* block = heap.reallocate(live[0].first, operation == 9 ? 10 : 110);
        if (block != nullptr) {
          live[0] = {static_cast<unsigned char*>(block), heap.usable_size(block)};
          ASSERT_EQ(live[0].first[0], first);
          std::memset(block, first, live[0].second);
        }
      }
      heap.check_invariants();
      std::size_t used = 0;
      for (const auto& [block, bytes] : live) {
        used += bytes + CoalescingHeap::kHeaderBytes;
        for (std::size_t i = 1; i < bytes; ++i) ASSERT_EQ(block[i], block[0]);
      }
      ASSERT_EQ(heap.used_bytes(), used);
      ASSERT_EQ(heap.live_blocks(), live.size());
    }
    for (const auto& [block, bytes] : live) heap.deallocate(block);
    ASSERT_EQ(free_blocks(heap), 1u);
  }
}

TEST(CoalescingHeap, AgreesWithAModelThroughRandomOperations) {
  std::mt19937_64 random(seed_of_this_run());
  for (int round = 0; round < 20; ++round) {
    Region region(1024u << random() % 7);
    CoalescingHeap& heap = region.heap;
    std::map<unsigned char*, std::size_t> live;  // block, bytes
    const std::size_t max_bytes = region.bytes / (2 + random() % 30);
    for (int step = 0; step < 1500; ++step) {
      const auto pick = [&] {
        return std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      };
      const unsigned action = static_cast<unsigned>(random() % 10);
      if (live.empty() || action < 5) {
        const std::size_t bytes = random() % max_bytes;
        const std::size_t alignment = random() % 4 == 0 ? std::size_t{1} << random() % 9 : 16;
        if (void* block = heap.allocate(bytes, alignment)) {
          ASSERT_TRUE(is_aligned(block, alignment));
          const std::size_t usable = heap.usable_size(block);
          ASSERT_GE(usable, bytes);
          std::memset(block, static_cast<int>(usable * 7 % 251), usable);
          live.emplace(static_cast<unsigned char*>(block), usable);
        } else {
          ASSERT_LT(heap.largest_free_block(), bytes + alignment * 17 / 16 + 64 + bytes / 16);
        }
      } else if (action < 9) {
        const auto it = pick();
        for (std::size_t i = 0; i < it->second; ++i) ASSERT_EQ(it->first[i], it->second * 7 % 251);
        heap.deallocate(it->first);
        live.erase(it);
      } else {
        const auto [block, bytes] = *pick();
        const std::size_t wanted = random() % max_bytes;
        if (void* moved = heap.reallocate(block, wanted)) {
          const std::size_t usable = heap.usable_size(moved);
          for (std::size_t i = 0; i < std::min(wanted, bytes); ++i) {
            ASSERT_EQ(static_cast<unsigned char*>(moved)[i], bytes * 7 % 251);
          }
          live.erase(block);
          std::memset(moved, static_cast<int>(usable * 7 % 251), usable);
          live.emplace(static_cast<unsigned char*>(moved), usable);
        }
      }
      heap.check_invariants();
      ASSERT_EQ(heap.live_blocks(), live.size());
      auto next = live.begin();
      heap.walk([&](CoalescingHeap::Block block) {
        if (block.is_free) return;
        ASSERT_NE(next, live.end());
        ASSERT_EQ(block.address, next->first);
        ASSERT_EQ(block.bytes, next->second);
        ++next;
      });
      ASSERT_EQ(next, live.end());
    }
  }
}

}  // namespace
}  // namespace strata
