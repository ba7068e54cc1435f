// calloc: the block is zero, whatever the memory held before.

#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <cstring>
#include <vector>

#include "support/memory.h"

namespace {

bool is_zero(const void* p, std::size_t bytes) {
  const auto* text = static_cast<const char*>(p);
  return bytes == 0 || (text[0] == 0 && std::memcmp(text, text + 1, bytes - 1) == 0);
}

class CallocOfReusedMemory : public testing::TestWithParam<std::size_t> {};

TEST_P(CallocOfReusedMemory, IsZero) {
  const std::size_t bytes = GetParam();
  const std::size_t blocks_count = bytes < 100'000 ? 64 : 8;
  for (int round = 0; round < 6; ++round) {
    std::vector<void*> blocks;
    for (std::size_t i = 0; i < blocks_count; ++i) {
      void* p = calloc(1, bytes);
      ASSERT_NE(p, nullptr);
      ASSERT_TRUE(is_zero(p, bytes)) << "round " << round;
      std::memset(p, 0xab, malloc_usable_size(p));
      blocks.push_back(p);
    }
    for (void* p : blocks) free(p);
    // In every other round the memory goes through the kernel, and once through another size.
    if (round % 2 == 1) malloc_trim(0);
    if (round == 2) {
      for (void*& p : blocks) std::memset(p = malloc(bytes / 2 + 1), 0xcd, bytes / 2 + 1);
      for (void* p : blocks) free(p);
    }
  }
}

TEST_P(CallocOfReusedMemory, IsZeroWhereMallocHandedItOutFirst) {
  const std::size_t bytes = GetParam();
  malloc_trim(0);
  std::vector<void*> blocks(bytes < 100'000 ? 64 : 8);
  for (void*& p : blocks) std::memset(p = malloc(bytes), 0xab, bytes);
  for (void* p : blocks) free(p);
  for (void*& p : blocks) {
    p = calloc(bytes, 1);
    ASSERT_TRUE(is_zero(p, bytes));
  }
  for (void* p : blocks) free(p);
}

INSTANTIATE_TEST_SUITE_P(Sizes, CallocOfReusedMemory,
                         testing::Values(1, 16, 100, 1024, 5000, 65'536, 131'072, 131'073, 300'000,
                                         1'048'576, 1'048'577, 3'000'000, 40'000'000));

// A large block that shrank and grew again contains what others wrote behind its end meanwhile.
TEST(Calloc, IsZeroWherePagesChangedHandsByResizing) {
  for (int round = 0; round < 4; ++round) {
    void* p = malloc(900'000);
    std::memset(p, 0xab, 900'000);
    p = realloc(p, 200'000);
    void* q = calloc(1, 600'000);
    ASSERT_TRUE(is_zero(q, 600'000));
    std::memset(q, 0xcd, 600'000);
    free(p);
    p = calloc(1, 200'000);
    ASSERT_TRUE(is_zero(p, 200'000));
    free(q);
    p = realloc(p, 900'000);
    std::memset(p, 0xef, 900'000);
    free(p);
  }
}

TEST(Calloc, OfFreshMemoryDoesNotTouchIt) {
  malloc_trim(0);
  reset_peak_resident_bytes();
  const std::size_t before = peak_resident_bytes();
  const std::size_t bytes = std::size_t{1} << 30;
  void* p = calloc(bytes, 1);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(static_cast<volatile char*>(p)[bytes - 1], 0);
  EXPECT_LT(peak_resident_bytes(), before + 16 * kMiB);
  free(p);
}

}  // namespace
