#include <strata/thread_heaps.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "heap/heap_support_test.h"
#include "os/fake_page_source.h"
#include "os/resources.h"

/// \file  Blocks in the arenas that the threads of a ThreadHeaps share.

namespace strata {
namespace {

std::size_t shared_heaps() { return std::min(2 * os::processor_count(), 16u); }

TEST(SharedArenas, LargeBlocksOfManyThreadsLieInAFewArenas) {
  ThreadHeaps heaps;
  constexpr int kThreads = 40;
  std::barrier all_have_one(kThreads);
  run_together(kThreads, [&](int) {
    void* block = heaps.allocate(5000);
    all_have_one.arrive_and_wait();
    heaps.deallocate(block);
  });
  EXPECT_LE(heaps.statistics().arenas, shared_heaps());
  EXPECT_EQ(heaps.statistics().heaps, static_cast<std::size_t>(kThreads));
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
}

TEST(SharedArenas, ABlockFreedByAnyThreadIsAtOnceFreeForItsHeap) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(900'000);
  in_thread([&] { heaps.deallocate(block); });
  EXPECT_EQ(heaps.statistics().remote_frees, 0u) << "it is nobody's more than the other's";
  EXPECT_EQ(heaps.allocate(900'000), block);
}

TEST(SharedArenas, ABudgetOfEachThreadLeavesNothingToShare) {
  ThreadHeaps::Options options = small_arenas();
  options.thread_budget_bytes = 2 * kMiB;
  ThreadHeaps heaps(options);
  void* block = heaps.allocate(900'000);
  in_thread([&] { heaps.deallocate(block); });
  EXPECT_EQ(heaps.statistics().remote_frees, 1u);
}

TEST(SharedArenas, UnderATotalBudgetEachKindUsesWhatTheOtherLeft) {
  ThreadHeaps::Options options = small_arenas();
  options.total_budget_bytes = kMiB;
  {
    ThreadHeaps heaps(options);
    void* small = heaps.allocate(500);  // its arena is all that there is
    void* large = heaps.allocate(500'000);
    EXPECT_NE(large, nullptr);
    heaps.deallocate(large);
    heaps.deallocate(small);
    heaps.check_invariants();
  }
  ThreadHeaps heaps(options);
  void* large = heaps.allocate(500'000);
  std::vector<void*> smalls;
  while (void* small = heaps.allocate(100)) smalls.push_back(small);
  EXPECT_GT(smalls.size(), 3000u);
  for (void* small : smalls) heaps.deallocate(small);
  heaps.deallocate(large);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_EQ(heaps.statistics().failed_allocations, 1u);
  EXPECT_NE(heaps.allocate(900'000), nullptr) << "all of it was merged again";
  heaps.check_invariants();
}

TEST(SharedArenas, TheFirstThreadDoesNotTakeTheBudgetOfAll) {
  ThreadHeaps heaps(ThreadHeaps::Options{.total_budget_bytes = 8 * kMiB});
  void* first = heaps.allocate(100);
  ASSERT_NE(first, nullptr);
  in_thread([&] {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 4 * kKiB; ++i) blocks.push_back(heaps.allocate(1000));
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
    for (void* p : blocks) heaps.deallocate(p);
  });
  heaps.deallocate(first);
  heaps.check_invariants();
}

TEST(SharedArenas, TheOldestArenaIsUsedFirstSoThatTheYoungestEmptyThemselves) {
  ThreadHeaps heaps(small_arenas());
  std::vector<void*> blocks;
  while (heaps.statistics().arenas < 4) blocks.push_back(heaps.allocate(100'000));
  // Each arena has one free place; all requests below fit into the first.
  for (std::size_t i = 0; i < blocks.size(); i += 10) heaps.deallocate(blocks[i]);
  void* oldest = heaps.allocate(90'000);
  EXPECT_EQ(oldest, blocks[0]);
  for (int round = 0; round < 10; ++round) {
    heaps.deallocate(oldest);
    oldest = heaps.allocate(90'000 + static_cast<std::size_t>(round));
    EXPECT_EQ(oldest, blocks[0]);
  }
}

TEST(SharedArenas, ResizesInPlaceFromAnyThreadAndKeepsTheContents) {
  ThreadHeaps heaps(small_arenas());
  auto* block = static_cast<unsigned char*>(heaps.allocate(10'000));
  std::memset(block, 7, 10'000);
  in_thread([&] { EXPECT_EQ(heaps.reallocate(block, 200'000), block); });
  EXPECT_GE(heaps.usable_size(block), 200'000u);
  EXPECT_EQ(heaps.statistics().bytes_in_use, heaps.usable_size(block));
  EXPECT_EQ(heaps.reallocate(block, 5'000), block);
  EXPECT_EQ(heaps.statistics().bytes_in_use, heaps.usable_size(block));
  auto* small = static_cast<unsigned char*>(heaps.reallocate(block, 100));
  EXPECT_NE(small, block) << "small blocks are the thread's own";
  EXPECT_EQ(small[99], 7);
  auto* large = static_cast<unsigned char*>(heaps.reallocate(small, 50'000));
  EXPECT_EQ(large[99], 7);
  heaps.deallocate(large);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  heaps.check_invariants();
}

TEST(SharedArenas, ReturnsWhatIsFreeWhenThreadsEndAndHalfIsNotUsed) {
  os::FakePageSource pages;
  ThreadHeaps heaps(small_arenas(&pages));
  std::vector<char*> blocks;
  for (int i = 0; i < 80; ++i) {
    blocks.push_back(static_cast<char*>(heaps.allocate(100'000)));
    std::memset(blocks.back(), i, 100'000);
  }
  in_thread([&] { heaps.deallocate(heaps.allocate(100)); });
  const std::size_t its_own = pages.decommitted_bytes();
  EXPECT_LE(its_own, kMiB) << "all that is shared is in use";
  for (std::size_t i = 10; i < blocks.size(); ++i) heaps.deallocate(blocks[i]);
  EXPECT_EQ(pages.decommitted_bytes(), its_own) << "nobody has ended since";
  in_thread([&] { heaps.deallocate(heaps.allocate(100)); });
  EXPECT_GE(pages.decommitted_bytes(), its_own + 6'000'000u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(blocks[static_cast<std::size_t>(i)][99'999], i);
  heaps.check_invariants();
}

TEST(SharedArenas, GrowByHugePagesOnceMuchIsInUse) {
  os::FakePageSource pages;
  ThreadHeaps::Options options;  // arenas of 64 MiB
  options.pages = &pages;
  ThreadHeaps heaps(options);
  const auto grow_to = [&](std::size_t bytes) {
    while (heaps.statistics().bytes_in_use < bytes) ASSERT_NE(heaps.allocate(30'000), nullptr);
  };
  grow_to(30 * kMiB);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseHuge), 0u) << "little is in use";
  grow_to(50 * kMiB);
  const std::size_t first = pages.calls(os::FakePageSource::kAdviseHuge);
  EXPECT_GE(first, 8u);
  EXPECT_LE(first, 10u) << "one for each 2 MiB";
  grow_to(300 * kMiB);
  EXPECT_GT(pages.calls(os::FakePageSource::kAdviseHuge), first + 100);
  heaps.check_invariants();
}

TEST(SharedArenas, WhatGoesBackToTheKernelIsNotFilledUpAgainToMakeAPageHuge) {
  os::FakePageSource pages;
  ThreadHeaps heaps(ThreadHeaps::Options{.pages = &pages});
  std::vector<char*> blocks;
  while (heaps.statistics().bytes_in_use < 60 * kMiB) {
    blocks.push_back(static_cast<char*>(heaps.allocate(30'000)));
    std::memset(blocks.back(), 1, 30'000);
  }
  const std::size_t huge = pages.calls(os::FakePageSource::kAdviseHuge);
  const std::size_t small = pages.calls(os::FakePageSource::kAdviseSmall);
  ASSERT_GT(huge, 0u);
  for (std::size_t i = blocks.size() / 4; i < blocks.size(); ++i) heaps.deallocate(blocks[i]);
  EXPECT_GE(heaps.reclaim_now(), 40 * kMiB);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseSmall), small + 1);
  EXPECT_EQ(blocks[0][29'999], 1);
  // When the heap grows again, it uses huge pages as before.
  while (heaps.statistics().bytes_in_use < 60 * kMiB) ASSERT_NE(heaps.allocate(30'000), nullptr);
  EXPECT_GT(pages.calls(os::FakePageSource::kAdviseHuge), huge);
  heaps.check_invariants();
}

TEST(SharedArenas, ABudgetForEachThreadKeepsOrdinaryPages) {
  os::FakePageSource pages;
  ThreadHeaps heaps(ThreadHeaps::Options{.thread_budget_bytes = 256 * kMiB, .pages = &pages});
  while (heaps.statistics().bytes_in_use < 60 * kMiB) ASSERT_NE(heaps.allocate(30'000), nullptr);
  EXPECT_EQ(pages.calls(os::FakePageSource::kAdviseHuge), 0u);
}

TEST(SharedArenas, NothingIsLostThatIsFreedWhileItsHeapIsLocked) {
  ThreadHeaps heaps(small_arenas());
  constexpr std::size_t kThreads = 4;
  std::vector<std::atomic<unsigned char*>> slots(64);
  const std::uint64_t base = seed_of_this_run();
  run_together(kThreads, [&](std::size_t t) {
    std::mt19937_64 random(base + t);
    for (int i = 0; i < (kIsSanitized ? 10'000 : 50'000); ++i) {
      const std::size_t bytes = 16 + random() % (random() % 4 == 0 ? 500 : 20'000);
      auto* block = static_cast<unsigned char*>(heaps.allocate(bytes));
      ASSERT_NE(block, nullptr);
      block[0] = static_cast<unsigned char>(t + 1);
      block[bytes - 1] = static_cast<unsigned char>(t + 1);
      unsigned char* old =
          slots[random() % slots.size()].exchange(block, std::memory_order_acq_rel);
      if (old == nullptr) continue;
      ASSERT_TRUE(old[0] >= 1 && old[0] <= kThreads);
      heaps.deallocate(old);
    }
  });
  heaps.check_invariants();
  for (auto& slot : slots) heaps.deallocate(slot.load());
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_GE(heaps.statistics().peak_bytes, 64 * kKiB);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

}  // namespace
}  // namespace strata
