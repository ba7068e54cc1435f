#include <strata/block_allocator.hpp>
#include <strata/object_pool.hpp>
#include <strata/size_class_allocator.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

// Every operator new of this program counts its calls, to find allocations on paths that promise
// none. The nothrow forms refuse, if told to.
namespace {
std::atomic<std::size_t> g_allocations{0};
bool g_refuses = false;
}  // namespace

void* operator new(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return g_refuses ? nullptr : std::malloc(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  const auto mask = static_cast<std::size_t>(alignment) - 1;
  return std::aligned_alloc(mask + 1, (bytes + mask) & ~mask);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }

namespace strata {
namespace {

/// How many allocations `work` makes.
template <typename Work>
std::size_t allocations_during(Work work) {
  const std::size_t before = g_allocations.load(std::memory_order_relaxed);
  work();
  return g_allocations.load(std::memory_order_relaxed) - before;
}

// Takes and gives so many blocks, and then takes and gives each again: at one of these counts, a
// stack in chunks would allocate.
template <typename Take, typename Give>
std::size_t allocations_of(Take take, Give give) {
  std::vector<decltype(take())> live(2000);
  return allocations_during([&] {
    for (std::size_t count : {1u, 63u, 64u, 65u, 512u, 2000u, 64u}) {
      for (std::size_t i = 0; i < count; ++i) live[i] = take();
      for (std::size_t i = 0; i < count; ++i) {
        give(live[i]);
        live[i] = take();
        give(live[i]);
      }
    }
  });
}

TEST(HotPath, OfBlockAllocatorAllocatesNothing) {
  PageArena arena(1 << 20);
  BlockAllocator blocks(arena, 64, 2000);
  EXPECT_EQ(
      allocations_of([&] { return blocks.allocate(); }, [&](void* p) { blocks.deallocate(p); }),
      0u);
}

TEST(HotPath, OfSizeClassAllocatorAllocatesNothing) {
  SizeClassAllocator sizes;
  EXPECT_EQ(
      allocations_of([&] { return sizes.allocate(60); }, [&](void* p) { sizes.deallocate(p); }),
      0u);
}

TEST(HotPath, OfObjectPoolAllocatesNothingUntilItGrows) {
  ObjectPool<long> pool(2000, Exhaustion::kGrow, Leftovers::kDestroy);
  EXPECT_EQ(allocations_of([&] { return pool.create(1); }, [&](long* p) { pool.destroy(p); }), 0u);
  EXPECT_EQ(allocations_during([&] {
              for (int i = 0; i < 2001; ++i) pool.create(1);
            }),
            1u)
      << "one chunk, however many slots";
}

TEST(HotPath, OfAPoolIsSetUpByTwoAllocationsWhateverItsSize) {
  for (std::size_t slots : {1u, 1000u, 1'000'000u}) {
    EXPECT_EQ(allocations_during([&] { ObjectPool<long> pool(slots); }), 2u);
  }
}

TEST(ObjectPool, SaysThatItsTableIsRefusedWhereItsBufferIsLargeEnough) {
  static char buffer[4096];
  const char* reason = nullptr;
  g_refuses = true;
  const bool is_made = ObjectPool<long>::try_create(buffer, sizeof buffer, Exhaustion::kReturnNull,
                                                    Leftovers::kDestroy, &reason)
                           .has_value();
  EXPECT_THROW(ObjectPool<long>(buffer, sizeof buffer), std::bad_alloc);
  g_refuses = false;
  EXPECT_FALSE(is_made);
  EXPECT_STREQ(reason, "ObjectPool: the memory for its table of chunks is refused");
}

}  // namespace
}  // namespace strata
