#include "block/verified_work.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>

namespace strata::bench {
namespace {

constexpr std::size_t kBlocks = 100;
constexpr std::size_t kBytes = 16;

struct Right {
  void* allocate() { return std::malloc(kBytes); }
  void deallocate(void* p) { std::free(p); }
};
TEST(VerifiedWork, FindsNothingWrongWithAPoolThatWorks) {
  Right pool;
  EXPECT_EQ(failures_of(pool, kBlocks, kBytes), 0u);
}

// Serves ten blocks and no more: nine of ten allocations fail, and fast.
struct MostlyEmpty : Right {
  std::size_t left = 10;
  void* allocate() { return left == 0 ? nullptr : (--left, Right::allocate()); }
  void deallocate(void* p) {
    ++left;
    Right::deallocate(p);
  }
};
TEST(VerifiedWork, CountsEveryAllocationThatFailed) {
  MostlyEmpty pool;
  EXPECT_GE(failures_of(pool, kBlocks, kBytes), 3 * (kBlocks - 10));
}

struct Generous {
  unsigned char blocks[kBlocks / 2][kBytes];
  std::size_t next = 0;
  void* allocate() { return blocks[next++ % (kBlocks / 2)]; }
  void deallocate(void*) {}
};
TEST(VerifiedWork, CountsBlocksThatWereHandedOutTwice) {
  Generous pool{};
  EXPECT_GE(failures_of(pool, kBlocks, kBytes), 3 * kBlocks / 2);
}

// Each block overlaps the next one by a byte.
struct Overlapping {
  unsigned char memory[kBlocks * kBytes];
  std::size_t next = 0;
  void* allocate() { return memory + next++ % kBlocks * (kBytes - 1); }
  void deallocate(void*) {}
};
TEST(VerifiedWork, CountsBlocksThatOverlap) {
  Overlapping pool{};
  EXPECT_GT(failures_of(pool, kBlocks, kBytes), 0u);
}

}  // namespace
}  // namespace strata::bench
