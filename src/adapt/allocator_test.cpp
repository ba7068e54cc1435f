#include <strata/allocator.hpp>
#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_view.hpp>
#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/growing_block_allocator.hpp>
#include <strata/size_class_allocator.hpp>
#include <strata/thread_heaps.hpp>

#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "adapt/conformance_test.h"

namespace lender {  // a program's, with functions whose names are also the shelf's own

struct Source {
  void* try_allocate(std::size_t, std::size_t) noexcept { return memory; }
  void deallocate(void*) noexcept { ++frees; }
  alignas(16) char memory[64];
  int frees = 0;
};
[[maybe_unused]] void give_back(Source&, void*) {}
bool is_aligned(const void*, std::size_t) { return true; }

template <typename Object>
bool asks_about(const Object& object) {
  return is_aligned(&object, alignof(Object));
}

}  // namespace lender

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

using HeapFamilies =
    testing::Types<FamilyOf<CoalescingHeap, std::size_t{1} << 20>, FamilyOf<ThreadHeaps>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OverHeaps, AllocatorTest, HeapFamilies);

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

TEST(Allocator, ServesAsManyNodesAsTheArenaHasPagesFor) {
  PageArena arena(1 << 20, 64 << 10);
  GrowingBlockAllocator blocks(arena, 32);
  std::list<int, Allocator<int, GrowingBlockAllocator>> list(blocks);
  while (blocks.pages() < arena.total_pages() || blocks.in_use() % blocks.blocks_per_page() != 0)
    list.push_back(7);
  EXPECT_EQ(list.size(), arena.total_pages() * blocks.blocks_per_page());
  EXPECT_THROW(list.push_back(0), std::bad_alloc);
}

TEST(Allocator, ServesNodesFromABitmapPoolAndFromAViewOfOne) {
  static BitmapPool<32, 100> pool;
  {
    std::list<int, Allocator<int, BitmapPool<32, 100>>> list(pool);
    for (int i = 0; i < 100; ++i) list.push_back(i);
    EXPECT_EQ(pool.in_use(), 100u);
    EXPECT_THROW(list.push_back(0), std::bad_alloc);
    list.pop_back();
    auto object = make_unique_from<long>(pool, 7);
    EXPECT_TRUE(pool.is_in_use(object.get()));
  }
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_EQ(pool.try_allocate(33, 1), nullptr);
  EXPECT_EQ(pool.try_allocate(1, 64), nullptr);

  alignas(64) static unsigned char memory[8192];
  auto view = BitmapPoolView<>::try_create(memory, sizeof memory, {32, 100});
  std::list<int, Allocator<int, BitmapPoolView<>>> list({1, 2, 3}, view);
  EXPECT_EQ(view.in_use(), 3u);
}

TEST(AllocatorDeathTest, DiesOfAFreeThatABitmapPoolRefuses) {
  static BitmapPool<32, 100> pool;
  Allocator<int, BitmapPool<32, 100>> allocator(pool);
  int* p = allocator.allocate(1);
  allocator.deallocate(p, 1);
  EXPECT_DEATH(allocator.deallocate(p, 1),
               "strata: free of 0x[0-9a-f]+: it is no taken block of its pool");
}

TEST(Allocator, RefusesWhatDoesNotFitIntoABlock) {
  PageArena arena(1 << 20);
  BlockAllocator blocks(arena, 32, 100);
  std::vector<int, Allocator<int, BlockAllocator>> vector(blocks);
  vector.reserve(8);
  EXPECT_THROW(vector.reserve(9), std::bad_alloc);
}

TEST(Allocator, OwnsObjectsThatAreConstant) {
  SizeClassAllocator sizes({64});
  {
    const auto number = make_unique_from<const int>(sizes, 7);
    const auto numbers = make_unique_from<const int[]>(sizes, 3);
    EXPECT_EQ(*number + numbers[2], 7);
    EXPECT_EQ(sizes.in_use(0), 2u);
  }
  EXPECT_EQ(sizes.in_use(0), 0u);
}

TEST(Allocator, FreesByTheSourceAndByNoFunctionOfItsNamespace) {
  struct Thrower {
    Thrower() { throw 1; }
  };
  lender::Source source;
  EXPECT_THROW(static_cast<void>(make_unique_from<Thrower>(source)), int);
  EXPECT_EQ(source.frees, 1);
}

TEST(Allocator, LeavesCallsToTheFunctionsOfAProgram) {
  static BitmapPool<32, 100> pool;
  const std::list<int, Allocator<int, BitmapPool<32, 100>>> list(pool);
  EXPECT_TRUE(lender::asks_about(pool));
  EXPECT_TRUE(lender::asks_about(list));
  EXPECT_TRUE(lender::asks_about(make_unique_from<int>(pool, 7)));
  EXPECT_TRUE(lender::asks_about(BitmapPoolView<>()));
}

TEST(Allocator, LeavesMakeUniqueToWhomAProgramTookItFrom) {
  using std::make_unique;
  SizeClassAllocator sizes;
  const std::list<int, Allocator<int, SizeClassAllocator>> list({1, 2, 3}, sizes);
  const auto copy = make_unique<std::list<int, Allocator<int, SizeClassAllocator>>>(list);
  static_assert(std::is_same_v<decltype(copy.get_deleter()),
                               const std::default_delete<std::remove_const_t<decltype(list)>>&>);
  EXPECT_EQ(*copy, list);
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

TEST(Allocator, TakesItsSourceAlongIntoANewCopyAndKeepsItWhereACopyIsAssigned) {
  SizeClassAllocator first;
  SizeClassAllocator second;
  using Vector = std::vector<int, Allocator<int, SizeClassAllocator>>;
  const Vector a({1, 2, 3}, first);
  Vector b(a);
  EXPECT_EQ(b.get_allocator(), a.get_allocator());
  Vector c({4, 5}, second);
  c = a;
  EXPECT_EQ(c, a);
  EXPECT_EQ(c.get_allocator(), (Allocator<int, SizeClassAllocator>(second)));
}

// An allocator is a pointer to its source and nothing else; over a source without state it is
// empty.
static_assert(sizeof(Allocator<int, SizeClassAllocator>) == sizeof(void*));
static_assert(std::is_empty_v<Allocator<int>>);
static_assert(Allocator<int>::is_always_equal::value);
static_assert(!Allocator<int, SizeClassAllocator>::is_always_equal::value);
static_assert(!std::is_default_constructible_v<Allocator<int, SizeClassAllocator>>);

}  // namespace
}  // namespace strata
