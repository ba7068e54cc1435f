#include "malloc/spare_memory.h"
#include <strata/detail/bits.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "os/page_source.h"

namespace strata {
namespace {

/// Too large for the stack.
constinit SpareMemory g_spare;

std::vector<void*> take_all(std::size_t bytes) {
  std::vector<void*> blocks;
  while (void* p = g_spare.allocate(bytes, 1).address) blocks.push_back(p);
  return blocks;
}

TEST(SpareMemory, IsWholeAgainWhenAllBlocksAreBackInAnyOrder) {
  for (int round = 0; round < 3; ++round) {
    const std::vector<void*> blocks = take_all(1000);
    EXPECT_GT(blocks.size(), SpareMemory::kBytes / 1100);
    for (std::size_t i = 0; i < blocks.size(); i += 2) g_spare.deallocate(blocks[i]);
    for (std::size_t i = 1; i < blocks.size(); i += 2) g_spare.deallocate(blocks[i]);
  }
}

TEST(SpareMemory, UsesAgainTheBlockThatCameLast) {
  void* const kept = g_spare.allocate(10, 1).address;
  for (std::size_t i = 0; i < 3 * SpareMemory::kBytes / 1000; ++i) {
    void* const p = g_spare.allocate(1000, 1).address;
    ASSERT_NE(p, nullptr) << i;
    g_spare.deallocate(p);
  }
  g_spare.deallocate(kept);
}

TEST(SpareMemory, HasNoRoomForMoreThanItIs) {
  EXPECT_EQ(g_spare.allocate(SpareMemory::kBytes, 1).address, nullptr);
  EXPECT_EQ(g_spare.allocate(SIZE_MAX, 1).address, nullptr);
  EXPECT_EQ(g_spare.allocate(1, std::size_t{1} << 63).address, nullptr);
  void* const most = g_spare.allocate(SpareMemory::kBytes - 16, 1).address;
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(g_spare.allocate(0, 1).address, nullptr);
  g_spare.deallocate(most);
  void* const nearly = g_spare.allocate(SpareMemory::kBytes - 32, 1).address;
  ASSERT_NE(nearly, nullptr);
  EXPECT_EQ(g_spare.allocate(0, 1).address, nullptr) << "it would begin where the memory ends";
  g_spare.deallocate(nearly);
}

TEST(SpareMemory, KnowsWhatWasNeverUsed) {
  const auto memory = std::make_unique<SpareMemory>();
  SpareMemory& spare = *memory;
  const SpareMemory::Block first = spare.allocate(1000, 1);
  EXPECT_TRUE(first.is_zero);
  std::memset(first.address, 1, 1000);
  spare.deallocate(first.address);
  const SpareMemory::Block again = spare.allocate(100, 1);
  EXPECT_FALSE(again.is_zero);
  const SpareMemory::Block across = spare.allocate(1000, 1);  // from used memory into unused
  EXPECT_FALSE(across.is_zero);
  EXPECT_TRUE(spare.allocate(100, 1).is_zero);
}

TEST(SpareMemory, WhatIsSetApartIsNotUsedAgainAndKeepsTheRestFromNothing) {
  const auto memory = std::make_unique<SpareMemory>();
  SpareMemory& spare = *memory;
  void* const apart = spare.allocate(1000, 1).address;
  void* const freed = spare.allocate(1000, 1).address;
  spare.deallocate(freed);  // the last one: its room is used again
  spare.set_apart();
  EXPECT_EQ(spare.usable_bytes(apart, "test"), 1008u);
  for (int round = 0; round < 3; ++round) {
    void* const p = spare.allocate(500, 1).address;
    void* const q = spare.allocate(500, 1).address;
    EXPECT_EQ(p, freed);
    spare.deallocate(p);
    spare.deallocate(q);
  }
  spare.deallocate(apart);
  EXPECT_EQ(spare.allocate(500, 1).address, freed);
  EXPECT_DEATH(spare.deallocate(apart), "strata: double free of 0x[0-9a-f]+: the object is free");
}

TEST(SpareMemory, FirstBlocksLeaveRoomForTheOthers) {
  const auto memory = std::make_unique<SpareMemory>();
  SpareMemory& spare = *memory;
  std::size_t first = 0;
  while (spare.allocate_first(1000, 1).address != nullptr) ++first;
  EXPECT_EQ(first, SpareMemory::kFirstBytes / 1024);
  EXPECT_NE(spare.allocate(SpareMemory::kBytes - SpareMemory::kFirstBytes - 16, 1).address,
            nullptr);
}

TEST(SpareMemory, ThePagesOfALargeBlockGoBackToTheKernel) {
  const auto memory = std::make_unique<SpareMemory>();
  SpareMemory& spare = *memory;
  constexpr std::size_t kBytes = 300'000;
  void* const large = spare.allocate(kBytes, 1).address;
  static_cast<void>(spare.allocate(100, 1));
  std::memset(large, 1, kBytes);
  const auto pages = detail::round_up(reinterpret_cast<std::uintptr_t>(large), os::page_bytes());
  const std::size_t bytes = detail::round_down(kBytes, os::page_bytes()) - os::page_bytes();
  EXPECT_EQ(os::resident_bytes_in(reinterpret_cast<void*>(pages), bytes), bytes);
  spare.deallocate(large);
  EXPECT_EQ(os::resident_bytes_in(reinterpret_cast<void*>(pages), bytes), 0u);
}

class SpareMemoryRandomTest : public SeededTest {};

TEST_F(SpareMemoryRandomTest, BlocksOfAllThreadsStayApart) {
  const std::uint64_t seed = random();
  run_together(4, [&](int t) {
    const auto mark = static_cast<unsigned char>(t + 1);
    std::mt19937_64 own_random(seed + mark);
    std::vector<std::pair<unsigned char*, std::size_t>> mine;
    for (int step = 0; step < 5000; ++step) {
      if (mine.size() < 20 && own_random() % 2 == 0) {
        const std::size_t bytes = own_random() % 3000;
        const std::size_t alignment = std::size_t{1} << own_random() % 10;
        auto* p = static_cast<unsigned char*>(g_spare.allocate(bytes, alignment).address);
        if (p == nullptr) continue;
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
        ASSERT_TRUE(g_spare.owns(p) && g_spare.owns(p + bytes / 2));
        ASSERT_GE(g_spare.usable_bytes(p, "test"), bytes);
        std::memset(p, mark, bytes);
        mine.push_back({p, bytes});
      } else if (!mine.empty()) {
        std::swap(mine[own_random() % mine.size()], mine.back());
        const auto [p, bytes] = mine.back();
        for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(p[i], mark);
        g_spare.deallocate(p);
        mine.pop_back();
      }
    }
    for (const auto& [p, bytes] : mine) g_spare.deallocate(p);
  });
  void* const most = g_spare.allocate(SpareMemory::kBytes - 16, 1).address;
  EXPECT_NE(most, nullptr) << "something was lost";
  g_spare.deallocate(most);
}

TEST(SpareMemoryDeathTest, AnAddressAndAZeroAreNoHeader) {
  const auto memory = std::make_unique<SpareMemory>();
  SpareMemory& spare = *memory;
  auto* const p = static_cast<std::uintptr_t*>(spare.allocate(32, 1).address);
  p[0] = reinterpret_cast<std::uintptr_t>(p + 2);
  p[1] = 0;
  EXPECT_DEATH(spare.deallocate(p + 2),
               "strata: invalid free of 0x[0-9a-f]+: no allocation starts");
}

TEST(SpareMemoryDeathTest, KnowsItsLiveBlocks) {
  const auto memory = std::make_unique<SpareMemory>();
  SpareMemory& spare = *memory;
  auto* const p = static_cast<char*>(spare.allocate(100, 1).address);
  EXPECT_DEATH(spare.deallocate(p + 16),
               "strata: invalid free of 0x[0-9a-f]+: no allocation starts");
  EXPECT_DEATH(spare.deallocate(p + 1), "strata: invalid free of 0x[0-9a-f]+: it is misaligned");
  void* const kept = spare.allocate(100, 1).address;
  spare.deallocate(p);
  EXPECT_DEATH(spare.deallocate(p), "strata: double free of 0x[0-9a-f]+: the object is free");
  EXPECT_DEATH(static_cast<void>(spare.usable_bytes(p, "realloc")),
               "strata: invalid realloc of 0x[0-9a-f]+: the object is free already");
  spare.deallocate(kept);
}

}  // namespace
}  // namespace strata
