// Alignment: 16 by default, any power of two on request, and the rules of each function that
// aligns.

#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "support/check.h"

namespace {

bool is_aligned(const void* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

TEST(Alignment, IsSixteenForEverySizeUnasked) {
  for (std::size_t n = 0; n <= std::size_t{3} << 20; n += 1 + n / 64) {
    void* p = malloc(n);
    void* q = calloc(1, n);
    ASSERT_TRUE(is_aligned(p, 16)) << n;
    ASSERT_TRUE(is_aligned(q, 16)) << n;
    p = realloc(p, n + n / 2 + 1);
    ASSERT_TRUE(is_aligned(p, 16)) << n;
    free(p);
    free(q);
  }
}

// Several blocks of each kind at once, since the first one of a span is always aligned.
TEST(Alignment, IsAnyPowerOfTwoOnRequestForEverySize) {
  for (std::size_t alignment = 1; alignment <= std::size_t{1} << 24; alignment *= 2) {
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{17}, std::size_t{100},
          std::size_t{1000}, std::size_t{5000}, std::size_t{40'000}, std::size_t{100'000},
          std::size_t{131'072}, std::size_t{131'073}, std::size_t{300'000},
          std::size_t{2'000'000}}) {
      std::vector<void*> blocks;
      for (int i = 0; i < 4; ++i) {
        errno = 77;
        void* p = memalign(alignment, n);
        ASSERT_NE(p, nullptr) << n << " aligned to " << alignment;
        ASSERT_EQ(errno, 77);
        ASSERT_TRUE(is_aligned(p, alignment)) << n << " aligned to " << alignment;
        ASSERT_GE(malloc_usable_size(p), n);
        std::memset(p, i, n);
        blocks.push_back(p);
        void* q = aligned_alloc(alignment, n);
        ASSERT_TRUE(q != nullptr && is_aligned(q, alignment)) << n << " aligned to " << alignment;
        blocks.push_back(q);
        if (alignment >= sizeof(void*)) {
          ASSERT_EQ(posix_memalign(&q, alignment, n), 0);
          ASSERT_TRUE(q != nullptr && is_aligned(q, alignment)) << n << " aligned to " << alignment;
          blocks.push_back(q);
        }
      }
      for (void* p : blocks) free(p);
    }
  }
}

TEST(Alignment, OfABlockIsFreedAndResizedLikeAnyOther) {
  for (std::size_t alignment = 32; alignment <= std::size_t{1} << 22; alignment *= 4) {
    auto* p = static_cast<char*>(memalign(alignment, 100));
    std::memset(p, 'x', 100);
    p = static_cast<char*>(realloc(p, 5'000'000));
    ASSERT_NE(p, nullptr);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(p[i], 'x');
    p = static_cast<char*>(realloc(p, 50));
    for (int i = 0; i < 50; ++i) ASSERT_EQ(p[i], 'x');
    free(p);
  }
}

TEST(PosixMemalign, RefusesAnAlignmentThatIsNoPowerOfTwoTimesThePointerSize) {
  for (const std::size_t alignment : {0, 1, 2, 4, 7, 12, 24, 40, 4097}) {
    void* out = &out;
    errno = 77;
    EXPECT_EQ(posix_memalign(&out, alignment, 100), EINVAL) << alignment;
    EXPECT_EQ(out, &out) << alignment;
    EXPECT_EQ(errno, 77) << "posix_memalign does not set errno";
  }
}

TEST(AlignedAlloc, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  for (const std::size_t alignment : {0, 3, 24, 4097}) {
    errno = 0;
    EXPECT_EQ(aligned_alloc(alignment, 96), nullptr) << alignment;
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
}

TEST(Memalign, RoundsAnOddAlignmentUpAsGlibcDoes) {
  for (const std::size_t alignment : {0, 3, 24, 100, 4097}) {
    void* p = memalign(alignment, 100);
    std::size_t rounded = 1;
    while (rounded < alignment) rounded *= 2;
    EXPECT_TRUE(p != nullptr && is_aligned(p, rounded)) << alignment;
    free(p);
  }
  for (const std::size_t alignment : {SIZE_MAX, (SIZE_MAX >> 1) + 2}) {
    errno = 0;
    EXPECT_EQ(memalign(opaque(alignment), 1), nullptr);
    EXPECT_EQ(errno, EINVAL) << alignment;
  }
  for (const std::size_t alignment : {(SIZE_MAX >> 1) + 1, (SIZE_MAX >> 2) + 2}) {
    errno = 0;
    EXPECT_EQ(memalign(opaque(alignment), 1), nullptr);
    EXPECT_EQ(errno, ENOMEM) << alignment;
  }
}

TEST(Valloc, AlignsToOsPagesAndPvallocRoundsUpToThem) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t n : {0, 1, 100, 4096, 4097, 100'000, 5'000'000}) {
    void* p = valloc(n);
    EXPECT_TRUE(p != nullptr && is_aligned(p, page)) << n;
    free(p);
    p = pvalloc(n);
    EXPECT_TRUE(p != nullptr && is_aligned(p, page)) << n;
    EXPECT_GE(malloc_usable_size(p), n == 0 ? page : (n + page - 1) / page * page) << n;
    EXPECT_EQ(malloc_usable_size(p) % page, 0u) << n;
    free(p);
  }
  void* const p = pvalloc(page);
  EXPECT_EQ(malloc_usable_size(p), page);
  free(p);
}

}  // namespace
