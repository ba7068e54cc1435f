// The standard interfaces over a heap of one's own.

#include <strata/allocator.hpp>
#include <strata/heap.hpp>
#include <strata/memory_resource.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "adapt/conformance_test.h"

namespace strata {
namespace conformance {

INSTANTIATE_TYPED_TEST_SUITE_P(OverUserHeaps, AllocatorTest, testing::Types<FamilyOf<Heap>>);

}  // namespace conformance

namespace {

/// A growing array, as C++23's containers implement it.
template <typename T>
std::size_t growths_to(Allocator<T, Heap> allocator, std::size_t count, bool takes_all) {
  std::size_t room = 0;
  std::size_t growths = 0;
  T* array = nullptr;
  while (room < count) {
    if (array != nullptr) allocator.deallocate(array, room);
    const std::size_t wanted = room + room / 4 + 1;
    const AllocationResult<T*> got = allocator.allocate_at_least(wanted);
    array = got.ptr;
    EXPECT_GE(got.count, wanted);
    for (std::size_t i = 0; i < got.count; ++i) array[i] = T{};
    room = takes_all ? got.count : wanted;
    ++growths;
  }
  allocator.deallocate(array, room);
  return growths;
}

TEST(HeapAdapters, AllocateAtLeastGivesAllThatTheHeapMakesUsable) {
  Heap heap;
  Allocator<std::uint32_t, Heap> allocator(heap);
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{300},
                                  std::size_t{100'000}, std::size_t{1'000'000}}) {
    const AllocationResult<std::uint32_t*> got = allocator.allocate_at_least(count);
    EXPECT_GE(got.count, count);
    if (count != 0) {
      EXPECT_EQ(got.count, heap.usable_size(got.ptr) / sizeof(std::uint32_t)) << count;
    }
    for (std::size_t i = 0; i < got.count; ++i) got.ptr[i] = 1;
    allocator.deallocate(got.ptr, got.count);
  }
  EXPECT_LT(growths_to<char>(Allocator<char, Heap>(heap), 5000, true),
            growths_to<char>(Allocator<char, Heap>(heap), 5000, false));
  EXPECT_THROW(static_cast<void>(allocator.allocate_at_least(~std::size_t{0})), std::bad_alloc);
  EXPECT_EQ(heap.statistics().live, 0u);
}

TEST(HeapAdapters, AllocateAtLeastUnderFullChecksIsWatchedUpToItsEnd) {
  Heap heap(Heap::Options{.checks = Heap::Checks::kFull});
  growths_to<char>(Allocator<char, Heap>(heap), 5000, true);
  growths_to<std::uint64_t>(Allocator<std::uint64_t, Heap>(heap), 50'000, true);
  heap.check_invariants();
}

TEST(HeapAdapters, AnOveralignedTypeGetsWhatItAskedFor) {
  struct alignas(256) Wide {
    char bytes[256];
  };
  Heap heap;
  Allocator<Wide, Heap> allocator(heap);
  const AllocationResult<Wide*> got = allocator.allocate_at_least(3);
  EXPECT_EQ(got.count, 3u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got.ptr) % 256, 0u);
  allocator.deallocate(got.ptr, got.count);
}

TEST(HeapAdapters, CarriesPolymorphicContainersUpToItsLimit) {
  Heap heap(Heap::Options{.hard_limit_bytes = 8 << 20});
  MemoryResource<Heap> resource(heap);
  std::pmr::map<std::pmr::string, std::pmr::vector<int>> lists(&resource);
  for (int i = 0; i < 500; ++i) {
    std::pmr::string key(&resource);
    key = std::to_string(i) + " is a key that is too long for a string's own buffer";
    lists[std::move(key)].resize(static_cast<std::size_t>(i));
  }
  for (const auto& [key, list] : lists) {
    EXPECT_TRUE(heap.owns(&key) && heap.owns(key.data()));
    EXPECT_TRUE(list.empty() || heap.owns(list.data()));
  }
  std::pmr::vector<char> large(&resource);
  EXPECT_THROW(large.resize(16 << 20), std::bad_alloc);
  // Beyond the limit, memory comes from the upstream resource, and goes back to where it came from.
  MemoryResource<Heap> with_upstream(heap, std::pmr::new_delete_resource());
  std::pmr::vector<char> larger(16 << 20, 'x', &with_upstream);
  EXPECT_FALSE(heap.owns(larger.data()));
  EXPECT_TRUE(resource.is_equal(resource));
  EXPECT_FALSE(resource.is_equal(with_upstream));
  MemoryResource<Heap> twin(heap);
  std::pmr::list<int> first({1, 2, 3}, &resource);
  std::pmr::list<int> second(&twin);
  second.splice(second.end(), first);
  EXPECT_EQ(second.size(), 3u) << "resources over one heap free each other's blocks";
}

TEST(HeapAdapters, UniqueObjectsOfAHeapThatEndsAreReleasedFirst) {
  Heap heap;
  {
    auto text = make_unique_from<std::string>(heap, 100, 'x');
    auto array = make_unique_from<std::string[]>(heap, 10);
    EXPECT_TRUE(heap.owns(text.get()) && heap.owns(array.get()));
  }
  EXPECT_EQ(heap.statistics().live, 0u);
}

}  // namespace
}  // namespace strata
