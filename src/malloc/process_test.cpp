#include "malloc/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "malloc/statistics.h"
#include "os/child_in_test.h"
#include "os/emulation.h"

// The process's malloc, beside the one that the tests themselves run on: nothing here replaces the
// C library's functions.

namespace strata {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

template <typename Body>
void in_a_thread(Body body) {
  std::thread(body).join();
}

Statistics statistics() { return collect_statistics(g_malloc); }

std::size_t live_objects(std::size_t bytes) {
  return statistics().classes[SizeClassMap::class_of(bytes)].live_objects;
}

TEST(Process, AThreadThatAdoptsAWarmCacheUsesWhatItHolds) {
  // A class that only this test uses, so that nothing else in this process changes its count.
  constexpr std::size_t kBytes = 12'000;
  const std::size_t live_before = live_objects(kBytes);
  std::set<void*> held;
  in_a_thread([&] {
    std::vector<void*> objects;
    for (int i = 0; i < 4; ++i) objects.push_back(allocate(kBytes));
    held.insert(objects.begin(), objects.end());
    for (void* p : objects) deallocate(p);
  });
  in_a_thread([&] {
    // The very first call of the thread takes the slow path, although the bin is not empty.
    void* p = allocate(kBytes);
    EXPECT_EQ(held.count(p), 1u);
    EXPECT_EQ(live_objects(kBytes), live_before + 1);
    deallocate(p);
  });
  EXPECT_EQ(live_objects(kBytes), live_before);
  void* p = nullptr;
  in_a_thread([&] { p = allocate(kBytes); });
  in_a_thread([&] {
    // The same if the first call is a free: there may be an object on top already.
    EXPECT_EQ(live_objects(kBytes), live_before + 1);
    deallocate(p);
    EXPECT_EQ(live_objects(kBytes), live_before);
  });
}

TEST(Process, TenThousandShortThreadsLoseNothing) {
  const auto churn = [] {
    for (int n = 0; n < 4; ++n) {
      std::vector<void*> objects;
      for (std::size_t i = 0; i < 40; ++i) objects.push_back(allocate(i * 37 % 2000));
      for (void* p : objects) deallocate(p);
    }
  };
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kThreads = 500;  // a thread costs a sanitizer much more
#else
  constexpr int kThreads = 10'000;
#endif
  // One after the other in each lane. Several, as each may have to wait for a processor.
  constexpr int kLanes = 4;
  const auto churn_in_lanes = [&](int threads) {
    run_together(kLanes, [&](int) {
      for (int i = 0; i < threads / kLanes; ++i) in_a_thread(churn);
    });
  };
  in_a_thread(churn);  // starts the malloc while there is no other thread
  churn_in_lanes(10 * kLanes);
  const std::size_t mapped = statistics().mapped;
  const std::size_t live = statistics().live;
  churn_in_lanes(kThreads);
  EXPECT_EQ(statistics().live, live);
  // Lanes that meet get pages of other shards. Beyond eight regions as many are mapped at once.
  EXPECT_LE(statistics().mapped, mapped + (kLanes + 8) * kRegionBytes);
  EXPECT_LE(statistics().threads, 2u);
}

TEST(Process, BlocksOfOneThreadAreFreedByAnother) {
  const std::size_t live = statistics().live;
  std::vector<void*> blocks;
  in_a_thread([&] {
    for (std::size_t i = 0; i < 3000; ++i) {
      blocks.push_back(allocate(i % 700));
      std::memset(blocks.back(), 3, i % 700);
    }
  });
  in_a_thread([&] {
    for (void* p : blocks) deallocate(p);
  });
  EXPECT_EQ(statistics().live, live);
}

TEST(Process, SizesNobodyCanHaveSetErrno) {
  for (std::size_t bytes : {SIZE_MAX, std::size_t{PTRDIFF_MAX} + 1, std::size_t{PTRDIFF_MAX}}) {
    errno = 0;
    EXPECT_EQ(allocate(bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(allocate_zeroed(1, bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(allocate_aligned(4096, bytes), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  errno = 0;
  EXPECT_EQ(allocate_zeroed(SIZE_MAX / 2, 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  void* p = allocate(100);
  std::memset(p, 5, 100);
  errno = 0;
  EXPECT_EQ(reallocate(p, SIZE_MAX), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(static_cast<char*>(p)[i], 5);
  deallocate(p);
}

TEST(Process, SuccessLeavesErrnoAlone) {
  errno = 42;
  for (std::size_t bytes : {std::size_t{0}, std::size_t{100}, 50'000ul, 500'000ul, 5 * kMiB}) {
    void* p = allocate(bytes);
    p = reallocate(p, 2 * bytes + 1);
    deallocate(p);
    deallocate(allocate_zeroed(bytes, 2));
    deallocate(allocate_aligned(4096, bytes));
  }
  release_memory();
  EXPECT_EQ(errno, 42);
}

TEST(Process, ZeroBytesIsABlockAndNullIsNone) {
  void* a = allocate(0);
  void* b = allocate(0);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(a, b);
  deallocate(a);
  deallocate(b);
  deallocate(nullptr);
  EXPECT_EQ(usable_bytes(nullptr), 0u);
  for (std::size_t alignment = 1; alignment <= 8 * kMiB; alignment *= 2) {
    void* p = allocate_aligned(alignment, 0);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    EXPECT_EQ(usable_bytes(p) == 0, alignment <= 16);
    deallocate(p);
  }
}

TEST(Process, ZeroedMemoryIsZeroThoughItWasUsedBefore) {
  for (int round = 0; round < 3; ++round) {
    for (std::size_t bytes : {1ul, 16ul, 100ul, 1024ul, 5000ul, 131'072ul, 163'840ul, 163'841ul,
                              700'000ul, 3'000'000ul}) {
      auto* p = static_cast<unsigned char*>(allocate_zeroed(bytes, 1));
      ASSERT_NE(p, nullptr);
      ASSERT_EQ(std::count(p, p + bytes, 0), static_cast<std::ptrdiff_t>(bytes)) << bytes;
      std::memset(p, 0xff, usable_bytes(p));
      deallocate(p);
      if (round == 1) release_memory();
    }
  }
}

TEST(Process, ReallocateKeepsContentsThroughAllKindsOfBlocks) {
  auto* p = static_cast<unsigned char*>(reallocate(nullptr, 10));
  std::size_t bytes = 10;
  for (std::size_t i = 0; i < bytes; ++i) p[i] = static_cast<unsigned char>(i * 7);
  const auto resize = [&](std::size_t to) {
    p = static_cast<unsigned char*>(reallocate(p, to));
    ASSERT_NE(p, nullptr);
    ASSERT_GE(usable_bytes(p), to);
    for (std::size_t i = 0; i < std::min(bytes, to); ++i)
      ASSERT_EQ(p[i], static_cast<unsigned char>(i * 7)) << bytes << " to " << to;
    for (std::size_t i = bytes; i < to; ++i) p[i] = static_cast<unsigned char>(i * 7);
    bytes = to;
  };
  for (std::size_t to : {100ul, 90ul, 5000ul, 200'000ul, 900'000ul, 300'000ul, 2'000'000ul,
                         9'000'000ul, 3'000'000ul, 1'000'000ul, 140'000ul, 60'000ul, 33ul, 1ul}) {
    resize(to);
  }
  EXPECT_EQ(reallocate(p, 0), nullptr);
}

TEST(Process, AForkedChildAllocatesWhileTheParentsThreadsWereInTheMiddleOfIt) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  constexpr int kThreads = 3;
  // The malloc is ready before there are threads: in a program, the library's constructor ensures
  // that.
  deallocate(allocate(1));
  std::atomic<bool> is_over{false};
  std::latch gate(kThreads + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      gate.arrive_and_wait();
      std::size_t size = 1;
      std::vector<void*> blocks;
      while (!is_over.load(std::memory_order_relaxed)) {
        size = (size * 7919 + 13) % 300'000;
        blocks.push_back(allocate(size % 5 == 0 ? size : size % 900));
        if (blocks.size() == 200) {
          for (void* p : blocks) deallocate(p);
          blocks.clear();
        }
      }
      for (void* p : blocks) deallocate(p);
    });
  }
  gate.arrive_and_wait();
  for (int i = 0; i < 20; ++i) {
    const int status = os::status_in_child([&] {
      for (std::size_t k = 0; k < 500; ++k) {
        void* p = allocate(k * 131 % 200'000);
        if (p == nullptr) return 1;
        p = reallocate(p, k * 517 % 2'000'000);
        deallocate(p);
      }
      release_memory();
      return 0;
    });
    ASSERT_EQ(status, 0);
  }
  is_over.store(true);
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessDeathTest, MisuseHasItsSentences) {
  // In a process that still verifies every free, whatever the tests before have cost.
  GTEST_FLAG_SET(death_test_style, os::kSafestDeathTests);
  void* small = allocate(100);
  EXPECT_DEATH(
      {
        deallocate(small);
        deallocate(small);
      },
      "strata: double free of 0x[0-9a-f]+: the object is free already");
  EXPECT_DEATH(deallocate(static_cast<char*>(small) + 8),
               "strata: invalid free of 0x[0-9a-f]+: it is misaligned, no allocation starts there");
  int on_the_stack = 0;
  EXPECT_DEATH(deallocate(&on_the_stack), "strata: invalid free of .*" + os::lies_in_stack());
  EXPECT_DEATH(reallocate(&on_the_stack, 10), "strata: invalid realloc of ");
  EXPECT_DEATH(usable_bytes(&on_the_stack), "strata: invalid malloc_usable_size of ");
  deallocate(small);
}

TEST(ProcessDeathTest, ADoubleFreeIsFoundAtTheLatestWhenBothCopiesLeaveTheCache) {
  void* a = allocate(2000);
  void* b = allocate(2000);
  EXPECT_DEATH(
      {
        deallocate(a);
        deallocate(b);
        deallocate(a);
        release_memory();
      },
      "strata: double free of 0x[0-9a-f]+: the object is free already");
  deallocate(a);
  deallocate(b);
}

}  // namespace
}  // namespace strata
