#include <strata/detail/block_stack.hpp>
#include <strata/detail/cell_stride.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace strata::detail {
namespace {

TEST(RunTimeStride, DividesExactlyWhereItDividesAtAll) {
  for (std::size_t stride : {8u, 16u, 24u, 40u, 64u, 72u, 100u * 8u, 4096u, 12288u}) {
    const RunTimeStride by(stride);
    for (std::size_t index : {0u, 1u, 2u, 3u, 1000u, 123457u}) {
      EXPECT_EQ(by.index_of(index * stride), index);
    }
  }
}

TEST(RunTimeStride, GivesANumberAboveEveryQuotientWhereItDoesNot) {
  std::mt19937_64 random(1);
  for (std::size_t stride : {8u, 24u, 40u, 64u, 72u, 800u, 4096u}) {
    const RunTimeStride by(stride);
    const std::size_t highest = std::numeric_limits<std::size_t>::max() / stride;
    for (int i = 0; i < 20000; ++i) {
      const std::size_t offset = i < 5000 ? static_cast<std::size_t>(i) : random();
      if (offset % stride == 0) {
        EXPECT_EQ(by.index_of(offset), offset / stride);
      } else {
        EXPECT_GT(by.index_of(offset), highest) << offset << " by " << stride;
      }
    }
  }
}

TEST(FixedStride, AgreesWithTheStrideKnownAtRunTime) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const std::size_t offset = random();
    EXPECT_EQ(FixedStride<40>::index_of(offset), RunTimeStride(40).index_of(offset));
    EXPECT_EQ(FixedStride<64>::index_of(offset), RunTimeStride(64).index_of(offset));
  }
}

TEST(CellStride, CountsInCellsOfTheLargestPowerOfTwo) {
  for (std::uint32_t stride : {8u, 24u, 32u, 40u, 48u, 256u, 70000u, 1u << 31}) {
    const CellStride by(stride);
    EXPECT_EQ(by.cells() * by.cell_bytes(), stride);
    EXPECT_EQ(by.cells() % 2, 1u);
    for (std::size_t block : {0u, 1u, 2u, 1000u}) {
      EXPECT_EQ(by.index_of(block * stride), block * by.cells());
      EXPECT_EQ(by.quotient_of(block * stride), block * by.cells());
    }
  }
}

TEST(CellStride, GivesANumberAboveEveryCellWhereNoCellStarts) {
  std::mt19937_64 random(3);
  for (std::uint32_t stride : {8u, 24u, 48u, 256u, 70000u}) {
    const CellStride by(stride);
    for (int i = 0; i < 20000; ++i) {
      const std::size_t offset = i < 5000 ? static_cast<std::size_t>(i) : random();
      if (offset % by.cell_bytes() == 0) {
        EXPECT_EQ(by.index_of(offset), offset / by.cell_bytes());
      } else {
        EXPECT_GT(by.index_of(offset), std::numeric_limits<std::size_t>::max() / by.cell_bytes());
      }
    }
  }
}

template <typename StrideOf, Checks kChecks>
struct StackInMemory {
  using Stride = StrideOf;
  using Stack = BlockStack<Stride, kChecks>;
  StackInMemory(Stride stride, std::size_t capacity)
      : blocks(new char[stride.bytes() * capacity]),
        metadata(new void*[Stack::metadata_bytes(capacity, stride.cells()) / sizeof(void*) + 1]()),
        stack(stride, blocks.get(), capacity, metadata.get()) {}
  std::unique_ptr<char[]> blocks;
  std::unique_ptr<void*[]> metadata;
  Stack stack;
};

template <typename Form>
class BlockStackTest : public testing::Test {};
using Forms = testing::Types<
    StackInMemory<RunTimeStride, Checks::kAlways>, StackInMemory<RunTimeStride, Checks::kNever>,
    StackInMemory<CellStride, Checks::kAlways>, StackInMemory<CellStride, Checks::kNever>>;
TYPED_TEST_SUITE(BlockStackTest, Forms);

TYPED_TEST(BlockStackTest, FindsEveryLiveBlockAndNoOther) {
  TypeParam made(typename TypeParam::Stride(24), 100);
  auto& stack = made.stack;
  std::vector<void*> taken(90);
  for (void*& block : taken) ASSERT_NE(block = stack.take(), nullptr);
  for (std::size_t i = 0; i < 90; ++i) {
    if (i % 7 != 3 && i != 89) {
      ASSERT_TRUE(stack.mark_free(taken[i]));
      stack.push(taken[i]);
    }
  }
  stack.refresh_states();
  stack.check_invariants();
  std::size_t expected = 3;
  std::size_t found = 0;
  for (std::size_t i = stack.next_live(0); i < stack.fresh_end(); i = stack.next_live(i + 1)) {
    EXPECT_EQ(stack.at(i), taken[expected]);
    expected = expected + 7 > 89 ? 89 : expected + 7;
    ++found;
  }
  EXPECT_EQ(found, stack.live());
  EXPECT_EQ(found, 14u);
}

TYPED_TEST(BlockStackTest, HandsOutItsCapacityAndNoMore) {
  TypeParam made(typename TypeParam::Stride(40), 7);
  EXPECT_EQ(made.stack.capacity(), 7u);
  EXPECT_EQ(made.stack.bytes(), 280u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(made.stack.take(), made.blocks.get() + 40 * i);
  EXPECT_TRUE(made.stack.is_exhausted());
  EXPECT_EQ(made.stack.take(), nullptr);
  EXPECT_EQ(made.stack.live(), 7u);
}

TEST(BlockStackOfCells, TellsABlockFromEveryOtherAddressInItsRange) {
  StackInMemory<CellStride, Checks::kAlways> made(CellStride(48), 20);
  for (int i = 0; i < 10; ++i) made.stack.take();
  const char* first = made.blocks.get();
  for (int offset = -100; offset < 20 * 48 + 100; ++offset) {
    const char* p = first + offset;
    if (offset >= 0 && offset % 48 == 0 && offset < 10 * 48) continue;
    EXPECT_FALSE(made.stack.mark_free(p)) << offset;
    EXPECT_EQ(made.stack.fault_of(p), offset < 0 || offset >= 20 * 48 ? BadPointer::kForeign
                                      : offset % 48 != 0              ? BadPointer::kInside
                                                         : BadPointer::kNeverAllocated);
  }
}

static_assert(sizeof(BlockStack<CellStride, Checks::kAlways>) <= kCacheLineBytes,
              "a class of a SizeClassAllocator costs one cache line");

TEST(BlockLayout, KeepsTheBookkeepingACacheLineAwayFromTheLastBlock) {
  for (std::size_t stride : {8u, 24u, 64u, 4096u}) {
    for (std::size_t capacity : {1u, 7u, 64u, 1000u}) {
      const auto layout = BlockLayout::of(stride, capacity);
      EXPECT_GE(layout.metadata_offset, stride * capacity + kCacheLineBytes);
      EXPECT_EQ(layout.metadata_offset % sizeof(void*), 0u);
    }
  }
}

TEST(BlockLayout, FillsABufferWithAsManyBlocksAsFit) {
  for (std::size_t stride : {8u, 24u, 64u}) {
    for (std::size_t bytes = 0; bytes < 3000; bytes += 7) {
      const std::size_t capacity = BlockLayout::capacity_for(stride, bytes);
      if (capacity != 0) {
        EXPECT_LE(BlockLayout::of(stride, capacity).bytes, bytes);
      }
      EXPECT_GT(BlockLayout::of(stride, capacity + 1).bytes, bytes);
    }
  }
}

TEST(BlockLayout, RefusesWhatOverflowsTheAddressSpace) {
  EXPECT_EQ(BlockLayout::of(64, std::numeric_limits<std::size_t>::max() / 64).stride, 0u);
  EXPECT_EQ(BlockLayout::of(std::numeric_limits<std::size_t>::max() - 63, 1).stride, 0u);
  EXPECT_EQ(BlockLayout::capacity_for(0, 4096), 0u);
  // With a block's bookkeeping added, some of these strides wrap around, even to 0.
  for (std::size_t less = 0; less < 32; ++less) {
    const std::size_t stride = std::numeric_limits<std::size_t>::max() - less;
    EXPECT_EQ(BlockLayout::capacity_for(stride, 4096), 0u) << less;
    EXPECT_EQ(BlockLayout::capacity_for(stride, 4096, 4), 0u) << less;
  }
}

TEST(BlockLayout, CountsNoMoreBlocksThanItCanLayOut) {
  for (std::size_t bytes :
       {std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max() / 2}) {
    for (std::size_t stride : {std::size_t{8}, std::size_t{64}, bytes / 2}) {
      const std::size_t capacity = BlockLayout::capacity_for(stride, bytes);
      const BlockLayout layout = BlockLayout::of(stride, capacity);
      EXPECT_TRUE(capacity == 0 || (layout.stride == stride && layout.bytes <= bytes)) << stride;
    }
  }
}

}  // namespace
}  // namespace strata::detail
