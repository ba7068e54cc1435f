#include <strata/bitmap_pool_view.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <type_traits>
#include <vector>

#include "pool/drain_test.h"

namespace strata {
namespace {

using View = BitmapPoolView<>;
static_assert(std::is_trivially_copyable_v<View>, "a handle");
static_assert(View::required_bytes({64, 0}) == 0 &&
              View::required_alignment({64, 64, 4096}) == 4096);

struct Buffer {
  explicit Buffer(const BitmapPoolShape& shape, std::size_t spare = 0)
      : bytes(View::required_bytes(shape)),
        memory(
            std::aligned_alloc(View::required_alignment(shape),
                               detail::round_up(bytes + spare, View::required_alignment(shape)))) {
    std::memset(memory, 0xa5, bytes);
  }
  ~Buffer() { std::free(memory); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::size_t bytes;
  void* memory;
};

TEST(BitmapPoolView, AnyShapeWorksInABufferOfExactlyTheRequiredBytes) {
  for (const std::size_t capacity :
       {1, 2, 7, 8, 9, 63, 64, 65, 100, 511, 512, 513, 1023, 1024, 5000}) {
    for (const std::size_t block_bytes : {1, 8, 24, 100, 4096}) {
      for (const std::size_t alignment : {0, 1, 16, 256}) {
        const BitmapPoolShape shape{block_bytes, capacity, alignment};
        Buffer buffer(shape);
        View pool = View::try_create(buffer.memory, buffer.bytes, shape);
        ASSERT_TRUE(pool);
        const std::vector<void*> blocks = drain(pool);
        ASSERT_EQ(blocks.size(), capacity);
        for (void* p : blocks) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % pool.block_alignment(), 0u);
          ASSERT_LE(static_cast<char*>(p) + block_bytes,
                    static_cast<char*>(buffer.memory) + buffer.bytes);
          std::memset(p, 0xff, block_bytes);  // into the bits, if they overlapped
        }
        for (void* p : blocks) ASSERT_TRUE(pool.deallocate(p));
        ASSERT_EQ(pool.in_use(), 0u);
        ASSERT_EQ(pool.broken_invariant(), nullptr);
      }
    }
  }
}

TEST(BitmapPoolView, AMillionBlocksInZeroedMemoryCostNoWritePerBlock) {
  const BitmapPoolShape shape{64, 4'000'000};
  const std::size_t bytes = View::required_bytes(shape);
  void* memory = std::calloc(bytes + 64, 1);
  ASSERT_NE(memory, nullptr);
  void* aligned = reinterpret_cast<void*>(
      detail::round_up(reinterpret_cast<std::uintptr_t>(memory), std::uintptr_t{64}));
  View pool = View::try_create_in_zeroed(aligned, bytes, shape);
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool.shape().levels, 3u);
  std::vector<void*> blocks(pool.capacity());
  EXPECT_EQ(pool.allocate_batch(blocks.data(), blocks.size()), blocks.size());
  EXPECT_EQ(pool.allocate(), nullptr);
  for (const std::size_t index : {0ul, 2'000'000ul, 3'999'999ul}) {
    EXPECT_TRUE(pool.deallocate(pool.block(index)));
    EXPECT_EQ(pool.index_of(pool.allocate()), index);
  }
  std::free(memory);
}

TEST(BitmapPoolView, WithoutAPoolItIsFalseAndAlwaysExhausted) {
  View none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.allocate(), nullptr);
  void* p = nullptr;
  EXPECT_EQ(none.allocate_batch(&p, 1), 0u);
  EXPECT_FALSE(none.deallocate(&p));
  EXPECT_FALSE(none.deallocate(nullptr));
  EXPECT_FALSE(none.owns(nullptr));
  EXPECT_EQ(none.in_use(), 0u);
  EXPECT_EQ(none.capacity(), 0u);
}

TEST(BitmapPoolView, SaysWhyThereIsNoPool) {
  const BitmapPoolShape shape{64, 100, 64};
  Buffer buffer(shape, 64);
  BitmapPoolError error{};
  const auto create = [&](void* memory, std::size_t bytes, const BitmapPoolShape& wanted) {
    EXPECT_FALSE(View::try_create(memory, bytes, wanted, &error));
    return error;
  };
  EXPECT_EQ(create(buffer.memory, buffer.bytes, {0, 100}), BitmapPoolError::kShape);
  EXPECT_EQ(create(buffer.memory, buffer.bytes, {64, 100, 3}), BitmapPoolError::kShape);
  EXPECT_EQ(create(buffer.memory, buffer.bytes, {64, SIZE_MAX / 64}), BitmapPoolError::kShape);
  EXPECT_EQ(create(static_cast<char*>(buffer.memory) + 8, buffer.bytes, shape),
            BitmapPoolError::kMisaligned);
  EXPECT_EQ(create(buffer.memory, buffer.bytes - 1, shape), BitmapPoolError::kTooSmall);
  EXPECT_EQ(create(nullptr, buffer.bytes, shape), BitmapPoolError::kTooSmall);

  const auto attach = [&](void* memory, std::size_t bytes) {
    EXPECT_FALSE(View::try_attach(memory, bytes, &error));
    return error;
  };
  EXPECT_EQ(attach(buffer.memory, buffer.bytes), BitmapPoolError::kNotAPool);
  ASSERT_TRUE(View::try_create(buffer.memory, buffer.bytes, shape, &error));
  EXPECT_EQ(error, BitmapPoolError::kNone);
  EXPECT_EQ(attach(buffer.memory, buffer.bytes - 1), BitmapPoolError::kTooSmall);
  EXPECT_EQ(attach(buffer.memory, 8), BitmapPoolError::kTooSmall);
  EXPECT_EQ(attach(static_cast<char*>(buffer.memory) + 8, buffer.bytes),
            BitmapPoolError::kMisaligned);
  // The description is the first cache line: version at 4, word size at 8, capacity at 24.
  auto* const bytes = static_cast<unsigned char*>(buffer.memory);
  const auto spoilt = [&](std::size_t at) {
    bytes[at] ^= 0x10;
    const BitmapPoolError found = attach(buffer.memory, buffer.bytes);
    bytes[at] ^= 0x10;
    return found;
  };
  EXPECT_EQ(spoilt(0), BitmapPoolError::kNotAPool);
  EXPECT_EQ(spoilt(4), BitmapPoolError::kForeign);
  EXPECT_EQ(spoilt(8), BitmapPoolError::kForeign);
  EXPECT_EQ(spoilt(10), BitmapPoolError::kForeign);
  EXPECT_EQ(spoilt(24), BitmapPoolError::kDamaged);
  EXPECT_TRUE(View::try_attach(buffer.memory, buffer.bytes, &error));

  std::set<std::string> sentences;
  for (int e = 0; e <= static_cast<int>(BitmapPoolError::kDamaged); ++e) {
    sentences.insert(sentence_of(static_cast<BitmapPoolError>(e)));
  }
  EXPECT_EQ(sentences.size(), 7u) << "each error has a sentence of its own";
}

TEST(BitmapPoolView, AttachedViewsAndCopiesAreTheSamePool) {
  const BitmapPoolShape shape{64, 100};
  Buffer buffer(shape);
  View first = View::try_create(buffer.memory, buffer.bytes, shape);
  View second = View::try_attach(buffer.memory, buffer.bytes);
  View copy = second;
  void* p = first.allocate();
  EXPECT_TRUE(second.is_in_use(p));
  EXPECT_TRUE(copy.deallocate(p));
  EXPECT_FALSE(first.deallocate(p));
}

TEST(BitmapPoolView, APoolMovesWithItsBytes) {
  const BitmapPoolShape shape{64, 2000};
  Buffer here(shape), there(shape);
  View pool = View::try_create(here.memory, here.bytes, shape);
  std::set<std::size_t> taken;
  for (int i = 0; i < 777; ++i) taken.insert(pool.index_of(pool.allocate()));
  std::memcpy(there.memory, here.memory, here.bytes);
  std::memset(here.memory, 0, here.bytes);
  View moved = View::try_attach(there.memory, there.bytes);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved.in_use(), 777u);
  moved.for_each_in_use([&](void* p) { EXPECT_EQ(taken.count(moved.index_of(p)), 1u); });
  EXPECT_EQ(drain(moved).size(), 2000u - 777u);
}

TEST(BitmapPoolView, ViewsOfDifferentProcessesStartInDifferentWords) {
  const BitmapPoolShape shape{64, 64};
  Buffer buffer(shape);
  View first = View::try_create(buffer.memory, buffer.bytes, shape);
  View second = View::try_attach(buffer.memory, buffer.bytes);
  std::set<std::size_t> starts;
  for (std::uint32_t n = 0; n < 4; ++n) {
    starts.insert(first.nth_cursor(n).leaf());
    starts.insert(second.nth_cursor(n).leaf());
  }
  EXPECT_EQ(starts.size(), 8u);
}

}  // namespace
}  // namespace strata
