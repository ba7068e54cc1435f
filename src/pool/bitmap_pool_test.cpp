#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_view.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "pool/drain_test.h"

namespace strata {
namespace {

constinit BitmapPool<> default_pool;
constinit BitmapPool<64, 65536> large_pool;

static_assert(BitmapPool<>::kGeometry.capacity == 64 && BitmapPool<>::kGeometry.block_bytes == 64);
static_assert(BitmapPool<>::kGeometry.leaf_count() == 8, "64 blocks are eight words of eight bits");
static_assert(BitmapPool<64, 512>::kGeometry.bits_per_leaf() == 64);
static_assert(BitmapPool<64, 1>::kGeometry.leaf_count() == 1);
static_assert(BitmapPool<64, 100>::kGeometry.leaf_count() == 13 &&
              BitmapPool<64, 100>::kGeometry.last_leaf_mask == 0xf);
static_assert(BitmapPool<64, 256, 0, 32>::kGeometry.leaf_count() == 32, "as split as it was asked");
static_assert(BitmapPool<64, 512>::kGeometry.levels == 0,
              "few words are looked through one by one");
static_assert(BitmapPool<64, 4096>::kGeometry.levels == 1);
static_assert(BitmapPool<64, 65536>::kGeometry.levels == 2 &&
              BitmapPool<64, 65536>::kGeometry.node_count == 1024 + 32 + 1);
static_assert(BitmapPool<24, 8>::kGeometry.alignment == 8, "what an object of 24 bytes may need");
static_assert(BitmapPool<1, 8>::kGeometry.stride == 1);
static_assert(BitmapPool<40, 8, 64>::kGeometry.stride == 64);
static_assert(alignof(BitmapPool<64, 64, 4096>) == 4096);
static_assert(BitmapPoolGeometry::of({0, 64}).capacity == 0, "blocks without bytes");
static_assert(BitmapPoolGeometry::of({64, 64, 48}).capacity == 0, "not a power of two");
static_assert(BitmapPoolGeometry::of({SIZE_MAX / 2, 3}).capacity == 0, "larger than memory");
static_assert(BitmapPoolGeometry::of({1, SIZE_MAX}).capacity == 0, "larger than memory");
static_assert(BitmapPoolGeometry::of({64, 1u << 24}).levels == 3, "millions of blocks");
static_assert(!std::is_copy_constructible_v<BitmapPool<>> &&
              !std::is_copy_assignable_v<BitmapPool<>>);
static_assert(std::is_trivially_destructible_v<BitmapPool<>>, "usable in static destructors");

template <class Pool>
void expect_clean(Pool& pool, std::size_t in_use) {
  EXPECT_EQ(pool.in_use(), in_use);
  EXPECT_EQ(pool.broken_invariant(), nullptr);
}

TEST(BitmapPool, HandsOutEachBlockOnceAndThenNull) {
  std::vector<void*> blocks = drain(default_pool);
  EXPECT_EQ(blocks.size(), 64u);
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 64u);
  EXPECT_EQ(default_pool.allocate(), nullptr);
  for (void* p : blocks) EXPECT_TRUE(default_pool.deallocate(p));
  expect_clean(default_pool, 0);
}

TEST(BitmapPool, FindsTheOneFreeBlockWhereverItIs) {
  const std::vector<void*> blocks = drain(large_pool);
  ASSERT_EQ(blocks.size(), 65536u);
  EXPECT_EQ(large_pool.allocate(), nullptr);
  for (std::size_t i = 0; i < blocks.size(); i += 97) {
    ASSERT_TRUE(large_pool.deallocate(blocks[i]));
    ASSERT_EQ(large_pool.allocate(), blocks[i]);
    ASSERT_EQ(large_pool.allocate(), nullptr);
  }
  EXPECT_EQ(large_pool.broken_invariant(), nullptr);
  for (void* p : blocks) ASSERT_TRUE(large_pool.deallocate(p));
  expect_clean(large_pool, 0);
}

template <class Pool>
class BitmapPoolShapes : public testing::Test {
 protected:
  Pool pool_;
};
using Shapes =
    testing::Types<BitmapPool<1, 1>, BitmapPool<8, 7>, BitmapPool<64, 64>, BitmapPool<24, 100>,
                   BitmapPool<40, 300, 64>, BitmapPool<3, 1023>, BitmapPool<16, 1024, 16, 64>,
                   BitmapPool<48, 2000, 256>, BitmapPool<8, 3001, 8, 3001>, BitmapPool<8, 40000>>;
TYPED_TEST_SUITE(BitmapPoolShapes, Shapes);

TYPED_TEST(BitmapPoolShapes, BlocksAreAlignedApartAndFarFromTheBits) {
  auto& pool = this->pool_;
  const auto& geometry = TypeParam::kGeometry;
  const auto begin = reinterpret_cast<std::uintptr_t>(&pool);
  const auto first = reinterpret_cast<std::uintptr_t>(pool.block(0));
  EXPECT_GE(first, begin + geometry.metadata_bytes()) << "bits come first";
  EXPECT_EQ(first % detail::kCacheLineBytes, 0u) << "a block shares a line with a bit";
  EXPECT_EQ(sizeof(pool) % detail::kCacheLineBytes, 0u) << "a block shares a line with a neighbour";
  std::vector<void*> blocks = drain(pool);
  ASSERT_EQ(blocks.size(), pool.capacity());
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>(blocks[i]);
    ASSERT_EQ(address % pool.block_alignment(), 0u);
    ASSERT_LE(address + pool.block_bytes(), begin + sizeof(pool));
    if (i > 0) {
      ASSERT_GE(address - reinterpret_cast<std::uintptr_t>(blocks[i - 1]), pool.block_bytes());
    }
  }
}

TYPED_TEST(BitmapPoolShapes, AgreesWithAModelUnderRandomOperations) {
  auto& pool = this->pool_;
  std::mt19937_64 random(seed_of_this_run());
  std::vector<void*> held;
  std::set<void*> model;
  const auto take = [&](void* p) {
    ASSERT_TRUE(pool.owns(p));
    ASSERT_TRUE(model.insert(p).second) << "handed out twice";
    held.push_back(p);
  };
  const auto pick = [&] {
    std::swap(held[random() % held.size()], held.back());
    void* p = held.back();
    held.pop_back();
    model.erase(p);
    return p;
  };
  std::vector<void*> batch(200);
  bool filling = true;
  for (int step = 0; step < 4000; ++step) {
    if (held.size() == pool.capacity()) filling = false;
    if (held.empty()) filling = true;
    const bool allocate = random() % 10 < (filling ? 7u : 3u);
    const std::size_t count = 1 + random() % batch.size();
    switch (random() % 4) {
      case 0:
        if (allocate) {
          const std::size_t got = pool.allocate_batch(batch.data(), count);
          ASSERT_EQ(got, std::min(count, pool.capacity() - held.size()));
          for (std::size_t i = 0; i < got; ++i) take(batch[i]);
        } else {
          const std::size_t some = std::min(count, held.size());
          for (std::size_t i = 0; i < some; ++i) batch[i] = pick();
          if (random() % 2 == 0) std::sort(batch.begin(), batch.begin() + some);
          ASSERT_EQ(pool.deallocate_batch(batch.data(), some), some);
          ASSERT_EQ(pool.deallocate_batch(batch.data(), some), 0u) << "freed twice";
        }
        break;
      default:
        if (allocate) {
          void* p = pool.allocate();
          ASSERT_EQ(p == nullptr, held.size() == pool.capacity());
          if (p != nullptr) take(p);
        } else if (!held.empty()) {
          void* p = pick();
          ASSERT_TRUE(pool.is_in_use(p));
          ASSERT_TRUE(pool.deallocate(p));
          ASSERT_FALSE(pool.is_in_use(p));
          ASSERT_FALSE(pool.deallocate(p)) << "freed twice";
        }
    }
    ASSERT_EQ(pool.broken_invariant(), nullptr);
    ASSERT_EQ(pool.in_use(), held.size());
    if (step % 64 == 0) {
      std::vector<void*> seen;
      pool.for_each_in_use([&](void* p) { seen.push_back(p); });
      ASSERT_EQ(seen, std::vector<void*>(model.begin(), model.end()));
    }
  }
}

TYPED_TEST(BitmapPoolShapes, RefusesEveryAddressThatIsNoBlock) {
  auto& pool = this->pool_;
  const std::vector<void*> blocks = drain(pool);
  auto* const first = static_cast<unsigned char*>(pool.block(0));
  auto* const end = first + TypeParam::kGeometry.stride * pool.capacity();
  // Tries every address from before the pool to after it: only the blocks are accepted, each once.
  std::size_t accepted = 0;
  for (auto p = reinterpret_cast<std::uintptr_t>(&pool) - 64;
       p < reinterpret_cast<std::uintptr_t>(end) + 64; ++p) {
    auto* const address = reinterpret_cast<unsigned char*>(p);
    const bool is_block =
        address >= first && address < end &&
        static_cast<std::size_t>(address - first) % TypeParam::kGeometry.stride == 0;
    ASSERT_EQ(pool.owns(address), is_block);
    const bool freed = pool.deallocate(address);
    ASSERT_EQ(freed, is_block);
    accepted += freed;
  }
  EXPECT_EQ(accepted, pool.capacity());
  EXPECT_FALSE(pool.deallocate(nullptr));
  for (void* p : blocks) ASSERT_FALSE(pool.deallocate(p)) << "freed twice";
  expect_clean(pool, 0);
}

TYPED_TEST(BitmapPoolShapes, RefusesABlockThatLies2To32BlocksAway) {
  auto& pool = this->pool_;
  const auto stride = std::uintptr_t{TypeParam::kGeometry.stride};
  void* const p = pool.allocate();
  for (const std::uintptr_t blocks_away :
       {std::uintptr_t{1} << 32, std::uintptr_t{0} - (std::uintptr_t{1} << 32),
        std::uintptr_t{1} << 31, std::uintptr_t{1} << 40}) {
    void* const far =
        reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(p) + blocks_away * stride);
    EXPECT_FALSE(pool.owns(far));
    EXPECT_FALSE(pool.deallocate(far));
  }
  EXPECT_TRUE(pool.deallocate(p));
}

TEST(BitmapPool, BatchTakesAWordInOneStepAndSaysHowManyThereWere) {
  BitmapPool<32, 100> pool;
  std::vector<void*> blocks(200);
  EXPECT_EQ(pool.allocate_batch(blocks.data(), 0), 0u);
  EXPECT_EQ(pool.allocate_batch(blocks.data(), 60), 60u);
  EXPECT_EQ(pool.allocate_batch(blocks.data() + 60, 60), 40u) << "the rest, not nothing";
  EXPECT_EQ(pool.allocate_batch(blocks.data(), 1), 0u);
  expect_clean(pool, 100);
  blocks[100] = blocks[3];  // twice in one batch
  blocks[101] = nullptr;
  blocks[102] = static_cast<char*>(blocks[4]) + 1;
  EXPECT_EQ(pool.deallocate_batch(blocks.data(), 103), 100u);
  expect_clean(pool, 0);
}

TEST(BitmapPool, DeallocateIfGivesBackExactlyTheChosen) {
  BitmapPool<64, 1500> pool;
  const std::vector<void*> blocks = drain(pool);
  EXPECT_EQ(pool.deallocate_if([&](void* p) { return pool.index_of(p) % 3 == 0; }), 500u);
  pool.for_each_in_use([&](void* p) { EXPECT_NE(pool.index_of(p) % 3, 0u); });
  expect_clean(pool, 1000);
}

TEST(BitmapPool, ThreadsStartInDifferentWords) {
  BitmapPool<64, 64> pool;
  std::set<std::size_t> starts;
  for (std::uint32_t n = 0; n < 8; ++n) starts.insert(pool.nth_cursor(n).leaf());
  EXPECT_EQ(starts.size(), 8u);
}

TEST(BitmapPool, AnyCursorIsSafeAndIsMovedToWhereABlockWas) {
  BitmapPool<64, 64> pool;
  BitmapPoolCursor cursor;
  cursor.leaf() = SIZE_MAX;
  void* p = pool.allocate(cursor);
  ASSERT_NE(p, nullptr);
  for (int i = 0; i < 8; ++i) ASSERT_NE(pool.allocate(cursor), nullptr);
  EXPECT_LT(cursor.leaf(), 8u) << "the word was full, another took over";
  void* next = pool.allocate(cursor);
  EXPECT_EQ(pool.index_of(next) / 8, cursor.leaf()) << "the cursor stays where blocks are";
  cursor.leaf() = SIZE_MAX;
  void* batch[4];
  ASSERT_EQ(pool.allocate_batch(batch, 4, cursor), 4u);
  for (void* block : batch) EXPECT_TRUE(pool.deallocate(block));
}

/// In a pool that is mostly taken, the nearest free blocks are those that other threads gave back.
TEST(BitmapPool, WhereItsWordIsFullAThreadGetsWhatItGaveBackBeforeWhatOthersDid) {
  BitmapPool<64, 64> small;     // a walk over the words
  BitmapPool<64, 4096> levels;  // a search below a level
  const auto check = [](auto& pool) {
    const std::size_t bits = pool.kGeometry.bits_per_leaf();
    drain(pool);
    BitmapPoolCursor mine;
    BitmapPoolCursor others;
    for (const std::size_t own : {5 * bits, 5 * bits + 3, 7 * bits - 1}) {
      mine.leaf() = 0;
      const std::size_t of_another = 2 * bits + own % bits;
      EXPECT_TRUE(pool.deallocate(pool.block(own), mine));
      EXPECT_TRUE(pool.deallocate(pool.block(of_another), others));
      EXPECT_FALSE(pool.deallocate(pool.block(of_another), mine)) << "it is free already";
      EXPECT_EQ(pool.allocate(mine), pool.block(own));
      EXPECT_EQ(pool.allocate(mine), pool.block(of_another)) << "it was there before";
      EXPECT_EQ(pool.allocate(mine), nullptr);
    }
    expect_clean(pool, pool.capacity());
  };
  check(small);
  check(levels);
}

TEST(BitmapPool, ThreadsWithoutCursorsOfTheirOwnDoSoToo) {
  static BitmapPool<64, 4096> pool;
  drain(pool);
  void* const low = pool.block(64 * 10);
  void* const middle = pool.block(64 * 20);
  void* const high = pool.block(64 * 30);
  EXPECT_TRUE(pool.deallocate(middle));
  EXPECT_EQ(pool.allocate(), middle);
  // A search from there would reach the higher block first.
  EXPECT_TRUE(pool.deallocate(low));
  std::thread([&] { EXPECT_TRUE(pool.deallocate(high)); }).join();
  EXPECT_EQ(pool.allocate(), low);
  EXPECT_EQ(pool.allocate(), high);
}

TEST(BitmapPool, AnEmptyWordNextToItsOwnComesBeforeWhereAThreadGaveBackABlock) {
  BitmapPool<64, 64> pool;
  const std::size_t bits = pool.kGeometry.bits_per_leaf();
  drain(pool);
  BitmapPoolCursor cursor;
  for (std::size_t i = 0; i < bits; ++i) EXPECT_TRUE(pool.deallocate(pool.block(bits + i)));
  EXPECT_TRUE(pool.deallocate(pool.block(5 * bits), cursor));
  EXPECT_TRUE(pool.deallocate(pool.block(3 * bits)));
  for (std::size_t i = 0; i < bits; ++i)
    EXPECT_EQ(pool.index_of(pool.allocate(cursor)) / bits, 1u) << i;
  EXPECT_EQ(pool.allocate(cursor), pool.block(5 * bits));
}

TEST(BitmapPool, ACursorThatHasFreedElsewhereIsSafe) {
  const auto check = [](auto& pool) {
    drain(pool);
    for (const std::size_t leaf : {SIZE_MAX, SIZE_MAX - 1, std::size_t{4096 / 64 - 1}}) {
      BitmapPoolCursor cursor;
      cursor.note_freed(leaf);
      EXPECT_EQ(pool.allocate(cursor), nullptr);
      cursor.note_freed(leaf);
      EXPECT_TRUE(pool.deallocate(pool.block(pool.capacity() - 1)));
      EXPECT_EQ(pool.allocate(cursor), pool.block(pool.capacity() - 1));
    }
    expect_clean(pool, pool.capacity());
  };
  BitmapPool<64, 64> eight_words;
  BitmapPool<64, 64, 0, 1> one_word;
  BitmapPool<64, 4096> levels;
  check(eight_words);
  check(one_word);
  check(levels);
  BitmapPoolCursor cursor;
  cursor.note_freed(SIZE_MAX - 1);
  EXPECT_EQ(BitmapPoolView<>{}.allocate(cursor), nullptr);
}

TEST(BitmapPool, TwoPoolsUsedInTurnKeepTheirOwnStarts) {
  const auto pools = std::make_unique<std::pair<BitmapPool<64, 4096>, BitmapPool<64, 64>>>();
  auto& [first, second] = *pools;
  for (int i = 0; i < 64; ++i) {
    EXPECT_NE(first.allocate(), nullptr);
    EXPECT_NE(second.allocate(), nullptr);
  }
  EXPECT_EQ(second.allocate(), nullptr);
  expect_clean(first, 64);
  expect_clean(second, 64);
}

template <class Pool>
class LowestFreeFirstShapes : public testing::Test {};
using LowestShapes = testing::Types<
    BitmapPool<64, 1, 0, 8, LowestFreeFirst>, BitmapPool<64, 64, 0, 8, LowestFreeFirst>,
    BitmapPool<64, 100, 0, 1, LowestFreeFirst>, BitmapPool<8, 40, 8, 40, LowestFreeFirst>,
    BitmapPool<8, 520, 8, 520, LowestFreeFirst>, BitmapPool<16, 4096, 0, 1, LowestFreeFirst>>;
TYPED_TEST_SUITE(LowestFreeFirstShapes, LowestShapes);

TYPED_TEST(LowestFreeFirstShapes, TheLowestFreeBlocksComeFirstByOneAndByBatch) {
  static TypeParam pool;
  std::set<std::size_t> free;
  for (std::size_t i = 0; i < pool.capacity(); ++i) free.insert(free.end(), i);
  std::vector<std::size_t> taken;
  std::mt19937_64 random(seed_of_this_run());
  const auto expect_lowest = [&](void* p) {
    ASSERT_EQ(pool.index_of(p), *free.begin());
    taken.push_back(*free.begin());
    free.erase(free.begin());
  };
  // The number of blocks in use drifts up to all and down to none.
  for (int step = 0; step < 20000; ++step) {
    const bool grows = step / 2000 % 2 == 0;
    if (random() % 4 < (grows ? 3u : 1u)) {
      if (random() % 8 != 0) {
        void* p = pool.allocate();
        ASSERT_EQ(p == nullptr, free.empty());
        if (p != nullptr) expect_lowest(p);
        continue;
      }
      void* batch[8];
      const std::size_t got = pool.allocate_batch(batch, std::size(batch));
      ASSERT_EQ(got, std::min(std::size(batch), free.size()));
      for (std::size_t i = 0; i < got; ++i) expect_lowest(batch[i]);
    } else if (!taken.empty()) {
      std::swap(taken[random() % taken.size()], taken.back());
      ASSERT_TRUE(pool.deallocate(pool.block(taken.back())));
      free.insert(taken.back());
      taken.pop_back();
    }
  }
  for (const std::size_t index : taken) EXPECT_TRUE(pool.deallocate(pool.block(index)));
  expect_clean(pool, 0);
}

TEST(LowestFreeFirst, EveryThreadIsServedFromTheStart) {
  static BitmapPool<64, 4096, 0, 8, LowestFreeFirst> pool;
  for (std::size_t i = 0; i < 4; ++i) {
    void* p = nullptr;
    std::thread([&] { p = pool.allocate(); }).join();
    EXPECT_EQ(pool.index_of(p), i);
  }
  EXPECT_EQ(pool.deallocate_if([](void*) { return true; }), 4u);
}

TEST(BitmapPool, PoolInAutomaticStorageStartsAllFree) {
  for (int round = 0; round < 3; ++round) {
    BitmapPool<64, 32> pool;  // the same stack, still full of the last round's bits
    EXPECT_EQ(drain(pool).size(), 32u);
  }
}

}  // namespace
}  // namespace strata
