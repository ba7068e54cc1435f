#include "thread_cache/cache_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "os/fake_page_source.h"
#include "span/fake_address_space.h"

namespace strata {
namespace {

/// A budget over a heap whose size a test sets.
struct CacheBudgetTest : ::testing::Test {
  static constexpr std::size_t kKiB = 1024;
  static constexpr std::size_t kMiB = 1024 * kKiB;

  ~CacheBudgetTest() override { set_heap(0); }

  void set_heap(std::size_t bytes) { set_heap_pages(bytes / kPageBytes); }
  void set_heap_pages(std::size_t count) {
    while (space.heap.used_pages() > count) {
      space.heap.deallocate(*blocks.back());
      blocks.pop_back();
    }
    while (space.heap.used_pages() < count) {
      const std::size_t missing = count - space.heap.used_pages();
      const std::size_t block = std::min(missing, kMiB / kPageBytes);
      blocks.push_back(space.heap.allocate(static_cast<unsigned>(block)));
      ASSERT_NE(blocks.back(), nullptr);
    }
  }
  void set_threads(unsigned count) {
    for (; threads < count; ++threads) budget.add_thread();
    for (; threads > count; --threads) budget.remove_thread();
  }

  os::FakePageSource pages;
  FakeAddressSpace space{pages};
  CacheBudget budget{space.heap, 32 * kMiB};
  std::vector<Span*> blocks;
  unsigned threads = 0;
};

TEST_F(CacheBudgetTest, AllThreadsTogetherMayHoldHalfOfTheHeapAndTwoMebibytesAtTheLeast) {
  EXPECT_EQ(budget.share_bytes(), 2 * kMiB) << "before the first thread";
  set_threads(1);
  EXPECT_EQ(budget.share_bytes(), 2 * kMiB);
  set_heap(4 * kMiB);
  EXPECT_EQ(budget.share_bytes(), 2 * kMiB);
  set_heap(4 * kMiB + 2 * kPageBytes);
  EXPECT_EQ(budget.share_bytes(), 2 * kMiB + kPageBytes);
  set_heap(10 * kMiB);
  EXPECT_EQ(budget.share_bytes(), 5 * kMiB);
  set_heap(kMiB);
  set_threads(512);
  EXPECT_EQ(budget.share_bytes(), 4 * kKiB) << "each thread has an equal part";
  set_threads(3);
  EXPECT_EQ(budget.share_bytes(), 2 * kMiB / 3);
}

TEST_F(CacheBudgetTest, AThreadsPartBeyondHalfAMebibyteIsAModestShareOfTheHeap) {
  set_heap(64 * kMiB);
  EXPECT_EQ(budget.share_bytes(), 12 * kMiB) << "4 MiB and an eighth";
  set_threads(8);
  EXPECT_EQ(budget.share_bytes(), 12 * kMiB / 8);
  set_threads(24);
  EXPECT_EQ(budget.share_bytes(), 512 * kKiB);
  set_threads(40);
  EXPECT_EQ(budget.share_bytes(), 512 * kKiB) << "more than an eighth, less than half of the heap";
  set_threads(64);
  EXPECT_EQ(budget.share_bytes(), 512 * kKiB);
  set_threads(128);
  EXPECT_EQ(budget.share_bytes(), 32 * kMiB / 128) << "half of the heap";
}

TEST_F(CacheBudgetTest, NoShareIsMoreThanTheMost) {
  set_heap(256 * kMiB);
  set_threads(2);
  EXPECT_EQ(budget.share_bytes(), 16 * kMiB) << "4 MiB and an eighth would be 36 MiB";
  EXPECT_EQ(budget.lasting_share_bytes(), 16 * kMiB);
  budget.set_most_bytes(33 * kMiB);
  EXPECT_EQ(budget.share_bytes(), 33 * kMiB / 2);
  budget.set_most_bytes(1000);
  EXPECT_EQ(budget.share_bytes(), 500u);
  EXPECT_EQ(budget.lasting_share_bytes(), 500u);
  budget.set_most_bytes(0);
  EXPECT_EQ(budget.share_bytes(), 0u);
  EXPECT_EQ(budget.lasting_share_bytes(), 0u);
}

TEST_F(CacheBudgetTest, TheShareOfLastingLoadsIsHalfOfTheHeapOr32Mebibytes) {
  budget.set_most_bytes(1024 * kMiB);
  set_threads(4);
  EXPECT_EQ(budget.lasting_share_bytes(), 8 * kMiB);
  set_heap(64 * kMiB);
  EXPECT_EQ(budget.lasting_share_bytes(), 8 * kMiB);
  set_heap(80 * kMiB);
  EXPECT_EQ(budget.lasting_share_bytes(), 10 * kMiB);
}

TEST_F(CacheBudgetTest, UnderPressureAllThreadsTogetherHave256Kibibytes) {
  set_heap(64 * kMiB);
  set_threads(2);
  budget.set_pressure(true);
  EXPECT_EQ(budget.share_bytes(), 128 * kKiB);
  EXPECT_EQ(budget.lasting_share_bytes(), 128 * kKiB);
  set_heap(0);
  EXPECT_EQ(budget.share_bytes(), 128 * kKiB);
  budget.set_most_bytes(100 * kKiB);
  EXPECT_EQ(budget.share_bytes(), 50 * kKiB) << "no more than the most";
  budget.set_pressure(false);
  budget.set_most_bytes(32 * kMiB);
  EXPECT_EQ(budget.share_bytes(), 1 * kMiB);
}

TEST_F(CacheBudgetTest, TheHeapOfOneShardIsAsLargeAsItIsNow) {
  set_heap_pages(1000);
  EXPECT_EQ(budget.heap_pages(), 1000u);
  set_heap_pages(1001);
  EXPECT_EQ(budget.heap_pages(), 1001u);
}

TEST_F(CacheBudgetTest, TheHeapOfSeveralShardsIsAsLargeAsItWasSeenUnlessTheChangeIsLittle) {
  space.split_heap();
  const auto see = [&](std::size_t count) {
    set_heap_pages(count);
    budget.look_at_heap();
    return budget.heap_pages();
  };
  EXPECT_EQ(see(160), 160u);
  EXPECT_EQ(see(170), 160u) << "a sixteenth more is not worth a write";
  EXPECT_EQ(see(150), 160u);
  set_heap_pages(1600);
  EXPECT_EQ(budget.heap_pages(), 160u) << "nobody has looked";
  EXPECT_EQ(budget.share_bytes(), 160 * kPageBytes / 2);
  EXPECT_EQ(see(1600), 1600u);
  EXPECT_EQ(see(1500), 1600u);
  EXPECT_EQ(see(1499), 1499u);
  EXPECT_EQ(see(1499 + 93), 1499u);
  EXPECT_EQ(see(1499 + 94), 1499u + 94);
  EXPECT_EQ(see(0), 0u);
  EXPECT_EQ(see(1), 1u) << "a sixteenth of nothing is nothing";
}

}  // namespace
}  // namespace strata
