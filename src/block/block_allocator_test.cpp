#include <strata/block_allocator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "os/page_source.h"

namespace strata {
namespace {

const std::size_t kPage = os::page_bytes();

bool is_aligned(const void* p, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(p) % alignment == 0;
}

template <typename Blocks>
class BlockAllocatorTest : public testing::Test {};
using Forms = testing::Types<BlockAllocator, UncheckedBlockAllocator>;
TYPED_TEST_SUITE(BlockAllocatorTest, Forms);

TYPED_TEST(BlockAllocatorTest, HandsOutFreshBlocksInAddressOrder) {
  PageArena arena(16 * kPage);
  TypeParam blocks(arena, 48, 100);
  auto* previous = static_cast<char*>(blocks.allocate());
  for (int i = 1; i < 100; ++i) {
    auto* block = static_cast<char*>(blocks.allocate());
    EXPECT_EQ(block, previous + 48);
    previous = block;
  }
  EXPECT_EQ(blocks.allocate(), nullptr);
  EXPECT_EQ(blocks.in_use(), 100u);
  EXPECT_EQ(blocks.available(), 0u);
}

TYPED_TEST(BlockAllocatorTest, HandsOutTheBlockFreedLastFirst) {
  PageArena arena(kPage);
  TypeParam blocks(arena, 64, 8);
  void* a = blocks.allocate();
  void* b = blocks.allocate();
  blocks.deallocate(a);
  blocks.deallocate(b);
  EXPECT_EQ(blocks.allocate(), b);
  EXPECT_EQ(blocks.allocate(), a);
}

TYPED_TEST(BlockAllocatorTest, LeavesTheBytesOfAFreeBlockAlone) {
  PageArena arena(kPage);
  TypeParam blocks(arena, 64, 8);
  auto* block = static_cast<char*>(blocks.allocate());
  std::memset(block, 0x77, 64);
  blocks.deallocate(block);
  ASSERT_EQ(blocks.allocate(), block);
  EXPECT_EQ(std::count(block, block + 64, 0x77), 64);
}

TYPED_TEST(BlockAllocatorTest, ServesEverySizeAtEveryAlignmentWithoutOverlap) {
  PageArena arena(4096 * kPage);
  for (std::size_t bytes : {8u, 9u, 12u, 24u, 63u, 64u, 65u, 1000u, 5000u}) {
    for (std::size_t alignment : {1u, 2u, 8u, 16u, 64u, 1024u, 4096u}) {
      TypeParam blocks(arena, bytes, 10, alignment);
      EXPECT_EQ(blocks.block_bytes(), bytes);
      std::vector<char*> live;
      while (auto* block = static_cast<char*>(blocks.allocate())) {
        EXPECT_TRUE(is_aligned(block, alignment));
        std::memset(block, static_cast<int>(live.size()), bytes);
        live.push_back(block);
      }
      ASSERT_EQ(live.size(), 10u);
      for (std::size_t i = 0; i < live.size(); ++i) {
        EXPECT_EQ(std::count(live[i], live[i] + bytes, static_cast<char>(i)),
                  static_cast<std::ptrdiff_t>(bytes));
        blocks.deallocate(live[i]);
      }
      blocks.check_invariants();
      arena.reset();
    }
  }
}

TYPED_TEST(BlockAllocatorTest, LivesInABufferOfTheCallerAtAnyAddress) {
  const std::size_t bytes = TypeParam::buffer_bytes(40, 25, 32);
  std::vector<char> buffer(bytes + 64);
  for (std::size_t skew = 0; skew < 64; skew += 5) {
    std::fill(buffer.begin(), buffer.end(), 0x11);
    TypeParam blocks(buffer.data() + skew, bytes, 40, 32);
    EXPECT_GE(blocks.capacity(), 25u);
    std::vector<void*> live;
    while (void* block = blocks.allocate()) {
      EXPECT_TRUE(is_aligned(block, 32));
      EXPECT_GE(block, buffer.data() + skew);
      std::memset(block, 0x22, 40);
      live.push_back(block);
    }
    EXPECT_EQ(live.size(), blocks.capacity());
    for (void* block : live) blocks.deallocate(block);
    blocks.check_invariants();
    EXPECT_EQ(std::count(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(skew), 0x11),
              static_cast<std::ptrdiff_t>(skew));
    EXPECT_EQ(
        std::count(buffer.begin() + static_cast<std::ptrdiff_t>(skew + bytes), buffer.end(), 0x11),
        static_cast<std::ptrdiff_t>(64 - skew));
  }
}

TYPED_TEST(BlockAllocatorTest, NeedsNoBufferForWhatItRefusesInAny) {
  EXPECT_GT(TypeParam::buffer_bytes(8, 1, 1), 8u);
  EXPECT_EQ(TypeParam::buffer_bytes(7, 10), 0u) << "blocks are at least 8 bytes";
  EXPECT_EQ(TypeParam::buffer_bytes(64, 10, 24), 0u) << "no power of two";
  EXPECT_EQ(TypeParam::buffer_bytes(64, 0), 0u);
  EXPECT_EQ(TypeParam::buffer_bytes(64, SIZE_MAX / 64), 0u);
  EXPECT_EQ(TypeParam::buffer_bytes(SIZE_MAX, 1), 0u);
}

TYPED_TEST(BlockAllocatorTest, SharesAnArenaWithOthers) {
  PageArena arena(64 * kPage);
  TypeParam small(arena, 16, 1000);
  TypeParam large(arena, 1024, 20);
  void* a = small.allocate();
  void* b = large.allocate();
  EXPECT_TRUE(small.owns(a));
  EXPECT_TRUE(large.owns(b));
  EXPECT_FALSE(small.owns(b));
  EXPECT_FALSE(large.owns(a));
  EXPECT_FALSE(small.owns(nullptr));
}

TEST(BlockAllocator, IgnoresNullptr) {
  PageArena arena(kPage);
  BlockAllocator blocks(arena, 64, 4);
  blocks.deallocate(nullptr);
  EXPECT_EQ(blocks.in_use(), 0u);
}

TYPED_TEST(BlockAllocatorTest, ForgetsEverythingOnReset) {
  PageArena arena(kPage);
  TypeParam blocks(arena, 64, 4);
  void* first = blocks.allocate();
  blocks.allocate();
  blocks.deallocate(first);
  blocks.reset();
  EXPECT_EQ(blocks.in_use(), 0u);
  EXPECT_EQ(blocks.allocate(), first);
}

TYPED_TEST(BlockAllocatorTest, KeepsItsBlocksWhenItMoves) {
  static_assert(!std::is_copy_constructible_v<TypeParam> && !std::is_copy_assignable_v<TypeParam>);
  PageArena arena(2 * kPage);
  TypeParam first(arena, 64, 4);
  void* block = first.allocate();
  TypeParam second(std::move(first));
  EXPECT_EQ(first.allocate(), nullptr);  // NOLINT: a moved-from allocator is empty
  EXPECT_TRUE(second.owns(block));
  TypeParam third(arena, 64, 4);
  third = std::move(second);
  third.deallocate(block);
  EXPECT_EQ(third.in_use(), 0u);
}

TYPED_TEST(BlockAllocatorTest, SaysWhyItRefuses) {
  PageArena arena(4 * kPage);
  char buffer[64];
  const auto why = [&](std::size_t bytes, std::size_t capacity, std::size_t alignment) {
    const char* reason = nullptr;
    EXPECT_FALSE(TypeParam::try_create(arena, bytes, capacity, alignment, &reason).has_value());
    return reason;
  };
  EXPECT_STREQ(why(7, 1, 8), "BlockAllocator: the block size is below 8 bytes");
  EXPECT_STREQ(why(64, 1, 24), "BlockAllocator: the alignment is not a power of two");
  EXPECT_STREQ(why(64, 1, 0), "BlockAllocator: the alignment is not a power of two");
  EXPECT_STREQ(why(64, 1, 2 * kPage),
               "BlockAllocator: the alignment is above the arena's page size");
  EXPECT_STREQ(why(64, 0, 8), "BlockAllocator: the capacity is 0");
  EXPECT_STREQ(why(64, 4096, 8), "BlockAllocator: the arena has too few pages left");
  EXPECT_STREQ(why(64, SIZE_MAX / 64, 8), "BlockAllocator: the arena has too few pages left");
  EXPECT_STREQ(why(SIZE_MAX, 1, 8), "BlockAllocator: the arena has too few pages left");
  EXPECT_EQ(arena.pages_allocated(), 0u) << "a refusal must not keep pages";
  const char* reason = nullptr;
  EXPECT_FALSE(TypeParam::try_create(buffer, sizeof buffer, 64, 8, &reason).has_value());
  EXPECT_STREQ(reason, "BlockAllocator: not one block fits into the buffer");
  EXPECT_FALSE(TypeParam::try_create(buffer, sizeof buffer, SIZE_MAX, 8, &reason).has_value());
  EXPECT_STREQ(reason, "BlockAllocator: not one block fits into the buffer");
  EXPECT_FALSE(TypeParam::try_create(nullptr, 4096, 64, 8, &reason).has_value());
  EXPECT_THROW(TypeParam(arena, 7, 1), std::invalid_argument);
  EXPECT_THAT([&] { TypeParam(arena, 64, 4096); },
              testing::ThrowsMessage<std::bad_alloc>(
                  testing::StrEq("BlockAllocator: the arena has too few pages left")));
  EXPECT_THROW(TypeParam(buffer, sizeof buffer, 64), std::invalid_argument);
}

TYPED_TEST(BlockAllocatorTest, AgreesWithAModelUnderRandomOperations) {
  std::mt19937_64 random(seed_of_this_run());
  for (std::size_t capacity : {1u, 2u, 63u, 64u, 257u}) {
    const std::size_t bytes = 8 + random() % 100;
    std::vector<char> buffer(TypeParam::buffer_bytes(bytes, capacity));
    TypeParam blocks(buffer.data(), buffer.size(), bytes);
    std::vector<std::pair<unsigned char*, unsigned char>> live;
    for (int step = 0; step < 3000; ++step) {
      if (random() % 2 == 0) {
        auto* block = static_cast<unsigned char*>(blocks.allocate());
        ASSERT_EQ(block == nullptr, live.size() == blocks.capacity());
        if (block != nullptr) {
          const auto mark = static_cast<unsigned char>(random());
          std::memset(block, mark, bytes);
          live.emplace_back(block, mark);
        }
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        const auto [block, mark] = live.back();
        live.pop_back();
        ASSERT_EQ(std::count(block, block + bytes, mark), static_cast<std::ptrdiff_t>(bytes));
        blocks.deallocate(block);
      }
      ASSERT_EQ(blocks.in_use(), live.size());
      blocks.check_invariants();
    }
  }
}

// --- misuse ------------------------------------------------------------------------------------

class BlockAllocatorDeathTest : public testing::Test {
 protected:
  PageArena arena{16 * kPage};
  BlockAllocator blocks{arena, 64, 100};
};

TEST_F(BlockAllocatorDeathTest, DiesOfADoubleFree) {
  void* block = blocks.allocate();
  blocks.deallocate(block);
  EXPECT_DEATH(blocks.deallocate(block), "strata: free of 0x[0-9a-f]+: it is already free");
}

TEST_F(BlockAllocatorDeathTest, DiesOfAForeignPointer) {
  int mine = 0;
  EXPECT_DEATH(blocks.deallocate(&mine), "free of 0x[0-9a-f]+: it is not memory of this pool");
}

TEST_F(BlockAllocatorDeathTest, DiesOfAPointerFourGigablocksAway) {
  auto* block = static_cast<char*>(blocks.allocate());
  EXPECT_DEATH(blocks.deallocate(block + (std::size_t{64} << 32)), "it is not memory of this pool");
  EXPECT_DEATH(blocks.deallocate(block - (std::size_t{64} << 32)), "it is not memory of this pool");
}

TEST_F(BlockAllocatorDeathTest, DiesOfAPointerIntoABlock) {
  auto* block = static_cast<char*>(blocks.allocate());
  EXPECT_DEATH(blocks.deallocate(block + 8), "it points into a block, not at its start");
  EXPECT_DEATH(blocks.deallocate(block + 1), "it points into a block, not at its start");
}

TEST_F(BlockAllocatorDeathTest, DiesOfABlockThatWasNeverAllocated) {
  auto* block = static_cast<char*>(blocks.allocate());
  EXPECT_DEATH(blocks.deallocate(block + 64), "this block was never allocated");
}

#ifdef STRATA_HAS_ASAN
TEST_F(BlockAllocatorDeathTest, LetsAsanSeeTheUseOfAFreeBlock) {
  auto* block = static_cast<volatile char*>(blocks.allocate());
  blocks.deallocate(const_cast<char*>(block));
  EXPECT_DEATH(block[3] = 1, "use-after-poison");
  auto* next = static_cast<volatile char*>(blocks.allocate());
  EXPECT_DEATH(next[64] = 1, "use-after-poison") << "the next block is still fresh";
}
#endif

}  // namespace
}  // namespace strata
