#include <strata/bitmap_pool.hpp>
#include <strata/block_allocator.hpp>
#include <strata/memory_resource.hpp>
#include <strata/size_class_allocator.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <memory_resource>
#include <string>

#include "base/run_together_test.h"
#include "os/emulation.h"
#include "os/page_source.h"

namespace strata {
namespace {

/// Counts the blocks that pass through to the resource below.
class Counting final : public std::pmr::memory_resource {
 public:
  int live = 0;
  int total = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++live;
    ++total;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
    --live;
    std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

// Builds, copies and destroys containers of containers with strings in them.
void exercise(std::pmr::memory_resource& resource) {
  std::pmr::map<std::pmr::string, std::pmr::vector<std::pmr::string>> map(&resource);
  for (int i = 0; i < 200; ++i) {
    std::pmr::string key(&resource);
    key = "key number " + std::to_string(i % 50) + " of a text that does not fit into a string";
    map[key].push_back(key);
  }
  EXPECT_EQ(map.size(), 50u);
  for (const auto& [key, values] : map) {
    ASSERT_EQ(values.size(), 4u);
    EXPECT_EQ(values.front(), key);
    EXPECT_EQ(values.get_allocator().resource(), &resource) << "containers pass their resource on";
  }
  std::pmr::list<int> list(&resource);
  for (int i = 0; i < 100; ++i) list.push_back(i);
  list.remove_if([](int i) { return i % 2 == 0; });
  EXPECT_EQ(list.size(), 50u);
}

TEST(MemoryResource, ServesSmallSizesFromClassesAndTheRestFromUpstream) {
  SizeClassAllocator sizes;
  Counting upstream;
  MemoryResource<SizeClassAllocator> resource(sizes, &upstream);
  exercise(resource);
  for (std::size_t i = 0; i < sizes.class_count(); ++i) EXPECT_EQ(sizes.in_use(i), 0u);
  EXPECT_EQ(upstream.live, 0);
  std::pmr::vector<char> large(10'000, &resource);
  EXPECT_EQ(upstream.live, 1);
}

TEST(MemoryResource, TakesOverToUpstreamWhenTheSourceIsExhausted) {
  PageArena arena(os::page_bytes());
  BlockAllocator blocks(arena, 64, 4);
  Counting upstream;
  MemoryResource<BlockAllocator> resource(blocks, &upstream);
  std::pmr::list<int> list(&resource);
  for (int i = 0; i < 10; ++i) list.push_back(i);
  EXPECT_EQ(blocks.in_use(), 4u);
  EXPECT_EQ(upstream.live, 6);
  list.clear();
  EXPECT_EQ(blocks.in_use(), 0u);
  EXPECT_EQ(upstream.live, 0);
}

TEST(MemoryResource, ServesManyThreadsFromABitmapPool) {
  static BitmapPool<64, 512> pool;
  MemoryResource<BitmapPool<64, 512>> resource(pool, std::pmr::new_delete_resource());
  run_together(4, [&](int) {
    std::pmr::list<int> list(&resource);
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 20; ++i) list.push_back(i);
      list.remove_if([](int i) { return i % 3 != 0; });
      if (round % 50 == 0) list.clear();
    }
    EXPECT_EQ(list.size(), 49u * 7u);
  });
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(MemoryResource, ThrowsBadAllocWithoutAnUpstream) {
  SizeClassAllocator sizes;
  MemoryResource<SizeClassAllocator> resource(sizes);
  EXPECT_THROW(static_cast<void>(resource.allocate(257)), std::bad_alloc);
}

TEST(MemoryResourceDeathTest, HandsForeignMemoryToTheSourceWhereNobodyElseCanOwnIt) {
  GTEST_FLAG_SET(death_test_style, os::kSafestDeathTests);
  SizeClassAllocator sizes;
  MemoryResource<SizeClassAllocator> resource(sizes);
  alignas(16) char foreign[32];
  EXPECT_DEATH(resource.deallocate(foreign, 32), "free of 0x");
}

TEST(MemoryResource, FindsAClassThatIsAlignedEnough) {
  SizeClassAllocator sizes({24, 40, 64, 256});
  MemoryResource<SizeClassAllocator> resource(sizes);
  for (std::size_t alignment : {1u, 8u, 16u, 64u, 256u}) {
    void* p = resource.allocate(20, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    resource.deallocate(p, 20, alignment);
  }
  EXPECT_THROW(static_cast<void>(resource.allocate(20, 512)), std::bad_alloc);
}

TEST(MemoryResource, IsEqualToAnotherOverTheSameSource) {
  SizeClassAllocator sizes;
  SizeClassAllocator others;
  MemoryResource<SizeClassAllocator> a(sizes);
  MemoryResource<SizeClassAllocator> b(sizes);
  MemoryResource<SizeClassAllocator> c(others);
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c);
  EXPECT_FALSE(a == *std::pmr::new_delete_resource());
  b.deallocate(a.allocate(30), 30);
}

/// Has the layout of a resource over a source, but is another class.
class Lookalike final : public std::pmr::memory_resource {
 public:
  explicit Lookalike(SizeClassAllocator& source) : source_(&source) {}

 private:
  void* do_allocate(std::size_t, std::size_t) override { return source_; }
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other && upstream_ == nullptr;
  }
  SizeClassAllocator* source_;
  std::pmr::memory_resource* upstream_ = nullptr;
};

TEST(MemoryResource, IsEqualToNoneOfAnotherClassOrUpstream) {
  SizeClassAllocator sizes;
  SizeClassAllocator others;
  Counting upstream, another;
  MemoryResource<SizeClassAllocator> above(others, &upstream);
  MemoryResource<SizeClassAllocator> equal_above(others, &upstream);
  MemoryResource<SizeClassAllocator> none(sizes);
  MemoryResource<SizeClassAllocator> one(sizes, &upstream);
  EXPECT_FALSE(none == Lookalike(sizes));
  EXPECT_FALSE(none == one);
  EXPECT_FALSE(one == none);
  EXPECT_FALSE(one == MemoryResource<SizeClassAllocator>(sizes, &another));
  EXPECT_TRUE(MemoryResource<SizeClassAllocator>(sizes, &above) ==
              MemoryResource<SizeClassAllocator>(sizes, &equal_above))
      << "upstreams that are equal, not the same";
}

TEST(ArenaResource, CutsPagesInOrderAndRunsOnFromOneIntoTheNext) {
  const std::size_t page = os::page_bytes();
  PageArena arena(8 * page);
  MemoryResource<PageArena> resource(arena);
  auto* a = static_cast<char*>(resource.allocate(100, 1));
  auto* b = static_cast<char*>(resource.allocate(page, 4));
  EXPECT_EQ(b, a + 100);
  std::memset(b, 1, page);
  EXPECT_EQ(arena.pages_allocated(), 2u);
  auto* c = static_cast<char*>(resource.allocate(1, 64));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c) % 64, 0u);
  resource.deallocate(c, 1, 64);
  EXPECT_NE(resource.allocate(1, 64), c) << "nothing is given back before reset()";
  EXPECT_NE(resource.allocate(0), resource.allocate(0));
}

TEST(ArenaResource, ServesWhateverTheArenaHasRoomFor) {
  const std::size_t page = os::page_bytes();
  PageArena arena(4 * page);
  MemoryResource<PageArena> resource(arena);
  auto* a = static_cast<char*>(resource.allocate(10, 1));
  auto* b = static_cast<char*>(resource.allocate(4 * page - 20, 1));
  EXPECT_EQ(b, a + 10) << "the rest of one page and three more";
  EXPECT_EQ(resource.allocate(10, 1), b + 4 * page - 20);
  EXPECT_THROW(static_cast<void>(resource.allocate(1, 1)), std::bad_alloc);
  resource.reset();
  EXPECT_EQ(resource.allocate(4 * page, page), a);
}

TEST(ArenaResource, NeedsTwoTurnsWhereOthersTookPagesBetween) {
  const std::size_t page = os::page_bytes();
  PageArena arena(8 * page);
  MemoryResource<PageArena> resource(arena);
  static_cast<void>(resource.allocate(page - 10, 1));
  auto* theirs = static_cast<char*>(arena.allocate_page());
  auto* p = static_cast<char*>(resource.allocate(2 * page, 1));
  EXPECT_EQ(p, theirs + page) << "the ten bytes before theirs are of no use";
  EXPECT_EQ(arena.pages_allocated(), 4u);
}

TEST(ArenaResource, LeavesPagesThatOthersTookAlone) {
  const std::size_t page = os::page_bytes();
  PageArena arena(8 * page);
  MemoryResource<PageArena> resource(arena);
  auto* a = static_cast<char*>(resource.allocate(page - 10, 1));
  auto* theirs = static_cast<char*>(arena.allocate_page());
  auto* b = static_cast<char*>(resource.allocate(20, 1));
  EXPECT_EQ(theirs, a + page);
  EXPECT_EQ(b, theirs + page);
}

TEST(ArenaResource, RefusesWithNullptrForItsUpstream) {
  const std::size_t page = os::page_bytes();
  PageArena arena(page);
  MemoryResource<PageArena> resource(arena, nullptr);
  EXPECT_THROW(static_cast<void>(resource.allocate(page + 1)), std::bad_alloc);
  void* block = resource.allocate(page);
  EXPECT_THROW(static_cast<void>(resource.allocate(1)), std::bad_alloc);
  resource.deallocate(block, page);
}

TEST(ArenaResource, ServesEveryAlignment) {
  const std::size_t page = os::page_bytes();
  PageArena arena(64 * page);
  MemoryResource<PageArena> resource(arena);
  for (std::size_t alignment = 1; alignment <= 8 * page; alignment *= 2) {
    auto* p = static_cast<char*>(resource.allocate(10, alignment));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    std::memset(p, 1, 10);
    auto* const next = static_cast<char*>(arena.allocate_page());
    EXPECT_LE(p + 10, next) << "no page that was not taken";
  }
}

TEST(ArenaResource, TakesNoPageForWhatItRefuses) {
  const std::size_t page = os::page_bytes();
  PageArena arena(64 * page);
  MemoryResource<PageArena> resource(arena);
  static_cast<void>(resource.allocate(1));
  volatile std::size_t absurd = SIZE_MAX - 10;
  for (std::size_t alignment = 1; alignment <= 64 * page; alignment *= 2)
    EXPECT_THROW(static_cast<void>(resource.allocate(absurd, alignment)), std::bad_alloc);
  EXPECT_EQ(arena.pages_allocated(), 1u);
}

TEST(ArenaResource, StartsAgainOnReset) {
  PageArena arena(64 * os::page_bytes());
  MemoryResource<PageArena> resource(arena);
  void* first = resource.allocate(1);
  for (int round = 0; round < 100; ++round) {
    resource.reset();
    exercise(resource);
  }
  resource.reset();
  EXPECT_EQ(resource.allocate(1), first);
}

TEST(ArenaResource, GoesUpstreamOrThrowsWhenTheArenaIsExhausted) {
  const std::size_t page = os::page_bytes();
  PageArena arena(page);
  {
    MemoryResource<PageArena> resource(arena);
    EXPECT_THROW(static_cast<void>(resource.allocate(page + 1)), std::bad_alloc);
    volatile std::size_t absurd = SIZE_MAX - 10;  // hidden, or the compiler warns
    EXPECT_THROW(static_cast<void>(resource.allocate(absurd)), std::bad_alloc);
    EXPECT_NE(resource.allocate(page), nullptr);
    EXPECT_THROW(static_cast<void>(resource.allocate(1)), std::bad_alloc);
    EXPECT_THROW(static_cast<void>(resource.allocate(absurd)), std::bad_alloc);
  }
  Counting upstream;
  MemoryResource<PageArena> resource(arena, &upstream);
  exercise(resource);
  EXPECT_GT(upstream.total, 0);
  EXPECT_EQ(upstream.live, 0);
}

}  // namespace
}  // namespace strata
