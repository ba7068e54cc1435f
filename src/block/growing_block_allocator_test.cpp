#include <strata/block_allocator.hpp>
#include <strata/detail/bits.hpp>
#include <strata/detail/cache_line.hpp>
#include <strata/growing_block_allocator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "os/page_source.h"

namespace strata {
namespace {

const std::size_t kOsPage = os::page_bytes();

std::size_t divided_up(std::size_t x, std::size_t by) { return (x + by - 1) / by; }

TEST(GrowingBlockAllocator, TakesAPageOnlyWhenAllBlocksAreInUse) {
  PageArena arena(8 * kOsPage);
  GrowingBlockAllocator blocks(arena, 64);
  EXPECT_EQ(arena.pages_allocated(), 0u) << "nothing before the first block";
  std::vector<void*> live;
  while (void* block = blocks.allocate()) {
    live.push_back(block);
    ASSERT_EQ(blocks.pages(), divided_up(live.size(), blocks.blocks_per_page()));
    ASSERT_EQ(arena.pages_allocated(), blocks.pages());
  }
  EXPECT_EQ(live.size(), 8 * blocks.blocks_per_page());
  blocks.deallocate(live.back());
  EXPECT_EQ(blocks.allocate(), live.back()) << "usable again once a block is back";
  EXPECT_EQ(blocks.allocate(), nullptr);
  blocks.check_invariants();
}

TEST(GrowingBlockAllocator, KeepsNearlyAllOfAPageForBlocks) {
  PageArena arena(kOsPage);
  GrowingBlockAllocator blocks(arena, 64);
  const std::size_t bits = kOsPage / 64;
  EXPECT_GE(blocks.blocks_per_page() * 64, kOsPage - 2 * 64 - bits / 8);
}

/// Whether so many blocks, their bits and the rest of a page's record fit into a page.
bool fits(std::size_t page, std::size_t stride, std::size_t count) {
  const std::size_t record = 4 * sizeof(void*) + divided_up(count, 64) * 8;
  return count * stride + record <= page &&
         count * stride <= detail::round_down(page - record, detail::kCacheLineBytes);
}

TEST(GrowingBlockAllocator, APageHasAsManyBlocksAsFit) {
  for (const std::size_t page : {kOsPage, 16 * kOsPage, std::size_t{1} << 30}) {
    PageArena arena(page, page);
    for (std::size_t bytes = 8; bytes <= kOsPage; bytes += bytes < 600 ? 8 : 88) {
      const auto blocks = GrowingBlockAllocator::try_create(arena, bytes, 8);
      const std::size_t count = blocks ? blocks->blocks_per_page() : 0;
      ASSERT_TRUE(count == 0 || fits(page, bytes, count)) << bytes << " bytes";
      ASSERT_FALSE(fits(page, bytes, count + 1)) << bytes << " bytes";
    }
  }
}

TEST(GrowingBlockAllocator, TheLowestFreeBlockOfAPageComesFirst) {
  PageArena arena(kOsPage);
  GrowingBlockAllocator blocks(arena, 16);
  std::vector<char*> live;
  for (std::size_t i = 0; i < 200; ++i) live.push_back(static_cast<char*>(blocks.allocate()));
  EXPECT_TRUE(std::is_sorted(live.begin(), live.end()));
  for (const std::size_t i : {150u, 3u, 70u}) blocks.deallocate(live[i]);
  EXPECT_EQ(blocks.allocate(), live[3]);
  EXPECT_EQ(blocks.allocate(), live[70]);
  EXPECT_EQ(blocks.allocate(), live[150]);
}

TEST(GrowingBlockAllocator, ServesEverySizeAtEveryAlignmentWithoutOverlap) {
  PageArena arena(4096 * kOsPage, 16 * kOsPage);
  for (std::size_t bytes : {8u, 9u, 12u, 24u, 63u, 64u, 65u, 1000u, 5000u}) {
    for (std::size_t alignment : {1u, 2u, 8u, 16u, 64u, 1024u, 4096u}) {
      GrowingBlockAllocator blocks(arena, bytes, alignment);
      std::vector<char*> live;
      for (std::size_t i = 0; i < 2 * blocks.blocks_per_page() + 1; ++i) {
        auto* block = static_cast<char*>(blocks.allocate());
        ASSERT_NE(block, nullptr);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
        std::memset(block, static_cast<int>(i), bytes);
        live.push_back(block);
      }
      for (std::size_t i = 0; i < live.size(); ++i) {
        ASSERT_EQ(std::count(live[i], live[i] + bytes, static_cast<char>(i)),
                  static_cast<std::ptrdiff_t>(bytes));
        blocks.deallocate(live[i]);
      }
      blocks.check_invariants();
    }
    arena.reset();
  }
}

/// One of several allocators over an arena, and the expected contents of its blocks.
struct Tenant {
  GrowingBlockAllocator blocks;
  std::vector<std::pair<char*, char>> live;
  std::size_t most = 0;
};

using GrowingBlockAllocatorModel = SeededTest;

TEST_F(GrowingBlockAllocatorModel, HoldsWhileSeveralShareAnArena) {
  PageArena arena(200 * kOsPage);
  std::vector<Tenant> tenants;
  for (std::size_t bytes : {8u, 24u, 64u, 300u, 1000u})
    tenants.push_back({GrowingBlockAllocator(arena, bytes, 8), {}});
  std::size_t others = 0;  // pages that somebody else took
  for (int step = 0; step < 60000; ++step) {
    Tenant& tenant = tenants[below(tenants.size())];
    GrowingBlockAllocator& blocks = tenant.blocks;
    const std::size_t bytes = blocks.block_bytes();
    if (below(1000) == 0 && arena.available_pages() > 100) {
      std::memset(arena.allocate_page(), 0xff, kOsPage);
      ++others;
    } else if (below(2) == 0 && tenant.live.size() < 40 * (kOsPage / bytes) / tenants.size()) {
      auto* block = static_cast<char*>(blocks.allocate());
      ASSERT_NE(block, nullptr);
      std::memset(block, static_cast<char>(step), bytes);
      tenant.live.emplace_back(block, static_cast<char>(step));
      tenant.most = std::max(tenant.most, tenant.live.size());
    } else if (!tenant.live.empty()) {
      std::swap(tenant.live[below(tenant.live.size())], tenant.live.back());
      const auto [block, mark] = tenant.live.back();
      ASSERT_EQ(std::count(block, block + bytes, mark), static_cast<std::ptrdiff_t>(bytes));
      for (const Tenant& each : tenants)
        ASSERT_EQ(each.blocks.owns(block + bytes - 1), &each == &tenant);
      blocks.deallocate(block);
      tenant.live.pop_back();
    }
    ASSERT_EQ(blocks.in_use(), tenant.live.size());
    ASSERT_EQ(blocks.pages(), divided_up(tenant.most, blocks.blocks_per_page()));
    if (step % 1000 == 0) blocks.check_invariants();
  }
  std::size_t pages = others;
  for (Tenant& tenant : tenants) {
    tenant.blocks.check_invariants();
    pages += tenant.blocks.pages();
  }
  EXPECT_EQ(arena.pages_allocated(), pages);
}

TEST(GrowingBlockAllocator, LeavesTheBytesOfAFreeBlockAlone) {
  PageArena arena(kOsPage);
  GrowingBlockAllocator blocks(arena, 64);
  auto* block = static_cast<char*>(blocks.allocate());
  std::memset(block, 0x77, 64);
  blocks.deallocate(block);
  ASSERT_EQ(blocks.allocate(), block);
  EXPECT_EQ(std::count(block, block + 64, 0x77), 64);
}

TEST(GrowingBlockAllocator, KeepsItsPagesOnReset) {
  PageArena arena(4 * kOsPage);
  GrowingBlockAllocator blocks(arena, 1000, 8);
  while (blocks.allocate() != nullptr) {
  }
  blocks.reset();
  EXPECT_EQ(blocks.in_use(), 0u);
  EXPECT_EQ(blocks.pages(), 4u);
  blocks.check_invariants();
  std::size_t count = 0;
  while (blocks.allocate() != nullptr) ++count;
  EXPECT_EQ(count, 4 * blocks.blocks_per_page());
}

TEST(GrowingBlockAllocator, ServesEachBlockOnceAfterAResetWithAPageOpen) {
  PageArena arena(4 * kOsPage);
  GrowingBlockAllocator blocks(arena, 1000, 8);
  for (std::size_t i = 0; i <= blocks.blocks_per_page(); ++i) blocks.allocate();
  blocks.reset();
  blocks.check_invariants();
  std::set<void*> distinct;
  while (void* block = blocks.allocate()) ASSERT_TRUE(distinct.insert(block).second);
  EXPECT_EQ(distinct.size(), 4 * blocks.blocks_per_page());
}

TEST(GrowingBlockAllocator, OwnsNothingOfItsRecords) {
  PageArena arena(kOsPage);
  GrowingBlockAllocator blocks(arena, 1000, 8);
  auto* block = static_cast<char*>(blocks.allocate());
  EXPECT_TRUE(blocks.owns(block + blocks.blocks_per_page() * 1000 - 1));
  EXPECT_FALSE(blocks.owns(block + blocks.blocks_per_page() * 1000));
  EXPECT_FALSE(blocks.owns(block + kOsPage - 1));
}

TEST(GrowingBlockAllocator, KeepsItsBlocksWhenItMoves) {
  PageArena arena(4 * kOsPage);
  GrowingBlockAllocator first(arena, 64);
  void* block = first.allocate();
  GrowingBlockAllocator second(std::move(first));
  EXPECT_EQ(first.pages(), 0u);  // NOLINT: a moved-from allocator is empty
  EXPECT_FALSE(first.owns(block));
  GrowingBlockAllocator third(arena, 128);
  void* other = third.allocate();
  third = std::move(second);
  third.deallocate(block);
  EXPECT_EQ(third.in_use(), 0u);
  EXPECT_EQ(third.block_bytes(), 64u);
  second.deallocate(other);
  third.check_invariants();
}

TEST(GrowingBlockAllocator, SaysWhyItRefuses) {
  PageArena arena(4 * kOsPage);
  const auto why = [&](std::size_t bytes, std::size_t alignment) {
    const char* reason = nullptr;
    EXPECT_FALSE(GrowingBlockAllocator::try_create(arena, bytes, alignment, &reason).has_value());
    return reason;
  };
  EXPECT_STREQ(why(7, 8), "GrowingBlockAllocator: the block size is below 8 bytes");
  EXPECT_STREQ(why(64, 24), "GrowingBlockAllocator: the alignment is not a power of two");
  const char* too_large = "GrowingBlockAllocator: not one block fits into a page of the arena";
  EXPECT_STREQ(why(kOsPage, 8), too_large);
  EXPECT_STREQ(why(64, kOsPage), too_large);
  EXPECT_STREQ(why(SIZE_MAX, 8), too_large);
  EXPECT_STREQ(why(8, SIZE_MAX / 2 + 1), too_large);
  EXPECT_THROW(GrowingBlockAllocator(arena, 7), std::invalid_argument);
  EXPECT_EQ(GrowingBlockAllocator(arena, kOsPage / 2, 8).blocks_per_page(), 1u);
}

TEST(GrowingBlockAllocatorDeath, EveryBadFreeHasASentence) {
  PageArena arena(8 * kOsPage);
  BlockAllocator neighbour(arena, 64, 10);
  GrowingBlockAllocator blocks(arena, 64);
  GrowingBlockAllocator other(arena, 64);
  auto* block = static_cast<char*>(blocks.allocate());
  char local[64];
  EXPECT_DEATH(blocks.deallocate(local), "free of 0x[0-9a-f]+: it is not memory of this pool");
  EXPECT_DEATH(blocks.deallocate(other.allocate()), "it is not memory of this pool");
  EXPECT_DEATH(blocks.deallocate(neighbour.allocate()), "it is not memory of this pool");
  EXPECT_DEATH(blocks.deallocate(block + kOsPage * 5), "it is not memory of this pool");
  EXPECT_DEATH(blocks.deallocate(block + 8), "it points into a block, not at its start");
  EXPECT_DEATH(blocks.deallocate(block + blocks.blocks_per_page() * 64),
               "it is not memory of this pool")
      << "a page's record is in no block";
  EXPECT_DEATH(blocks.deallocate(block + 64), "it is already free");
  blocks.deallocate(nullptr);
  blocks.deallocate(block);
  EXPECT_DEATH(blocks.deallocate(block), "it is already free");
}

TEST(GrowingBlockAllocatorDeath, DiesOfABlockOfAnEarlierOneThatHadTheSamePages) {
  PageArena arena(4 * kOsPage);
  void* stale = nullptr;
  {
    GrowingBlockAllocator earlier(arena, 64);
    for (std::size_t i = 0; i <= earlier.blocks_per_page(); ++i) stale = earlier.allocate();
  }
  arena.reset();
  GrowingBlockAllocator blocks(arena, 64);
  blocks.allocate();
  EXPECT_FALSE(blocks.owns(stale)) << "it has not taken that page yet";
  EXPECT_DEATH(blocks.deallocate(stale), "it is not memory of this pool");
}

#ifdef STRATA_HAS_ASAN
TEST(GrowingBlockAllocatorDeath, AddressSanitizerSeesAUseOfAFreeBlock) {
  PageArena arena(kOsPage);
  GrowingBlockAllocator blocks(arena, 64);
  auto* block = static_cast<volatile char*>(blocks.allocate());
  *block = 1;
  blocks.deallocate(const_cast<char*>(block));
  EXPECT_DEATH(*block = 2, "use-after-poison");
}
#endif

}  // namespace
}  // namespace strata
