#include "malloc/spare_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/seeded_test.h"

namespace strata {
namespace {

/// As large as it is, not an object of the stack.
constinit SpareMemory g_spare;

std::vector<void*> take_all(std::size_t bytes) {
  std::vector<void*> blocks;
  while (void* p = g_spare.allocate(bytes, 1)) blocks.push_back(p);
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
  void* const kept = g_spare.allocate(10, 1);
  for (std::size_t i = 0; i < 3 * SpareMemory::kBytes / 1000; ++i) {
    void* const p = g_spare.allocate(1000, 1);
    ASSERT_NE(p, nullptr) << i;
    g_spare.deallocate(p);
  }
  g_spare.deallocate(kept);
}

TEST(SpareMemory, HasNoRoomForMoreThanItIs) {
  EXPECT_EQ(g_spare.allocate(SpareMemory::kBytes, 1), nullptr);
  EXPECT_EQ(g_spare.allocate(SIZE_MAX, 1), nullptr);
  EXPECT_EQ(g_spare.allocate(1, std::size_t{1} << 63), nullptr);
  void* const most = g_spare.allocate(SpareMemory::kBytes - 16, 1);
  ASSERT_NE(most, nullptr);
  EXPECT_EQ(g_spare.allocate(0, 1), nullptr);
  g_spare.deallocate(most);
}

class SpareMemoryRandomTest : public SeededTest {};

TEST_F(SpareMemoryRandomTest, BlocksOfAllThreadsStayApart) {
  std::atomic<int> at_gate{0};
  const std::uint64_t seed = random();
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) {
    threads.emplace_back([&, mark] {
      std::mt19937_64 own_random(seed + mark);
      ++at_gate;
      while (at_gate != 4) std::this_thread::yield();
      std::vector<std::pair<unsigned char*, std::size_t>> mine;
      for (int step = 0; step < 5000; ++step) {
        if (mine.size() < 20 && own_random() % 2 == 0) {
          const std::size_t bytes = own_random() % 3000;
          const std::size_t alignment = std::size_t{1} << own_random() % 10;
          auto* p = static_cast<unsigned char*>(g_spare.allocate(bytes, alignment));
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
  }
  for (auto& thread : threads) thread.join();
  void* const most = g_spare.allocate(SpareMemory::kBytes - 16, 1);
  EXPECT_NE(most, nullptr) << "something was lost";
  g_spare.deallocate(most);
}

TEST(SpareMemoryDeathTest, KnowsItsLiveBlocks) {
  auto* const p = static_cast<char*>(g_spare.allocate(100, 1));
  EXPECT_DEATH(g_spare.deallocate(p + 16), "strata: invalid free of 0x[0-9a-f]+: it was freed");
  EXPECT_DEATH(g_spare.deallocate(p + 1), "strata: invalid free of 0x[0-9a-f]+: it was freed");
  void* const kept = g_spare.allocate(100, 1);
  g_spare.deallocate(p);
  EXPECT_DEATH(g_spare.deallocate(p), "strata: invalid free of 0x[0-9a-f]+: it was freed");
  EXPECT_DEATH(static_cast<void>(g_spare.usable_bytes(p, "realloc")), "strata: invalid realloc of");
  g_spare.deallocate(kept);
}

}  // namespace
}  // namespace strata
