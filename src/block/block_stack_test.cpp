#include <strata/detail/block_stack.hpp>
#include <strata/detail/short_stride.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <random>

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

TEST(ShortStride, AgreesWithTheOtherStridesBelowFourGibibytes) {
  std::mt19937_64 random(3);
  for (std::uint32_t stride : {8u, 24u, 32u, 40u, 72u, 256u, 70000u, 1u << 31}) {
    for (int i = 0; i < 20000; ++i) {
      const std::uint64_t offset = i < 5000 ? static_cast<unsigned>(i) : random() >> 32;
      if (offset % stride == 0) {
        EXPECT_EQ(ShortStride(stride).index_of(offset), offset / stride);
        EXPECT_EQ(ShortStride(stride).quotient_of(offset), offset / stride);
      } else {
        EXPECT_EQ(ShortStride(stride).index_of(offset), ~std::size_t{0});
      }
    }
  }
}

template <typename Stack>
struct StackInMemory {
  StackInMemory(std::size_t stride, std::size_t capacity)
      : blocks(new char[stride * capacity]),
        metadata(new void*[Stack::metadata_bytes(capacity) / sizeof(void*) + 1]),
        stack(RunTimeStride(stride), blocks.get(), capacity, metadata.get()) {}
  std::unique_ptr<char[]> blocks;
  std::unique_ptr<void*[]> metadata;
  Stack stack;
};

template <typename Stack>
class BlockStackTest : public testing::Test {};
using Forms = testing::Types<BlockStack<RunTimeStride, Checks::kAlways>,
                             BlockStack<RunTimeStride, Checks::kNever>>;
TYPED_TEST_SUITE(BlockStackTest, Forms);

TYPED_TEST(BlockStackTest, FindsEveryLiveBlockAndNoOther) {
  StackInMemory<TypeParam> made(24, 100);
  TypeParam& stack = made.stack;
  for (int i = 0; i < 90; ++i) ASSERT_NE(stack.take(), nullptr);
  for (std::size_t i = 0; i < 90; ++i) {
    if (i % 7 != 3 && i != 89) {
      ASSERT_TRUE(stack.mark_free(stack.at(i)));
      stack.push(stack.at(i));
    }
  }
  stack.refresh_states();
  stack.check_invariants();
  std::size_t expected = 3;
  std::size_t found = 0;
  for (std::size_t i = stack.next_live(0); i < stack.fresh_count(); i = stack.next_live(i + 1)) {
    EXPECT_EQ(i, expected);
    EXPECT_TRUE(stack.is_live(stack.at(i)));
    expected = i + 7 > 89 ? 89 : i + 7;
    ++found;
  }
  EXPECT_EQ(found, stack.live());
}

static_assert(sizeof(BlockStack<ShortStride, Checks::kAlways>) <= kCacheLineBytes,
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
}

}  // namespace
}  // namespace strata::detail
