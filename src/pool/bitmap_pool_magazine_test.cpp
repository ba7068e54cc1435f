#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_magazine.hpp>
#include <strata/bitmap_pool_view.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace strata {
namespace {

using Blocks = BitmapPool<64, 64>;
using Magazine = BitmapPoolMagazine<Blocks>;
using Magazines = BitmapPoolMagazines<Blocks>;
static_assert(Magazine::bounded_depth(64, 8) == 2 && Magazine::bounded_depth(4096, 8) == 8);
static_assert(Magazine::bounded_depth(64, 17) == 0, "nothing can be spared");

TEST(BitmapPoolMagazines, AllMagazinesTogetherKeepAQuarterOfThePoolAtMost) {
  for (std::size_t capacity = 1; capacity < 300; ++capacity) {
    for (std::size_t threads = 1; threads < 40; ++threads) {
      const std::size_t depth = Magazine::bounded_depth(capacity, threads);
      ASSERT_LE(depth * threads, capacity / 4);
      ASSERT_LE(depth, Magazine::kMaxDepth);
    }
  }
  // Not only in theory: fills each magazine as far as possible, then takes what the pool has left.
  Blocks pool;
  Magazines magazines(pool, 8);
  EXPECT_EQ(magazines.depth(), 2u);
  std::vector<std::unique_ptr<Magazines::Magazine>> all;
  for (int i = 0; i < 12; ++i) {  // four more than were announced
    all.push_back(std::make_unique<Magazines::Magazine>(magazines));
    void* blocks[16];
    for (void*& p : blocks) p = pool.allocate();
    for (void* p : blocks) EXPECT_TRUE(all.back()->deallocate(p));
  }
  std::size_t kept = 0;
  for (auto& magazine : all) kept += magazine->held();
  EXPECT_EQ(kept, 16u);
  EXPECT_EQ(pool.in_use(), kept);
  EXPECT_EQ(all.back()->depth(), 0u) << "the thread beyond the number gets no magazine";
  std::size_t got = 0;
  while (pool.allocate() != nullptr) ++got;
  EXPECT_EQ(got, 48u);
}

TEST(BitmapPoolMagazines, OneOfItsOwnNeedsNoRegistrationAndKeepsAQuarterAtMost) {
  for (const auto& capacity_and_depth : {std::pair{std::size_t{64}, 8u}, {16, 4u}, {3, 0u}}) {
    const BitmapPoolShape shape{64, capacity_and_depth.first};
    const std::size_t bytes = BitmapPoolView<>::required_bytes(shape);
    std::vector<char> memory(bytes + 64);
    char* const start = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
    auto pool = BitmapPoolView<>::try_create(start, bytes, shape);
    ASSERT_TRUE(pool);
    {
      BitmapPoolMagazine mine(pool);
      EXPECT_EQ(mine.depth(), capacity_and_depth.second);
      std::vector<void*> all;
      while (void* p = mine.allocate()) all.push_back(p);
      EXPECT_EQ(all.size(), shape.capacity) << "alone, it gets every block";
      for (void* p : all) {
        EXPECT_TRUE(mine.deallocate(p));
        EXPECT_FALSE(mine.deallocate(p));
        EXPECT_LE(mine.held(), mine.depth());
      }
      EXPECT_EQ(pool.in_use(), mine.held());
    }
    EXPECT_EQ(pool.in_use(), 0u);
  }
}

TEST(BitmapPoolMagazines, NoDepthIsAboveTheMost) {
  Blocks pool;
  BitmapPoolMagazine mine(pool, 1000);
  EXPECT_EQ(mine.depth(), decltype(mine)::kMaxDepth);
}

TEST(BitmapPoolMagazines, RefusesWrongFreesAsThePoolDoes) {
  Blocks pool, other;
  Magazines magazines(pool, 2);
  Magazines::Magazine mine(magazines);
  std::vector<void*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(mine.allocate());
  EXPECT_FALSE(mine.deallocate(nullptr));
  EXPECT_FALSE(mine.deallocate(static_cast<char*>(blocks[0]) + 1));
  EXPECT_FALSE(mine.deallocate(other.allocate()));
  for (void* p : blocks) {
    EXPECT_TRUE(mine.deallocate(p));
    EXPECT_FALSE(mine.deallocate(p)) << "it lies in this magazine";
  }
  for (void* p : blocks) EXPECT_FALSE(mine.deallocate(p)) << "it lies here or in the pool";
}

TEST(BitmapPoolMagazines, NoThreadCountsAsOne) {
  Blocks pool;
  Magazines magazines(pool, 0);
  EXPECT_EQ(magazines.depth(), 8u);
  Magazines::Magazine mine(magazines);
  EXPECT_EQ(mine.depth(), 8u);
}

TEST(BitmapPoolMagazines, DestructionFreesItsBlocksAndItsPlace) {
  Blocks pool;
  Magazines magazines(pool, 1);
  for (int i = 0; i < 3; ++i) {
    Magazines::Magazine mine(magazines);
    EXPECT_EQ(mine.depth(), 8u);
    EXPECT_TRUE(mine.deallocate(mine.allocate()));
    EXPECT_GT(pool.in_use(), 0u);
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BitmapPoolMagazines, APoolTooSmallToSpareABlockIsServedWithoutMagazines) {
  BitmapPool<64, 3> pool;
  BitmapPoolMagazines magazines(pool, 1);
  EXPECT_EQ(magazines.depth(), 0u);
  decltype(magazines)::Magazine mine(magazines);
  EXPECT_EQ(mine.depth(), 0u);
  void* p[3];
  for (void*& block : p) EXPECT_NE(block = mine.allocate(), nullptr);
  EXPECT_EQ(mine.allocate(), nullptr);
  for (void* block : p) EXPECT_TRUE(mine.deallocate(block));
  EXPECT_FALSE(mine.deallocate(p[0]));
}

TEST(BitmapPoolMagazines, ProducersAndConsumersLoseNothingAndNeverStarve) {
  for (const unsigned pairs : {1u, 2u, 4u}) {
    BitmapPool<64, 256> pool;
    BitmapPoolMagazines magazines(pool, 2 * pairs);
    // One slot per pair, so a producer cannot run ahead and the pool always has free blocks.
    std::vector<std::atomic<void*>> slots(pairs);
    std::barrier gate(2 * pairs);
    std::atomic<int> starved{0}, refused{0};
    constexpr int kBlocks = 1000;
    std::vector<std::thread> crew;
    for (unsigned i = 0; i < pairs; ++i) {
      crew.emplace_back([&, i] {
        decltype(magazines)::Magazine mine(magazines);
        gate.arrive_and_wait();
        for (int k = 0; k < kBlocks; ++k) {
          void* p = mine.allocate();
          if (p == nullptr) {
            ++starved;
            continue;
          }
          *static_cast<int*>(p) = k;
          void* empty = nullptr;
          while (!slots[i].compare_exchange_weak(empty, p, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
            empty = nullptr;
            std::this_thread::yield();
          }
        }
        void* empty = nullptr;
        while (!slots[i].compare_exchange_weak(empty, &gate, std::memory_order_release,
                                               std::memory_order_relaxed)) {
          empty = nullptr;
          std::this_thread::yield();
        }
      });
      crew.emplace_back([&, i] {
        decltype(magazines)::Magazine mine(magazines);
        gate.arrive_and_wait();
        int last = -1;
        for (;;) {
          void* p = slots[i].exchange(nullptr, std::memory_order_acquire);
          if (p == &gate) break;
          if (p == nullptr) {
            std::this_thread::yield();
            continue;
          }
          if (*static_cast<int*>(p) <= last) ++refused;
          last = *static_cast<int*>(p);
          if (!mine.deallocate(p)) ++refused;
        }
      });
    }
    for (auto& thread : crew) thread.join();
    EXPECT_EQ(starved.load(), 0);
    EXPECT_EQ(refused.load(), 0);
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_EQ(pool.broken_invariant(), nullptr);
  }
}

}  // namespace
}  // namespace strata
