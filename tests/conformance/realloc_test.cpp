// realloc: contents, addresses, and huge blocks that grow without being copied.

#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <random>

#include "support/check.h"
#include "support/memory.h"

namespace {

/// Bytes that depend on their offset, so that a shift shows.
void fill(char* p, std::size_t from, std::size_t to, unsigned seed) {
  for (std::size_t i = from; i < to; ++i) p[i] = static_cast<char>(seed + i * 7 + (i >> 8));
}

bool holds(const char* p, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (p[i] != static_cast<char>(seed + i * 7 + (i >> 8))) return false;
  }
  return true;
}

TEST(Realloc, OfNullAllocates) {
  void* p = realloc(nullptr, 100);
  ASSERT_NE(p, nullptr);
  free(p);
}

TEST(Realloc, ToZeroFreesAndReturnsNullWithoutAnError) {
  for (const std::size_t n : {1, 100, 5000, 200'000, 5'000'000}) {
    void* p = malloc(n);
    errno = 77;
    EXPECT_EQ(realloc(p, opaque<std::size_t>(0)), nullptr);
    EXPECT_EQ(errno, 77);
  }
}

TEST(Realloc, KeepsContentsBetweenAllSizes) {
  const std::size_t sizes[] = {1,         16,        17,        100,       1024,      1025,
                               5000,      65'536,    131'073,   163'840,   163'841,   524'288,
                               1'048'576, 1'048'577, 2'000'000, 5'000'000, 20'000'000};
  for (const std::size_t from : sizes) {
    for (const std::size_t to : sizes) {
      auto* p = static_cast<char*>(malloc(from));
      fill(p, 0, from, 3);
      errno = 77;
      p = static_cast<char*>(realloc(p, to));
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(errno, 77);
      ASSERT_GE(malloc_usable_size(p), to);
      ASSERT_TRUE(holds(p, std::min(from, to), 3)) << from << " to " << to;
      std::memset(p, 1, to);
      free(p);
    }
  }
}

TEST(Realloc, KeepsContentsInRandomWalksOfManyBlocks) {
  const char* given = getenv("STRATA_SEED");
  const auto seed = given != nullptr ? static_cast<unsigned>(strtoul(given, nullptr, 10))
                                     : std::random_device{}();
  SCOPED_TRACE(testing::Message() << "STRATA_SEED=" << seed);
  std::mt19937 random(seed);
  struct Block {
    char* p = nullptr;
    std::size_t bytes = 0;
  } blocks[40];
  for (int step = 0; step < 8000; ++step) {
    Block& block = blocks[random() % 40];
    const unsigned tag = static_cast<unsigned>(&block - blocks) * 31;
    const std::size_t bytes = 1 + random() % (std::size_t{1} << (4 + random() % 19));
    auto* p = static_cast<char*>(realloc(block.p, bytes));
    ASSERT_NE(p, nullptr);
    ASSERT_TRUE(holds(p, std::min(std::min(bytes, block.bytes), std::size_t{4096}), tag));
    const std::size_t kept = std::min(bytes, block.bytes);
    if (kept != 0) {
      ASSERT_EQ(p[kept - 1], static_cast<char>(tag + (kept - 1) * 7 + ((kept - 1) >> 8)));
    }
    fill(p, kept, bytes, tag);
    block = {p, bytes};
  }
  for (Block& block : blocks) free(block.p);
}

TEST(Realloc, StaysInPlaceWhereTheSizeClassAllows) {
  for (const std::size_t n : {100, 1000, 10'000, 100'000}) {
    void* p = malloc(n);
    EXPECT_EQ(realloc(p, malloc_usable_size(p)), p) << n;
    EXPECT_EQ(realloc(p, n), p) << n;
    free(p);
  }
}

TEST(Realloc, ThatFailsLeavesTheBlockAsItWas) {
  for (const std::size_t n : {100, 5000, 200'000, 5'000'000}) {
    auto* p = static_cast<char*>(malloc(n));
    fill(p, 0, n, 5);
    for (const std::size_t impossible : {SIZE_MAX, SIZE_MAX / 2, std::size_t{PTRDIFF_MAX}}) {
      errno = 0;
      ASSERT_EQ(realloc(p, opaque(impossible)), nullptr);
      ASSERT_EQ(errno, ENOMEM);
      ASSERT_TRUE(holds(p, n, 5));
      ASSERT_GE(malloc_usable_size(p), n);
    }
    free(p);
  }
}

// While it copied, both blocks would be in memory, 128 MiB of each.
TEST(Realloc, GrowsHugeBlocksWithoutCopyingThem) {
  std::size_t bytes = 128 * kMiB;
  auto* p = static_cast<char*>(malloc(bytes));
  std::memset(p, 0x5a, bytes);
  reset_peak_resident_bytes();
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 4; ++i) {
    // A block behind it, so that it cannot merely be extended.
    void* in_the_way = malloc(2 * kMiB);
    bytes *= 2;
    p = static_cast<char*>(realloc(p, bytes));
    ASSERT_NE(p, nullptr);
    free(in_the_way);
  }
  EXPECT_LT(peak_resident_bytes(), before + 64 * kMiB);
  for (std::size_t i = 0; i < 128 * kMiB; i += 4096) ASSERT_EQ(p[i], 0x5a);
  p = static_cast<char*>(realloc(p, 128 * kMiB));
  EXPECT_LT(peak_resident_bytes(), before + 64 * kMiB);
  for (std::size_t i = 0; i < 128 * kMiB; i += 4096) ASSERT_EQ(p[i], 0x5a);
  free(p);
}

TEST(Realloc, GivesBackTheEndOfAHugeBlockThatShrinks) {
  auto* p = static_cast<char*>(malloc(256 * kMiB));
  std::memset(p, 1, 256 * kMiB);
  const std::size_t before = resident_bytes();
  p = static_cast<char*>(realloc(p, 16 * kMiB));
  ASSERT_NE(p, nullptr);
  malloc_trim(0);
  EXPECT_LT(resident_bytes(), before - 200 * kMiB);
  free(p);
}

}  // namespace
