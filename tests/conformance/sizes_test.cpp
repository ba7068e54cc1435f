// Which sizes are served, and how the others are refused.

#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <vector>

#include "support/check.h"

// glibc has these two from 2.43 on. A program linked against an older one finds ours at run time.
extern "C" {
[[gnu::weak]] void free_sized(void*, size_t);
[[gnu::weak]] void free_aligned_sized(void*, size_t, size_t);
}

namespace {

template <typename Function>
Function* find(Function* linked, const char* name) {
  if (linked == nullptr) linked = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  EXPECT_NE(linked, nullptr) << name;
  return linked;
}
const auto g_free_sized = find(&free_sized, "free_sized");
const auto g_free_aligned_sized = find(&free_aligned_sized, "free_aligned_sized");

/// Each size class with the sizes on both sides of it, pages, and huge blocks.
std::vector<std::size_t> interesting_sizes() {
  std::vector<std::size_t> sizes;
  for (std::size_t n = 0; n <= 1100; ++n) sizes.push_back(n);
  for (std::size_t power = 2048; power <= (std::size_t{8} << 20); power *= 2) {
    for (std::size_t step = 0; step < 4; ++step) {
      const std::size_t n = power + power / 4 * step;
      sizes.insert(sizes.end(), {n - 1, n, n + 1});
    }
  }
  return sizes;
}

TEST(Malloc, IsStrata) {
  void* p = malloc(opaque<std::size_t>(1));
  ASSERT_EQ(malloc_usable_size(p), 16u) << "another malloc is in charge: glibc's gives 24";
  free(p);
}

TEST(Malloc, ServesEverySizeWithItsBytesUsable) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (const std::size_t n : interesting_sizes()) {
    errno = 77;
    auto* p = static_cast<unsigned char*>(malloc(n));
    ASSERT_NE(p, nullptr) << n;
    ASSERT_EQ(errno, 77) << n;
    ASSERT_GE(malloc_usable_size(p), n);
    std::memset(p, static_cast<int>(n % 251), malloc_usable_size(p));
    blocks.emplace_back(p, n);
  }
  for (const auto& [p, n] : blocks) {
    const std::size_t usable = malloc_usable_size(p);
    for (std::size_t i = 0; i<usable; i += usable> 4096 ? 997 : 1) ASSERT_EQ(p[i], n % 251) << n;
    errno = 77;
    free(p);
    ASSERT_EQ(errno, 77) << n;
  }
}

TEST(Malloc, GivesEveryCallOfSizeZeroABlockOfItsOwn) {
  std::set<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.insert(malloc(opaque<std::size_t>(0)));
  EXPECT_EQ(blocks.size(), 1000u);
  EXPECT_EQ(blocks.count(nullptr), 0u);
  for (void* p : blocks) free(p);

  for (void* p : {calloc(opaque<std::size_t>(0), 8), calloc(8, opaque<std::size_t>(0)),
                  realloc(nullptr, opaque<std::size_t>(0)), memalign(64, opaque<std::size_t>(0)),
                  memalign(std::size_t{4} << 20, opaque<std::size_t>(0)),
                  valloc(opaque<std::size_t>(0)), pvalloc(opaque<std::size_t>(0))}) {
    ASSERT_NE(p, nullptr);
    free(p);  // untouched: unless the level is basic, an access to it may be a fault
  }
}

TEST(Malloc, KeepsHugelyAlignedBlocksOfSizeZeroApart) {
  const std::size_t alignment = std::size_t{8} << 20;
  void* first = memalign(alignment, opaque<std::size_t>(0));
  void* second = memalign(alignment, opaque<std::size_t>(0));
  ASSERT_NE(first, second);
  *static_cast<volatile char*>(first) = 1;
  *static_cast<volatile char*>(second) = 2;
  EXPECT_EQ(*static_cast<volatile char*>(first), 1);
  free(first);
  free(second);
}

TEST(Malloc, RefusesWhatNoObjectCanBeWithEnomem) {
  const std::size_t impossible[] = {SIZE_MAX,     SIZE_MAX - 1,    SIZE_MAX - 4096,
                                    SIZE_MAX / 2, PTRDIFF_MAX,     std::size_t{PTRDIFF_MAX} + 1,
                                    SIZE_MAX / 4, SIZE_MAX - 65536};
  for (const std::size_t n : impossible) {
    const std::size_t bytes = opaque(n);
    errno = 0;
    EXPECT_EQ(malloc(bytes), nullptr) << n;
    EXPECT_EQ(errno, ENOMEM) << n;
    errno = 0;
    EXPECT_EQ(calloc(1, bytes), nullptr) << n;
    EXPECT_EQ(errno, ENOMEM) << n;
    errno = 0;
    EXPECT_EQ(realloc(nullptr, bytes), nullptr) << n;
    EXPECT_EQ(errno, ENOMEM) << n;
    for (const std::size_t alignment :
         {std::size_t{16}, std::size_t{4096}, std::size_t{1} << 21, std::size_t{1} << 40,
          std::size_t{1} << 62, std::size_t{1} << 63}) {
      errno = 0;
      EXPECT_EQ(memalign(alignment, bytes), nullptr) << n;
      EXPECT_EQ(errno, ENOMEM) << n;
      errno = 0;
      EXPECT_EQ(aligned_alloc(alignment, bytes), nullptr) << n;
      EXPECT_EQ(errno, ENOMEM) << n;
      void* out = &out;
      EXPECT_EQ(posix_memalign(&out, alignment, bytes), ENOMEM) << n;
      EXPECT_EQ(out, &out) << "posix_memalign leaves the pointer alone when it fails";
    }
    errno = 0;
    EXPECT_EQ(valloc(bytes), nullptr) << n;
    EXPECT_EQ(errno, ENOMEM) << n;
    errno = 0;
    EXPECT_EQ(pvalloc(bytes), nullptr) << n;
    EXPECT_EQ(errno, ENOMEM) << n;
  }
}

TEST(Malloc, RefusesWhatTheKernelRefusesAProgram) {
  // The address space has room for it, but no machine has so much memory.
  const std::size_t bytes = opaque(std::size_t{32} << 40);
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) {
    munmap(mapped, bytes);
    GTEST_SKIP() << "the kernel promises more memory than there is";
  }
  EXPECT_EQ(malloc(bytes), nullptr);
  EXPECT_EQ(calloc(1, bytes), nullptr);
  EXPECT_EQ(memalign(std::size_t{2} << 20, bytes), nullptr);
  void* const huge = malloc(std::size_t{2} << 20);
  EXPECT_EQ(realloc(huge, bytes), nullptr);
  free(huge);
}

TEST(Malloc, RefusesProductsThatOverflowAndKeepsTheOldBlock) {
  const std::size_t half = (SIZE_MAX >> 32) + 1;
  const std::pair<std::size_t, std::size_t> overflowing[] = {
      {SIZE_MAX, 2}, {2, SIZE_MAX}, {half, half}, {SIZE_MAX, SIZE_MAX}, {SIZE_MAX / 16 + 1, 16}};
  for (const auto& [count, bytes] : overflowing) {
    errno = 0;
    EXPECT_EQ(calloc(opaque(count), opaque(bytes)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    char* old = static_cast<char*>(malloc(10));
    std::memcpy(old, "unchanged", 10);
    errno = 0;
    EXPECT_EQ(reallocarray(old, opaque(count), opaque(bytes)), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_STREQ(old, "unchanged");
    free(old);
  }
  void* p = reallocarray(nullptr, 10, 10);
  ASSERT_GE(malloc_usable_size(p), 100u);
  free(p);
}

TEST(Free, IgnoresNullAndKeepsErrno) {
  errno = 77;
  free(nullptr);
  g_free_sized(nullptr, 0);
  g_free_aligned_sized(nullptr, 16, 0);
  EXPECT_EQ(errno, 77);
}

TEST(Free, TakesBlocksWithTheirSizeAndAlignment) {
  for (const std::size_t n : interesting_sizes()) {
    g_free_sized(malloc(n), n);
    g_free_sized(calloc(n, 1), n);
    g_free_aligned_sized(aligned_alloc(256, n), 256, n);
  }
}

TEST(Free, KeepsErrnoWhileMemoryGoesBackToTheKernel) {
  std::vector<void*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(malloc(std::size_t{3} << 20));
  errno = 77;
  for (void* p : blocks) free(p);
  malloc_trim(0);
  EXPECT_EQ(errno, 77);
}

}  // namespace
