// What a program may ask the malloc about its memory.

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <cstring>
#include <vector>

#include "support/memory.h"

namespace {

TEST(UsableSize, OfNullIsZero) { EXPECT_EQ(malloc_usable_size(nullptr), 0u); }

TEST(UsableSize, IsStableWhileTheBlockLives) {
  for (const std::size_t n : {1, 100, 5000, 200'000, 5'000'000}) {
    void* p = malloc(n);
    const std::size_t usable = malloc_usable_size(p);
    std::memset(p, 0xff, usable);
    EXPECT_EQ(malloc_usable_size(p), usable);
    free(p);
  }
}

TEST(MallocTrim, ReturnsIdleMemoryAndSaysSo) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100'000; ++i) blocks.push_back(std::memset(malloc(1000), 1, 1000));
  const std::size_t with_blocks = resident_bytes();
  for (void* p : blocks) free(p);
  EXPECT_EQ(malloc_trim(0), 1);
  EXPECT_LT(resident_bytes(), with_blocks - 80 * kMiB);
  EXPECT_EQ(malloc_trim(0), 0);
}

TEST(MallocTrim, ReturnsThePagesOfSpansThatEmptiedInOtherThreadsOrder) {
  std::vector<void*> blocks;
  for (int i = 0; i < 20'000; ++i) blocks.push_back(std::memset(malloc(5000), 1, 5000));
  const std::size_t with_blocks = resident_bytes();
  for (std::size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  for (std::size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
  malloc_trim(0);
  EXPECT_LT(resident_bytes(), with_blocks - 80 * kMiB);
}

// In a heap so large that its regions have huge pages.
TEST(MallocTrim, ComesToAnEndWhenARegionGoesBackPieceByPiece) {
  std::vector<void*> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(std::memset(malloc(300'000), 1, 300'000));
  const std::size_t with_blocks = resident_bytes();
  for (std::size_t part = 0; part < 3; ++part) {
    for (std::size_t i = part; i < blocks.size(); i += 3) free(blocks[i]);
    EXPECT_EQ(malloc_trim(0), 1);
  }
  EXPECT_LT(resident_bytes(), with_blocks - 100 * kMiB);
}

TEST(Mallinfo2, CountsWhatIsLiveAndWhatIsFree) {
  const struct mallinfo2 before = mallinfo2();
  std::vector<void*> blocks;
  for (int i = 0; i < 10'000; ++i) blocks.push_back(malloc(1000));
  for (int i = 0; i < 10; ++i) blocks.push_back(malloc(5 * kMiB));
  const struct mallinfo2 during = mallinfo2();
  const std::size_t added = during.uordblks - before.uordblks;
  EXPECT_GE(added, 10'000 * 1000 + 50 * kMiB);
  EXPECT_LT(added, 10'000 * 1100 + 52 * kMiB);
  EXPECT_EQ(during.hblks, before.hblks + 10);
  EXPECT_GE(during.hblkhd, 50 * kMiB);
  EXPECT_GE(during.arena, 10'000u * 1000);
  for (void* p : blocks) free(p);
  const struct mallinfo2 after = mallinfo2();
  EXPECT_LT(after.uordblks, before.uordblks + kMiB);
  EXPECT_EQ(after.hblks, before.hblks);
  EXPECT_GE(after.fordblks, after.keepcost);
}

}  // namespace
