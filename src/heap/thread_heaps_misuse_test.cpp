#include <strata/thread_heaps.hpp>

#include <gtest/gtest.h>

#include "heap/heap_support_test.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

class ThreadHeapsDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, os::kSafestDeathTests); }
};

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfASmallBlock) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(100);
  heaps.deallocate(block);
  EXPECT_DEATH(heaps.deallocate(block), "double free of 0x.*already free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfALargeBlock) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(10'000);
  heaps.deallocate(block);
  EXPECT_DEATH(heaps.deallocate(block), "double free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfABlockThatIsOnItsWayHome) {
  ThreadHeaps heaps(own_arenas());
  void* block = heaps.allocate(100);
  EXPECT_DEATH(in_thread([&] {
                 heaps.deallocate(block);
                 heaps.deallocate(block);
               }),
               "double free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAPointerFromElsewhere) {
  ThreadHeaps heaps(small_arenas());
  ThreadHeaps other(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  char* others = static_cast<char*>(other.allocate(100));
  int on_stack = 0;
  EXPECT_DEATH(heaps.deallocate(&on_stack), "foreign pointer 0x.*in no arena");
  EXPECT_DEATH(heaps.deallocate(others), "foreign pointer");
  EXPECT_DEATH(heaps.deallocate(block + 8), "foreign pointer.*no block");
  EXPECT_DEATH(heaps.deallocate(block + 16), "no block starts there");
  char* const arena = arena_start(block, kMiB);
  void* const last = heaps.allocate(100);
  for (int freed = 0; freed < 2; ++freed) {
    EXPECT_DEATH(heaps.deallocate(arena), "foreign pointer");
    EXPECT_DEATH(heaps.deallocate(arena + 64), "no block.* starts there");
    EXPECT_DEATH(heaps.deallocate(arena + kMiB), "foreign pointer");
    if (freed == 0) heaps.deallocate(last);  // from now on the arena is the one of the last free
  }
  EXPECT_DEATH(static_cast<void>(heaps.usable_size(others)), "foreign pointer");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnAddressBehindAnArenaThatIsNoPowerOfTwo) {
  ThreadHeaps heaps(long_arenas());
  char* const block = static_cast<char*>(heaps.allocate(100));
  char* const arena = arena_start(block, 4 * kMiB);
  void* const last = heaps.allocate(100);
  for (int freed = 0; freed < 2; ++freed) {
    for (std::size_t offset : {3 * kMiB, 3 * kMiB + 16, 4 * kMiB - 16, 4 * kMiB}) {
      EXPECT_DEATH(heaps.deallocate(arena + offset), "foreign pointer 0x") << offset;
    }
    if (freed == 0) heaps.deallocate(last);  // from now on the arena is the one of the last free
  }
  EXPECT_DEATH(static_cast<void>(heaps.usable_size(arena + 3 * kMiB + 16)), "foreign pointer 0x");
  heaps.deallocate(block);
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnAddressBelowEveryArena) {
  // The start of its arena, by rounding down, is 0, which stands for "no arena".
  ThreadHeaps heaps(small_arenas());
  EXPECT_DEATH(heaps.deallocate(reinterpret_cast<void*>(16)), "foreign pointer 0x.*in no arena");
  heaps.deallocate(heaps.allocate(10));
  EXPECT_DEATH(heaps.deallocate(reinterpret_cast<void*>(16)), "foreign pointer");
  EXPECT_FALSE(heaps.owns(reinterpret_cast<void*>(16)));
  heaps.reclaim_now();
  EXPECT_DEATH(heaps.deallocate(reinterpret_cast<void*>(16)), "foreign pointer");
}

TEST_F(ThreadHeapsDeathTest, DiesOfADoubleFreeOfABlockThatLeftTheCacheWithItsNeighbours) {
  ThreadHeaps heaps(small_arenas());
  void* blocks[200];
  for (void*& block : blocks) block = heaps.allocate(100);
  for (void* block : blocks) heaps.deallocate(block);
  for (int i : {0, 1, 15, 31, 32, 63, 100, 199}) {
    EXPECT_DEATH(heaps.deallocate(blocks[i]), "double free");
  }
  heaps.reclaim_now();
  EXPECT_DEATH(heaps.deallocate(blocks[50]), "foreign pointer");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAResizeOfAFreeBlock) {
  ThreadHeaps heaps(small_arenas());
  void* small = heaps.allocate(100);
  void* large = heaps.allocate(10'000);
  heaps.deallocate(small);
  heaps.deallocate(large);
  EXPECT_DEATH(static_cast<void>(heaps.reallocate(small, 50)), "double free");
  EXPECT_DEATH(static_cast<void>(heaps.reallocate(large, 50)), "double free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfABlockOfAnArenaThatIsGone) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(10'000);
  heaps.deallocate(block);
  heaps.reclaim_now();
  EXPECT_DEATH(heaps.deallocate(block), "foreign pointer 0x.*in no arena");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnOverwrittenTag) {
  ThreadHeaps heaps(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  block[-8] = static_cast<char>(block[-8] + 1);
  EXPECT_DEATH(heaps.deallocate(block), "overwritten tag in front of 0x");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAWriteAfterFreeIntoACachedBlock) {
  ThreadHeaps heaps(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  heaps.deallocate(block);
  block[0] = static_cast<char>(block[0] + 1);
  EXPECT_DEATH(static_cast<void>(heaps.allocate(100)), "write after free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnOverflowIntoTheTagOfACachedBlock) {
  ThreadHeaps heaps(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  heaps.deallocate(block);
  block[-8] = static_cast<char>(block[-8] + 1);
  EXPECT_DEATH(static_cast<void>(heaps.allocate(100)), "overwritten tag in front of 0x");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnOverflowIntoTheTagBehindALargeBlock) {
  ThreadHeaps heaps(small_arenas());
  char* block = static_cast<char*>(heaps.allocate(10'000));
  static_cast<void>(heaps.allocate(10'000));
  block[heaps.usable_size(block)] ^= 1;
  EXPECT_DEATH(heaps.deallocate(block), "overwritten tag in front of 0x");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAWriteAfterFreeIntoABlockThatIsOnItsWayHome) {
  ThreadHeaps heaps(own_arenas());
  char* block = static_cast<char*>(heaps.allocate(100));
  void* cached[80];
  for (void*& one : cached) one = heaps.allocate(100);
  in_thread([&] { heaps.deallocate(block); });
  block[0] = static_cast<char>(block[0] + 1);
  EXPECT_DEATH(
      {
        for (int i = 0; i < 80; ++i) static_cast<void>(heaps.allocate(100));
      },
      "write after free");
}

TEST_F(ThreadHeapsDeathTest, DiesOfAnAlignmentThatIsNoPowerOfTwo) {
  ThreadHeaps heaps(small_arenas());
  for (std::size_t bytes : {10, 500, 5000}) {
    EXPECT_DEATH(static_cast<void>(heaps.allocate(bytes, 48)), "not a power of two");
    EXPECT_DEATH(static_cast<void>(heaps.allocate(bytes, 0)), "not a power of two");
    EXPECT_DEATH(static_cast<void>(heaps.allocate(bytes, 3)), "not a power of two");
  }
}

}  // namespace
}  // namespace strata
