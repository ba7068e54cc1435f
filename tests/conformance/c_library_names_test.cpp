// The C library's own names for its allocation functions. Where Strata is a shared library, they
// are Strata's, and do the same as the usual names.

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "support/check.h"

namespace {

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

struct CLibraryNames : ::testing::Test {
  void SetUp() override {
    Dl_info file;
    Dl_info c_library;
    ASSERT_NE(dladdr(reinterpret_cast<void*>(allocate), &file), 0);
    ASSERT_NE(dladdr(reinterpret_cast<void*>(&gnu_get_libc_version), &c_library), 0);
    if (file.dli_fbase == c_library.dli_fbase)
      GTEST_SKIP() << "they are the C library's where Strata is an archive";
  }
  void* (*allocate)(std::size_t) = find<void*(std::size_t)>("__libc_malloc");
  void (*free_block)(void*) = find<void(void*)>("__libc_free");
};

bool is_aligned(const void* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

TEST_F(CLibraryNames, FreeWhatTheyAllocate) {
  auto* const free_too = find<void(void*)>("cfree");
  auto* const reallocate = find<void*(void*, std::size_t)>("__libc_realloc");
  const std::size_t before = mallinfo2().hblks;
  for (auto* give_back : {free_block, free_too}) {
    void* p = reallocate(allocate(opaque<std::size_t>(100)), std::size_t{5} << 20);
    EXPECT_EQ(mallinfo2().hblks, before + 1);
    give_back(p);
    EXPECT_EQ(mallinfo2().hblks, before);
  }
}

TEST_F(CLibraryNames, ClearWhatIsToBeZero) {
  auto* const allocate_zeroed = find<void*(std::size_t, std::size_t)>("__libc_calloc");
  for (int i = 0; i < 100; ++i) {
    void* const used = std::memset(allocate(240), 'x', 240);
    free_block(opaque(used));
    auto* const p = static_cast<unsigned char*>(allocate_zeroed(opaque<std::size_t>(10), 24));
    for (int at = 0; at < 240; ++at) ASSERT_EQ(p[at], 0);
    free_block(p);
  }
  EXPECT_EQ(allocate_zeroed(opaque(SIZE_MAX), 2), nullptr);
}

TEST_F(CLibraryNames, AlignAsTheUsualNamesDo) {
  auto* const align = find<void*(std::size_t, std::size_t)>("__libc_memalign");
  auto* const align_to_pages = find<void*(std::size_t)>("__libc_valloc");
  auto* const allocate_pages = find<void*(std::size_t)>("__libc_pvalloc");
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < 4; ++i) {  // the first of a span is aligned by accident
    void* p = align(opaque<std::size_t>(3000), 100);
    EXPECT_TRUE(p != nullptr && is_aligned(p, 4096)) << "rounded up to a power of two";
    p = align_to_pages(opaque<std::size_t>(100));
    EXPECT_TRUE(p != nullptr && is_aligned(p, page));
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, page, page + 1}) {
      p = allocate_pages(opaque(bytes));
      ASSERT_TRUE(p != nullptr && is_aligned(p, page)) << bytes;
      EXPECT_GE(malloc_usable_size(p), bytes <= page ? page : 2 * page) << bytes;
    }
  }
  errno = 0;
  EXPECT_EQ(allocate_pages(opaque(SIZE_MAX - 1)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
