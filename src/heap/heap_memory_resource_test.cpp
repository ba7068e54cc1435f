#include <strata/coalescing_heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/thread_heaps.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

#include "heap/heap_support_test.h"

namespace strata {
namespace {

TEST(HeapMemoryResource, CarriesContainersOverACoalescingHeap) {
  CoalescingHeap heap(1 << 20);
  MemoryResource<CoalescingHeap> resource(heap);
  {
    std::pmr::map<int, std::pmr::string> words(&resource);
    for (int i = 0; i < 500; ++i) words.emplace(i, std::pmr::string(40, 'x'));
    EXPECT_EQ(words.at(499).size(), 40u);
    EXPECT_GE(heap.live_blocks(), 1000u);
    heap.check_invariants();
  }
  EXPECT_EQ(heap.live_blocks(), 0u);
}

TEST(HeapMemoryResource, LetsAnotherThreadDestroyWhatThreadHeapsAllocated) {
  ThreadHeaps heaps(own_arenas());
  MemoryResource<ThreadHeaps> resource(heaps);
  std::pmr::vector<std::pmr::string> words(&resource);
  for (int i = 0; i < 500; ++i) words.emplace_back(100, 'x');
  std::thread([moved = std::move(words)] {}).join();
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_GE(heaps.statistics().remote_frees, 500u) << "all but the vector's own";
}

TEST(HeapMemoryResource, CarriesContainersOverBothHeaps) {
  CoalescingHeap heap(1 << 20);
  ThreadHeaps heaps;
  {
    MemoryResource<CoalescingHeap> of_one(heap);
    MemoryResource<ThreadHeaps> of_each_thread(heaps);
    std::pmr::map<int, std::pmr::string> ours(&of_one);
    std::pmr::map<int, std::pmr::string> theirs(&of_each_thread);
    for (int i = 0; i < 500; ++i) {
      ours.emplace(i, std::pmr::string(40, 'x'));
      theirs.emplace(i, std::pmr::string(40, 'x'));
    }
    EXPECT_GE(heap.live_blocks(), 1000u);
    EXPECT_GE(heaps.statistics().allocations, 1000u);
    heap.check_invariants();
    heaps.check_invariants();
    EXPECT_THROW(static_cast<void>(of_one.allocate(1 << 21)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(of_each_thread.allocate(std::size_t{1} << 40)), std::bad_alloc);
  }
  EXPECT_EQ(heap.live_blocks(), 0u);
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
}

TEST(HeapMemoryResource, GivesWhatAHeapCannotServeToTheOneAbove) {
  CoalescingHeap heap(4096);
  MemoryResource<CoalescingHeap> resource(heap, std::pmr::new_delete_resource());
  void* large = resource.allocate(100'000);
  EXPECT_FALSE(heap.owns(large));
  void* small = resource.allocate(100, 256);
  EXPECT_TRUE(heap.owns(small));
  resource.deallocate(large, 100'000);
  resource.deallocate(small, 100, 256);
  EXPECT_EQ(heap.live_blocks(), 0u);
}

/// Hands out one address, which nobody touches, and takes it back.
class OneAddress final : public std::pmr::memory_resource {
 public:
  explicit OneAddress(void* address) noexcept : address_(address) {}
  int taken_back = 0;

 private:
  void* do_allocate(std::size_t, std::size_t) override { return address_; }
  void do_deallocate(void* p, std::size_t, std::size_t) override { taken_back += p == address_; }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  void* address_;
};

TEST(HeapMemoryResource, GivesBackUpstreamWhatLiesBehindAnArenaThatIsNoPowerOfTwo) {
  ThreadHeaps heaps(long_arenas());
  auto* block = static_cast<char*>(heaps.allocate(100));
  OneAddress upstream(arena_start(block, 4 * kMiB) + 3 * kMiB);
  MemoryResource<ThreadHeaps> resource(heaps, &upstream);
  void* large = resource.allocate(4 * kMiB);
  ASSERT_FALSE(heaps.owns(large));
  resource.deallocate(large, 4 * kMiB);
  EXPECT_EQ(upstream.taken_back, 1);
  heaps.deallocate(block);
}

TEST(HeapMemoryResource, PassesTheAlignmentOn) {
  CoalescingHeap heap(1 << 20);
  MemoryResource<CoalescingHeap> resource(heap);
  void* block = resource.allocate(100, 1024);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 1024, 0u);
  resource.deallocate(block, 100, 1024);
  EXPECT_EQ(heap.live_blocks(), 0u);
}

TEST(HeapMemoryResource, ThrowsBadAllocWhenTheHeapIsFull) {
  CoalescingHeap heap(4096);
  MemoryResource<CoalescingHeap> resource(heap);
  EXPECT_THROW(static_cast<void>(resource.allocate(1 << 20)), std::bad_alloc);
}

TEST(HeapMemoryResource, IsEqualToEveryResourceOfItsHeap) {
  CoalescingHeap heap(4096);
  CoalescingHeap other(4096);
  MemoryResource<CoalescingHeap> a(heap);
  MemoryResource<CoalescingHeap> b(heap);
  MemoryResource<CoalescingHeap> c(other);
  EXPECT_TRUE(a.is_equal(b));
  EXPECT_FALSE(a.is_equal(c));
  EXPECT_FALSE(a.is_equal(*std::pmr::get_default_resource()));
}

}  // namespace
}  // namespace strata
