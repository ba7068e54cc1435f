#include <strata/detail/sanitizer.hpp>
#include <strata/size_class_allocator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "os/page_source.h"

namespace strata {
namespace {

template <typename Sizes>
class SizeClassAllocatorTest : public testing::Test {};
using SizesForms = testing::Types<SizeClassAllocator, UncheckedSizeClassAllocator>;
TYPED_TEST_SUITE(SizeClassAllocatorTest, SizesForms);

TYPED_TEST(SizeClassAllocatorTest, ServesEachSizeFromTheSmallestClassThatHoldsIt) {
  TypeParam sizes;
  ASSERT_EQ(sizes.class_count(), 4u);
  EXPECT_EQ(sizes.largest_class(), 256u);
  for (std::size_t size = 0; size <= 256; ++size) {
    std::size_t class_size = 0;
    void* block = sizes.allocate(size, class_size);
    ASSERT_NE(block, nullptr);
    std::memset(block, 1, size);
    EXPECT_EQ(class_size, size <= 32 ? 32u : size <= 64 ? 64u : size <= 128 ? 128u : 256u);
    EXPECT_EQ(sizes.class_size_of(block), class_size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % class_size, 0u);
    sizes.deallocate(block, class_size);
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(sizes.in_use(i), 0u);
}

TYPED_TEST(SizeClassAllocatorTest, GivesEachClassAMebibyteByDefault) {
  TypeParam sizes;
  for (std::size_t i = 0; i < sizes.class_count(); ++i) {
    EXPECT_LE(sizes.capacity(i) * sizes.class_bytes(i), std::size_t{1} << 20);
    EXPECT_GT(sizes.capacity(i) * (sizes.class_bytes(i) + 10), (std::size_t{1} << 20) * 95 / 100);
  }
}

TYPED_TEST(SizeClassAllocatorTest, TakesAnyAscendingListOfClasses) {
  TypeParam sizes({8, 20, 48, 1000, 70000}, 1 << 20);
  ASSERT_EQ(sizes.class_count(), 5u);
  EXPECT_EQ(sizes.class_bytes(1), 24u) << "rounded up to a multiple of 8";
  EXPECT_EQ(sizes.class_bytes(4), 70000u);
  for (std::size_t size : {1u, 8u, 9u, 24u, 25u, 48u, 49u, 1000u, 1001u, 70000u}) {
    std::size_t class_size = 0;
    void* block = sizes.allocate(size, class_size);
    ASSERT_NE(block, nullptr);
    EXPECT_GE(class_size, size);
    std::memset(block, 1, class_size);
  }
}

TYPED_TEST(SizeClassAllocatorTest, KnowsTheClassOfABlockByItself) {
  TypeParam sizes;
  void* small = sizes.allocate(10);
  void* large = sizes.allocate(200);
  sizes.deallocate(large);
  sizes.deallocate(small);
  sizes.deallocate(nullptr);
  EXPECT_EQ(sizes.allocate(32), small);
  EXPECT_EQ(sizes.allocate(129), large);
}

TYPED_TEST(SizeClassAllocatorTest, HandsOutNothingMoreWhenAClassIsEmpty) {
  TypeParam sizes({64, 128}, os::page_bytes());
  std::size_t count = 0;
  while (sizes.allocate(64) != nullptr) ++count;
  EXPECT_EQ(count, sizes.capacity(0));
  EXPECT_EQ(sizes.try_allocate(1), nullptr);
  EXPECT_NE(sizes.allocate(65), nullptr) << "the other class is not touched by it";
}

TYPED_TEST(SizeClassAllocatorTest, RefusesSizesAboveTheLargestClassWithASentence) {
  TypeParam sizes;
  std::size_t class_size = 7;
  EXPECT_THROW(sizes.allocate(SIZE_MAX), std::length_error);
  EXPECT_THROW(sizes.allocate(257, class_size), std::length_error);
  EXPECT_EQ(class_size, 7u);
  EXPECT_EQ(sizes.try_allocate(257), nullptr);
  try {
    sizes.allocate(257);
    ADD_FAILURE() << "was served";
  } catch (const std::length_error& error) {
    EXPECT_STREQ(error.what(), "SizeClassAllocator: the size is above the largest class");
  }
}

TYPED_TEST(SizeClassAllocatorTest, SaysWhyItRefusesAListOfClasses) {
  const auto why = [](std::vector<std::size_t> classes, std::size_t run_bytes) {
    const char* reason = nullptr;
    EXPECT_FALSE(
        TypeParam::try_create(classes.data(), classes.size(), run_bytes, nullptr, &reason));
    return reason;
  };
  const auto ascending =
      "SizeClassAllocator: a class is not larger than the one before, in steps of 8";
  EXPECT_STREQ(why({}, 4096), "SizeClassAllocator: the list of classes is empty");
  EXPECT_STREQ(why({0}, 4096), "SizeClassAllocator: a class has no bytes");
  EXPECT_STREQ(why({64, 32}, 4096), ascending);
  EXPECT_STREQ(why({60, 64}, 4096), ascending);
  EXPECT_STREQ(why({64, SIZE_MAX}, 4096), "SizeClassAllocator: a run holds no block of its class");
  EXPECT_STREQ(why({64, 4096}, 4096), "SizeClassAllocator: a run holds no block of its class");
  EXPECT_STREQ(why({64}, SIZE_MAX / 2), "SizeClassAllocator: a run is above 2 GiB");
  std::vector<std::size_t> many;
  for (std::size_t i = 1; i <= 256; ++i) many.push_back(8 * i);
  EXPECT_STREQ(why(many, 1 << 16), "SizeClassAllocator: there are more than 255 classes");
  many.pop_back();
  EXPECT_TRUE(TypeParam::try_create(many.data(), many.size(), 1 << 16));
  EXPECT_THROW(TypeParam({64, 32}), std::invalid_argument);
}

TYPED_TEST(SizeClassAllocatorTest, LivesOnAnArenaThatOthersUseToo) {
  PageArena arena(64 * os::page_bytes());
  void* before = arena.allocate_page();
  TypeParam sizes(arena, {64, 128}, 4 * os::page_bytes());
  void* block = sizes.allocate(100);
  EXPECT_TRUE(arena.owns(block));
  EXPECT_FALSE(sizes.owns(before));
  EXPECT_TRUE(sizes.owns(block));
  const std::size_t rest = arena.available_pages() * os::page_bytes();
  EXPECT_THAT(
      [&] {
        TypeParam(arena, {64, 128}, rest);
      },
      testing::ThrowsMessage<std::bad_alloc>(
          testing::StrEq("SizeClassAllocator: the memory for its runs is refused")))
      << "two such runs do not fit";
}

TYPED_TEST(SizeClassAllocatorTest, TrustsNothingThatLiesOnAnArenaUsedBefore) {
  PageArena arena(64 * os::page_bytes());
  const std::size_t pages = arena.available_pages();
  std::memset(arena.allocate_pages(pages), 1, pages * os::page_bytes());
  arena.reset();
  TypeParam sizes(arena, {16, 24, 48, 1000}, 8 * os::page_bytes());
  for (std::size_t size : {16u, 24u, 48u, 1000u}) {
    auto* block = static_cast<char*>(sizes.allocate(size));
    sizes.check_invariants();
    if constexpr (std::is_same_v<TypeParam, SizeClassAllocator>) {
      EXPECT_DEATH(sizes.deallocate(block + 8), "it points into a block");
      EXPECT_DEATH(sizes.deallocate(block + sizes.class_size_of(block)), "was never allocated");
    }
    sizes.deallocate(block);
  }
}

TYPED_TEST(SizeClassAllocatorTest, KeepsToItsPagesOfAnArena) {
  const std::size_t page = os::page_bytes();
  // The bookkeeping behind the runs ends one byte after a page, or in the middle of one.
  for (const std::size_t count : {page / 128, std::size_t{3}}) {
    PageArena arena(64 * count * page);
    std::vector<std::size_t> classes;
    for (std::size_t i = 1; i <= count; ++i) classes.push_back(i * page * 4 / count / 8 * 8);
    auto sizes = TypeParam::try_create(classes.data(), count, 8 * page, &arena);
    ASSERT_TRUE(sizes);
    std::memset(arena.allocate_page(), 0xff, page);
    std::size_t class_size = 0;
    ASSERT_NE(sizes->allocate(classes.back(), class_size), nullptr);
    EXPECT_EQ(class_size, classes.back());
    sizes->check_invariants();
  }
}

TYPED_TEST(SizeClassAllocatorTest, RefusesAnAlignmentThatNoClassHas) {
  TypeParam sizes({24, 8192}, 1 << 16);
  EXPECT_EQ(sizes.try_allocate(10, 16384), nullptr);
  EXPECT_EQ(sizes.try_allocate(10, 8192), nullptr) << "runs begin on a page";
  EXPECT_NE(sizes.try_allocate(10, 4096), nullptr);
  TypeParam odd({24, 40});
  EXPECT_EQ(odd.try_allocate(10, 16), nullptr);
}

TYPED_TEST(SizeClassAllocatorTest, WritesAnEighthOfARunAtMostBeforehandOnAnArena) {
  constexpr unsigned char kMark = 0x5a;
  const std::size_t run_bytes = 8 * os::page_bytes();
  for (std::size_t class_size : {24u, 40u, 48u, 64u, 1000u}) {
    PageArena arena(2 * run_bytes);
    const std::size_t pages = arena.available_pages();
    auto* run = static_cast<unsigned char*>(arena.allocate_pages(pages));
    std::memset(run, kMark, 2 * run_bytes);
    arena.reset();
    TypeParam sizes(arena, {class_size}, run_bytes);
    detail::asan_unpoison(run, run_bytes);
    const auto kept = static_cast<std::size_t>(std::count(run, run + run_bytes, kMark));
    EXPECT_LE(run_bytes - kept, class_size == 64 ? 0 : run_bytes / 8) << class_size;
  }
}

TYPED_TEST(SizeClassAllocatorTest, KeepsItsBlocksWhenItMoves) {
  static_assert(!std::is_copy_constructible_v<TypeParam> && !std::is_copy_assignable_v<TypeParam>);
  TypeParam first;
  void* block = first.allocate(50);
  TypeParam second(std::move(first));
  EXPECT_EQ(first.try_allocate(1), nullptr) << "a moved-from allocator is empty";  // NOLINT
  for (std::size_t class_size = 0; void* none : {first.allocate(0), first.allocate(0, class_size),
                                                 first.try_allocate(0), first.try_allocate(0, 1)}) {
    EXPECT_EQ(none, nullptr) << "also for no bytes";
  }
  EXPECT_FALSE(first.owns(block));
  EXPECT_TRUE(second.owns(block));
  TypeParam third({8});
  third = std::move(second);
  third.deallocate(block);
  EXPECT_EQ(third.in_use(1), 0u);
}

TYPED_TEST(SizeClassAllocatorTest, AgreesWithAModelUnderRandomOperations) {
  std::mt19937_64 random(seed_of_this_run());
  TypeParam sizes({16, 48, 64, 256}, 4 * os::page_bytes());
  std::vector<std::tuple<unsigned char*, std::size_t, unsigned char>> live;
  std::vector<std::size_t> in_use(sizes.class_count());
  const auto class_of = [&](std::size_t size) {
    std::size_t i = 0;
    while (sizes.class_bytes(i) < size) ++i;
    return i;
  };
  for (int step = 0; step < 20000; ++step) {
    if (random() % 20 < 11) {
      const std::size_t size = random() % 257;
      const std::size_t expected_class = class_of(size);
      auto* block = static_cast<unsigned char*>(sizes.allocate(size));
      ASSERT_EQ(block == nullptr, in_use[expected_class] == sizes.capacity(expected_class));
      if (block != nullptr) {
        const auto mark = static_cast<unsigned char>(random());
        std::memset(block, mark, size);
        live.emplace_back(block, size, mark);
        ++in_use[expected_class];
      }
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      const auto [block, size, mark] = live.back();
      live.pop_back();
      ASSERT_EQ(std::count(block, block + size, mark), static_cast<std::ptrdiff_t>(size));
      --in_use[class_of(size)];
      if (random() % 2 == 0) {
        sizes.deallocate(block);
      } else {
        sizes.deallocate(block, sizes.class_bytes(class_of(size)));
      }
    }
    if (step % 64 == 0) sizes.check_invariants();
    for (std::size_t i = 0; i < in_use.size(); ++i) ASSERT_EQ(sizes.in_use(i), in_use[i]);
  }
}

TEST(SizeClassAllocatorDeathTest, DiesOfAFreeWithTheWrongClass) {
  SizeClassAllocator sizes;
  void* block = sizes.allocate(32);
  EXPECT_DEATH(sizes.deallocate(block, 256), "it is not a block of the class given");
}

TEST(SizeClassAllocatorDeathTest, DiesOfEveryBadPointer) {
  SizeClassAllocator sizes;
  auto* block = static_cast<char*>(sizes.allocate(64));
  auto* other = static_cast<char*>(sizes.allocate(64));
  sizes.deallocate(other);
  EXPECT_DEATH(sizes.deallocate(&sizes), "free of 0x[0-9a-f]+: it is not memory of this pool");
  EXPECT_DEATH(sizes.deallocate(block + (std::size_t{64} << 32)), "not memory of this pool");
  EXPECT_DEATH(sizes.deallocate(block + 8), "it points into a block, not at its start");
  EXPECT_DEATH(sizes.deallocate(block + 128), "this block was never allocated");
  EXPECT_DEATH(sizes.deallocate(other), "it is already free");
}

TEST(SizeClassAllocatorDeathTest, DiesOfAPointerIntoABlockOfAnySize) {
  SizeClassAllocator sizes({16, 24, 48, 1000});
  for (std::size_t size : {16u, 24u, 48u, 1000u}) {
    auto* block = static_cast<char*>(sizes.allocate(size));
    for (std::size_t offset : {std::size_t{1}, std::size_t{8}, size / 2, size - 8, size - 1}) {
      EXPECT_DEATH(sizes.deallocate(block + offset), "it points into a block") << size;
    }
  }
}

}  // namespace
}  // namespace strata
