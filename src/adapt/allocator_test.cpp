#include <strata/allocator.hpp>
#include <strata/block_allocator.hpp>
#include <strata/size_class_allocator.hpp>

#include <gtest/gtest.h>

#include <list>
#include <type_traits>
#include <utility>
#include <vector>

#include "adapt/conformance_test.h"

namespace strata {
namespace conformance {

template <typename Sizes>
class SizeClassFamily {
 public:
  using Source = Sizes;
  Sizes& source() { return sizes_; }

 private:
  Sizes sizes_{{16, 32, 48, 64, 128, 256, 512, 1024, 4096, 16384, 65536}};
};

using Families = testing::Types<SizeClassFamily<SizeClassAllocator>,
                                SizeClassFamily<UncheckedSizeClassAllocator>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OverSizeClasses, AllocatorTest, Families);

}  // namespace conformance

namespace {

TEST(Allocator, ServesTheNodesOfAListFromEqualBlocks) {
  PageArena arena(1 << 20);
  BlockAllocator blocks(arena, 32, 1000);
  {
    std::list<int, Allocator<int, BlockAllocator>> list(blocks);
    for (int i = 0; i < 1000; ++i) list.push_back(i);
    EXPECT_EQ(blocks.in_use(), 1000u);
    EXPECT_THROW(list.push_back(0), std::bad_alloc);
    EXPECT_EQ(list.size(), 1000u);
    list.sort(std::greater<>());
    EXPECT_EQ(list.front(), 999);
  }
  EXPECT_EQ(blocks.in_use(), 0u);
}

TEST(Allocator, RefusesWhatDoesNotFitIntoABlock) {
  PageArena arena(1 << 20);
  BlockAllocator blocks(arena, 32, 100);
  std::vector<int, Allocator<int, BlockAllocator>> vector(blocks);
  vector.reserve(8);
  EXPECT_THROW(vector.reserve(9), std::bad_alloc);
}

TEST(Allocator, TakesItsSourceAlongWhenAContainerMoves) {
  SizeClassAllocator first;
  SizeClassAllocator second;
  using Vector = std::vector<int, Allocator<int, SizeClassAllocator>>;
  Vector a({1, 2, 3}, first);
  Vector b({4, 5}, second);
  EXPECT_NE(a.get_allocator(), b.get_allocator());
  const int* data = a.data();
  b = std::move(a);
  EXPECT_EQ(b.data(), data) << "no element was copied";
  EXPECT_EQ(b.get_allocator(), (Allocator<int, SizeClassAllocator>(first)));
}

// A pointer to the source and nothing else; nothing at all over a source without state.
static_assert(sizeof(Allocator<int, SizeClassAllocator>) == sizeof(void*));
static_assert(std::is_empty_v<Allocator<int>>);
static_assert(Allocator<int>::is_always_equal::value);
static_assert(!Allocator<int, SizeClassAllocator>::is_always_equal::value);
static_assert(!std::is_default_constructible_v<Allocator<int, SizeClassAllocator>>);

}  // namespace
}  // namespace strata
