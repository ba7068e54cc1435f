#include <strata/allocator.hpp>
#include <strata/memory_resource.hpp>

#include <gtest/gtest.h>

#include <memory_resource>
#include <string>
#include <vector>

#include "adapt/conformance_test.h"

namespace strata {
namespace conformance {

INSTANTIATE_TYPED_TEST_SUITE_P(OverMalloc, AllocatorTest, testing::Types<FamilyOf<Malloc>>);

}  // namespace conformance

namespace {

TEST(Malloc, NeedsNoSourceToBeNamed) {
  std::vector<int, Allocator<int>> vector{1, 2, 3};
  vector.resize(100'000);
  std::basic_string<char, std::char_traits<char>, Allocator<char>> text(1000, 'x');
  EXPECT_EQ(vector[2], 3);
  EXPECT_EQ(text.size(), 1000u);
  EXPECT_GE(strata_usable_size(vector.data()), 400'000u) << "the memory is the malloc's";
}

TEST(Malloc, OwnsUniqueObjectsAndArrays) {
  auto object = make_unique<std::string>(3, 'x');
  EXPECT_EQ(*object, "xxx");
  auto array = make_unique<std::string[]>(5);
  EXPECT_EQ(array[4], "");
  static_assert(sizeof(object) == sizeof(void*));
}

TEST(Malloc, IsAResourceThatIsEqualToEveryOtherOverIt) {
  MemoryResource<> resource;
  EXPECT_TRUE(resource == *malloc_resource());
  EXPECT_FALSE(resource == *std::pmr::new_delete_resource());
  std::pmr::vector<std::pmr::string> texts(malloc_resource());
  for (int i = 0; i < 1000; ++i) texts.emplace_back(static_cast<std::size_t>(i), 'x');
  EXPECT_EQ(texts[999].size(), 999u);
  EXPECT_THROW(static_cast<void>(resource.allocate(PTRDIFF_MAX)), std::bad_alloc);
  void* p = resource.allocate(10, 4096);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 4096, 0u);
  malloc_resource()->deallocate(p, 10, 4096);
}

}  // namespace
}  // namespace strata
