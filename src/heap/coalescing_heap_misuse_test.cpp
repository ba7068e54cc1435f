#include <strata/coalescing_heap.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "heap/heap_support_test.h"
#include "os/fake_page_source.h"

namespace strata {
namespace {

TEST(CoalescingHeapDeathTest, DiesOfADoubleFree) {
  Region region(4096);
  void* a = region.heap.allocate(100);
  void* fence = region.heap.allocate(100);
  region.heap.deallocate(a);
  EXPECT_DEATH(region.heap.deallocate(a), "double free of 0x.*already free");
  region.heap.deallocate(fence);
}

TEST(CoalescingHeapDeathTest, DiesOfADoubleFreeAlsoWhenTheBlockWasMergedIntoItsNeighbours) {
  Region region(4096);
  void* a = region.heap.allocate(100);
  void* b = region.heap.allocate(100);
  void* c = region.heap.allocate(100);
  region.heap.deallocate(a);
  region.heap.deallocate(b);
  EXPECT_DEATH(region.heap.deallocate(b), "double free");
  region.heap.deallocate(c);
  EXPECT_DEATH(region.heap.deallocate(c), "double free");
  EXPECT_DEATH(region.heap.deallocate(b), "double free");
  EXPECT_DEATH(static_cast<void>(region.heap.reallocate(b, 10)), "double free");
}

TEST(CoalescingHeapDeathTest, DiesOfAPointerFromElsewhere) {
  Region region(4096);
  Region other(4096);
  int on_stack = 0;
  EXPECT_DEATH(region.heap.deallocate(&on_stack), "foreign pointer 0x.*no block");
  EXPECT_DEATH(region.heap.deallocate(other.heap.allocate(10)), "foreign pointer");
  char* a = static_cast<char*>(region.heap.allocate(100));
  EXPECT_DEATH(region.heap.deallocate(a + 1), "foreign pointer");
  EXPECT_DEATH(static_cast<void>(region.heap.usable_size(a + 8)), "foreign pointer");
  EXPECT_DEATH(region.heap.deallocate(a + 16), "no block starts there");
}

TEST(CoalescingHeapDeathTest, DiesOfABlockOfAnEarlierHeapInTheSameMemory) {
  alignas(16) char memory[4096];
  void* stale = nullptr;
  {
    CoalescingHeap earlier(memory, sizeof memory);
    static_cast<void>(earlier.allocate(100));
    stale = earlier.allocate(200);
    static_cast<void>(earlier.allocate(100));
  }
  CoalescingHeap heap(memory, sizeof memory);
  EXPECT_DEATH(heap.deallocate(stale), "double free");
  EXPECT_DEATH(static_cast<void>(heap.reallocate(stale, 10)), "double free");
}

TEST(CoalescingHeapDeathTest, DiesOfAnOverflowWhenTheBlockOrItsNeighbourIsFreed) {
  Region region(4096);
  char* a = static_cast<char*>(region.heap.allocate(100));
  char* b = static_cast<char*>(region.heap.allocate(100));
  a[region.heap.usable_size(a)] ^= 1;  // one bit of the first byte after the end
  EXPECT_DEATH(region.heap.deallocate(a), "overwritten tag in front of 0x.*beyond its end");
  EXPECT_DEATH(region.heap.deallocate(b), "overwritten tag");
  for (const std::size_t bytes : {90, 500})
    EXPECT_DEATH(static_cast<void>(region.heap.reallocate(a, bytes)), "overwritten tag");
}

TEST(CoalescingHeapDeathTest, DiesOfAnOverflowIntoAFreeBlockWhenThatIsUsedAgainOrMerged) {
  Region region(4096);
  char* a = static_cast<char*>(region.heap.allocate(100));
  void* b = region.heap.allocate(100);
  void* c = region.heap.allocate(100);
  static_cast<void>(region.heap.allocate(100));  // what is behind does not merge
  region.heap.deallocate(b);
  a[region.heap.usable_size(a)] ^= 1;
  EXPECT_DEATH(static_cast<void>(region.heap.allocate(100)), "overwritten tag");
  EXPECT_DEATH(region.heap.deallocate(c), "write after free");
}

TEST(CoalescingHeapDeathTest, DiesOfAnyOverwrittenByteOfATag) {
  for (int byte = 1; byte <= 8; ++byte) {
    Region region(4096);
    char* a = static_cast<char*>(region.heap.allocate(100));
    a[-byte] = static_cast<char>(a[-byte] ^ 0x54);
    EXPECT_DEATH(region.heap.deallocate(a), "overwritten tag");
  }
}

TEST(CoalescingHeapDeathTest, DiesOfAWriteAfterFreeThatHitTheLinks) {
  Region region(4096);
  char* a = static_cast<char*>(region.heap.allocate(100));
  void* b = region.heap.allocate(100);
  void* fence = region.heap.allocate(100);
  region.heap.deallocate(a);
  std::memset(a, 0x41, 16);
  EXPECT_DEATH(region.heap.deallocate(b), "write after free");
  EXPECT_DEATH(static_cast<void>(region.heap.allocate(100)), "write after free");
  const std::uint32_t in_the_region[] = {2, 2};
  std::memcpy(a, in_the_region, sizeof in_the_region);
  EXPECT_DEATH(region.heap.deallocate(b), "write after free");
  static_cast<void>(fence);
}

TEST(CoalescingHeapDeathTest, DiesOfAWriteAfterFreeThatHitTheSizeAtTheEnd) {
  for (std::uint32_t wrong : {0u, 2u, 3u, 1000u, 0x41414141u}) {
    Region region(4096);
    char* a = static_cast<char*>(region.heap.allocate(100));
    void* b = region.heap.allocate(100);
    void* fence = region.heap.allocate(100);
    const std::size_t usable = region.heap.usable_size(a);
    region.heap.deallocate(a);
    std::memcpy(a + usable - sizeof wrong, &wrong, sizeof wrong);
    EXPECT_DEATH(region.heap.deallocate(b), "write after free");
    static_cast<void>(fence);
  }
}

TEST(CoalescingHeapDeathTest, DiesOfATagThatAWalkWouldBeLedAstrayBy) {
  Region region(4096);
  char* a = static_cast<char*>(region.heap.allocate(100));
  const auto walk = [&] { region.heap.walk([](CoalescingHeap::Block) {}); };
  walk();
  std::memset(a - 8, 0, 8);  // no size: the next block would be this one for ever
  EXPECT_DEATH(walk(), "overwritten tag in front of 0x");
  std::memset(a - 8, 0x7f, 8);  // a size that ends outside
  EXPECT_DEATH(walk(), "overwritten tag");
}

TEST(CoalescingHeapDeathTest, DiesOfAFreeBlockThatTrimmingWouldBeLedAstrayBy) {
  os::FakePageSource pages;
  CoalescingHeap heap(1 << 20, pages);
  char* a = static_cast<char*>(heap.allocate(100'000));
  static_cast<void>(heap.allocate(100));
  heap.deallocate(a);
  EXPECT_DEATH(
      {
        std::memset(a, 0x41, 16);
        heap.trim();
      },
      "write after free");
  EXPECT_DEATH(
      {
        std::memset(a - 8, 0x41, 8);
        heap.trim();
      },
      "overwritten tag");
}

TEST(CoalescingHeapDeathTest, AHeapWithoutARegionKnowsNoPointer) {
  CoalescingHeap heap(4096);
  CoalescingHeap moved(std::move(heap));
  long on_stack[4] = {};
  EXPECT_DEATH(heap.deallocate(on_stack), "foreign pointer");
  EXPECT_DEATH(static_cast<void>(heap.usable_size(on_stack)), "foreign pointer");
  EXPECT_DEATH(static_cast<void>(heap.reallocate(on_stack, 100)), "foreign pointer");
  heap.deallocate(nullptr);
}

TEST(CoalescingHeapDeathTest, DiesOfAnAlignmentThatIsNoPowerOfTwo) {
  Region region(4096);
  EXPECT_DEATH(static_cast<void>(region.heap.allocate(10, 48)), "not a power of two");
  EXPECT_DEATH(static_cast<void>(region.heap.allocate(10, 0)), "not a power of two");
}

}  // namespace
}  // namespace strata
