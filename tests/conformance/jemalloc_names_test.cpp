// jemalloc's functions beside those of the C library, as its manual describes them.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "support/check.h"

namespace {

constexpr int kZero = 0x40;
constexpr int aligned(int log) { return log; }
// Names of arenas and caches, which play no part.
constexpr int kOthers = 3 << 20 | 5 << 8;

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

struct JemallocNames : ::testing::Test {
  void SetUp() override {
    if (mallocx == nullptr) GTEST_SKIP() << "there are none where Strata is an archive";
  }
  void* (*mallocx)(std::size_t, int) = find<void*(std::size_t, int)>("mallocx");
  void* (*rallocx)(void*, std::size_t, int) = find<void*(void*, std::size_t, int)>("rallocx");
  std::size_t (*xallocx)(void*, std::size_t, std::size_t,
                         int) = find<std::size_t(void*, std::size_t, std::size_t, int)>("xallocx");
  std::size_t (*sallocx)(const void*, int) = find<std::size_t(const void*, int)>("sallocx");
  void (*dallocx)(void*, int) = find<void(void*, int)>("dallocx");
  void (*sdallocx)(void*, std::size_t, int) = find<void(void*, std::size_t, int)>("sdallocx");
  std::size_t (*nallocx)(std::size_t, int) = find<std::size_t(std::size_t, int)>("nallocx");
};

bool is_filled(const void* block, std::size_t from, std::size_t to, unsigned char with) {
  const auto* const bytes = static_cast<const unsigned char*>(block);
  while (from != to && bytes[from] == with) ++from;
  return from == to;
}

TEST_F(JemallocNames, MixWithThoseOfTheCLibrary) {
  for (const std::size_t n : {1u, 100u, 5000u, 40'000u, 300'000u, 3'000'000u}) {
    void* p = mallocx(n, kOthers);
    ASSERT_NE(p, nullptr);
    ASSERT_GE(malloc_usable_size(p), n);
    EXPECT_EQ(sallocx(p, 0), malloc_usable_size(p));
    EXPECT_EQ(xallocx(p, n, 2 * n, 0), malloc_usable_size(p)) << "it stays as long as it is";
    EXPECT_LE(nallocx(n, 0), malloc_usable_size(p));
    free(p);
    p = malloc(n);
    dallocx(p, kOthers);
    p = aligned_alloc(64, n);
    sdallocx(p, malloc_usable_size(p), aligned(6));
    p = mallocx(n, 0);
    sdallocx(p, n, 0);
  }
}

TEST_F(JemallocNames, AlignAndClearAsTheFlagsSay) {
  for (const int log : {0, 3, 4, 6, 12, 16, 21}) {
    for (const std::size_t n : {24u, 1000u, 70'000u, 2'000'000u}) {
      void* const dirty = mallocx(n, aligned(log));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(dirty) % (std::uintptr_t{1} << log), 0u);
      std::memset(dirty, 0xee, sallocx(dirty, 0));
      dallocx(dirty, 0);
      void* p = mallocx(n, aligned(log) | kZero);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % (std::uintptr_t{1} << log), 0u);
      ASSERT_TRUE(is_filled(p, 0, sallocx(p, 0), 0)) << "to its end";
      std::memset(p, 0xaa, n);
      for (const std::size_t next : {n + 8, 3 * n, n / 2}) {
        const std::size_t kept = std::min(n, next);
        p = rallocx(p, next, aligned(log) | kZero);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % (std::uintptr_t{1} << log), 0u);
        ASSERT_TRUE(is_filled(p, 0, kept, 0xaa));
        ASSERT_TRUE(next <= n || is_filled(p, n, next, 0))
            << n << " to " << next << ", alignment 2^" << log;
      }
      free(p);
    }
  }
}

TEST_F(JemallocNames, RefuseWhatCannotBe) {
  EXPECT_EQ(nallocx(SIZE_MAX, 0), 0u);
  EXPECT_EQ(mallocx(opaque<std::size_t>(SIZE_MAX / 2), 0), nullptr);
  EXPECT_EQ(mallocx(opaque<std::size_t>(100), aligned(62)), nullptr);
  void* const p = mallocx(100, 0);
  std::memset(p, 0xaa, 100);
  EXPECT_EQ(rallocx(p, SIZE_MAX / 2, 0), nullptr);
  EXPECT_EQ(rallocx(p, SIZE_MAX / 2, aligned(7)), nullptr);
  EXPECT_TRUE(is_filled(p, 0, 100, 0xaa)) << "it is as it was";
  dallocx(p, 0);
}

}  // namespace
