#include <strata/bitmap_pool.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <vector>

#include "base/seeded_test.h"
#include "pool/drain_test.h"

/// \file  At every atomic step of an operation a thread can be preempted, or an interrupt can
/// arrive. These tests have something else happen at each step in turn: what a stress test meets
/// once a week happens every time.

namespace strata {
namespace {

/// Counts steps, and calls `interrupt` at the chosen one.
struct WatchedSteps {
  static inline std::size_t loads = 0;
  static inline std::size_t rmws = 0;
  static inline std::size_t until_interrupt = 0;  // 0: none
  static inline std::function<void()> interrupt;

  static void load() {
    ++loads;
    step();
  }
  static void rmw() {
    ++rmws;
    step();
  }
  static void step() {
    if (until_interrupt == 0 || --until_interrupt != 0) return;
    const auto handler = std::move(interrupt);  // which may set up the next one
    handler();
  }
  /// Runs `operation`, and `handler` at its n-th step (1, 2 …); false if it has fewer steps.
  static bool run_interrupted(std::size_t n, const std::function<void()>& operation,
                              const std::function<void()>& handler) {
    bool happened = false;
    interrupt = [&] {
      happened = true;
      handler();
    };
    until_interrupt = n;
    operation();
    until_interrupt = 0;
    return happened;
  }
};

struct WatchedPolicy {
  struct Starts {
    static BitmapPoolCursor& cursor(const void*, std::size_t, std::uint32_t) {
      static BitmapPoolCursor cursor;
      return cursor;
    }
    static void note_freed(const void* pool, std::size_t leaf) {
      cursor(pool, 0, 0).note_freed(leaf);
    }
  };
  using Steps = WatchedSteps;
};

// With one bit per leaf, few blocks make the most leaves, markers and levels.
using Flat = BitmapPool<8, 8, 8, 8, WatchedPolicy>;
using OneLevel = BitmapPool<8, 40, 8, 40, WatchedPolicy>;
using TwoLevels = BitmapPool<8, 520, 8, 520, WatchedPolicy>;
using WideLeaves = BitmapPool<8, 1024, 8, 16, WatchedPolicy>;
static_assert(OneLevel::kGeometry.levels == 1 && TwoLevels::kGeometry.levels == 2);
static_assert(Flat::kGeometry.levels == 0 && WideLeaves::kGeometry.levels == 1);

// With a single thread, thread sanitizers have nothing to find, and are twenty times slower.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kGapStride = 5;
#else
constexpr std::size_t kGapStride = 1;
#endif

template <class Pool>
class BitmapPoolSteps : public testing::Test {
 protected:
  void SetUp() override {
    blocks_ = drain(pool_);  // the search that finds nothing leaves every marker set
    ASSERT_EQ(blocks_.size(), pool_.capacity());
  }

  /// A few positions, so that the test is quick: at the ends of leaves and nodes.
  std::vector<std::size_t> positions() const {
    std::vector<std::size_t> some = {0, blocks_.size() / 2, blocks_.size() - 1};
    if (blocks_.size() > 33) some.push_back(32);
    return some;
  }

  /// A promise to handlers: a block whose deallocate() has returned is found. The handler takes the
  /// very block that it gave back, by a search that begins there, so that any other free block
  /// stays free all the time.
  void give_back_and_take(std::size_t index) {
    void* const p = pool_.block(index);
    if (!pool_.deallocate(p)) return;  // the interrupted operation has it already
    BitmapPoolCursor cursor;
    cursor.leaf() = index / Pool::kGeometry.bits_per_leaf();
    ASSERT_EQ(pool_.allocate(cursor), p);
  }

  /// The same with a search that begins elsewhere: only the markers lead to the block.
  void give_back_and_search(std::size_t index) {
    if (!pool_.deallocate(pool_.block(index))) return;
    ASSERT_NE(allocate_looking_last_at(index), nullptr) << "a free block was overlooked";
  }

  void* allocate_looking_last_at(std::size_t index) {
    BitmapPoolCursor cursor;
    cursor.leaf() = index / Pool::kGeometry.bits_per_leaf() + 1;
    // Begins at the block, or somewhere else in the pool.
    if (index % 2 == 0) cursor.note_freed(index * 7 % Pool::kGeometry.leaf_count());
    return pool_.allocate(cursor);
  }

  Pool pool_;
  std::vector<void*> blocks_;
};
using Pools = testing::Types<Flat, OneLevel, TwoLevels, WideLeaves>;
TYPED_TEST_SUITE(BitmapPoolSteps, Pools);

TYPED_TEST(BitmapPoolSteps, WhatIsFreeWhereASearchHasLookedIsFoundByTheNextOne) {
  auto& pool = this->pool_;
  constexpr std::size_t kBits = TypeParam::kGeometry.bits_per_leaf();
  const std::size_t last = pool.capacity() - 1;
  int overtaken = 0;
  for (std::size_t n = 1;; ++n) {
    for (std::size_t i = 0; i < kBits; ++i) ASSERT_TRUE(pool.deallocate(pool.block(last - i)));
    void* found = nullptr;
    const bool interrupted = WatchedSteps::run_interrupted(
        n, [&] { found = this->allocate_looking_last_at(last); },
        [&] {
          // Afterwards as many blocks are free as before, but at the other end. All the time at
          // least as many as a leaf has are free.
          for (std::size_t i = 0; i < kBits; ++i) pool.deallocate(pool.block(i));
          BitmapPoolCursor cursor;
          cursor.leaf() = last / kBits;
          for (std::size_t i = 0; i < kBits; ++i) pool.allocate(cursor);
        });
    overtaken += found == nullptr ? 1 : 0;
    if (found == nullptr) found = pool.allocate();
    ASSERT_NE(found, nullptr) << "after " << n << " steps";
    drain(pool);
    ASSERT_EQ(pool.in_use(), pool.capacity());
    if (!interrupted) break;
  }
  EXPECT_GT(overtaken, 0);
}

TYPED_TEST(BitmapPoolSteps, AFreeBlockIsFoundWhereverAnotherAllocateStandsStill) {
  auto& pool = this->pool_;
  for (const bool markers_are_set : {true, false}) {
    for (const std::size_t index : this->positions()) {
      for (std::size_t n = 1;; ++n) {
        if (!markers_are_set) pool.repair();
        void* found = nullptr;
        const bool interrupted = WatchedSteps::run_interrupted(
            n, [&] { found = this->allocate_looking_last_at(index); },
            [&] { this->give_back_and_search(index); });
        if (this->HasFatalFailure()) return;
        ASSERT_EQ(found, nullptr) << "all blocks are taken again";
        ASSERT_EQ(pool.in_use(), pool.capacity());
        ASSERT_EQ(pool.broken_invariant(), nullptr);
        if (!interrupted) break;
      }
    }
  }
}

TYPED_TEST(BitmapPoolSteps, AFreeBlockIsFoundWhereverADeallocateStandsStill) {
  auto& pool = this->pool_;
  for (const std::size_t index : this->positions()) {
    const std::size_t other = (index + 1) % pool.capacity();
    for (std::size_t n = 1;; ++n) {
      const bool interrupted = WatchedSteps::run_interrupted(
          n, [&] { ASSERT_TRUE(pool.deallocate(pool.block(index))); },
          [&] { this->give_back_and_search(other); });
      if (this->HasFatalFailure()) return;
      ASSERT_NE(pool.allocate(), nullptr) << "the block is lost";
      ASSERT_EQ(pool.allocate(), nullptr);
      ASSERT_EQ(pool.broken_invariant(), nullptr);
      if (!interrupted) break;
    }
  }
}

TYPED_TEST(BitmapPoolSteps, ABlockFreedBeforeAMarkIsFoundBeforeItsRecheck) {
  // The narrow case. A search has seen a full leaf, and is about to mark it. A block of that leaf
  // comes back, and sees no mark. The search marks the leaf and stops again. Now the marker is
  // wrong, and only the count beside it says so.
  auto& pool = this->pool_;
  for (const std::size_t index : this->positions()) {
    for (std::size_t gap = 1; gap <= 6; gap += kGapStride) {
      for (std::size_t n = 1;; ++n) {
        pool.repair();
        bool overlooked = false;
        const bool interrupted = WatchedSteps::run_interrupted(
            n, [&] { this->allocate_looking_last_at(index); },
            [&] {
              ASSERT_TRUE(pool.deallocate(pool.block(index)));
              WatchedSteps::interrupt = [&] {
                overlooked = this->allocate_looking_last_at(index) == nullptr &&
                             !pool.is_in_use(pool.block(index));
              };
              WatchedSteps::until_interrupt = gap;
            });
        if (this->HasFatalFailure()) return;
        ASSERT_FALSE(overlooked) << "a free block was overlooked";
        if (pool.in_use() < pool.capacity()) {
          ASSERT_NE(pool.allocate(), nullptr) << "the block is lost";
        }
        ASSERT_EQ(pool.allocate(), nullptr);
        ASSERT_EQ(pool.broken_invariant(), nullptr);
        if (!interrupted) break;
      }
    }
  }
}

TYPED_TEST(BitmapPoolSteps, AFreeBlockIsFoundByAHandlerInsideAHandler) {
  auto& pool = this->pool_;
  std::mt19937 random(1);
  // All pairs of places for the small pools; for the large ones a random choice of second places.
  for (std::size_t outer = 1;; ++outer) {
    bool outer_happened = false;
    std::size_t inner = 1;
    for (bool inner_happened = true; inner_happened;) {
      pool.repair();
      inner_happened = false;
      outer_happened = WatchedSteps::run_interrupted(
          outer, [&] { ASSERT_EQ(pool.allocate(), nullptr); },
          [&] {
            const std::size_t first = random() % pool.capacity();
            const std::size_t second =
                (first + TypeParam::kGeometry.bits_per_leaf() * (1 + random() % 7)) %
                pool.capacity();
            inner_happened = WatchedSteps::run_interrupted(
                inner, [&] { this->give_back_and_search(first); },
                [&] { this->give_back_and_take(second); });
          });
      if (this->HasFatalFailure()) return;
      ASSERT_EQ(pool.in_use(), pool.capacity());
      ASSERT_EQ(pool.broken_invariant(), nullptr);
      inner += pool.capacity() > 64 ? 1 + random() % 200 : 1;
    }
    if (!outer_happened) break;
    if (pool.capacity() > 64) outer += random() % 20;
  }
}

TYPED_TEST(BitmapPoolSteps, ABlockIsNeverHandedOutTwiceWhateverInterrupts) {
  auto& pool = this->pool_;
  std::mt19937_64 random(seed_of_this_run());
  std::vector<bool> held(pool.capacity(), true);
  std::size_t held_count = pool.capacity();
  // Random operations, interrupted at random steps by random operations, which are interrupted,
  // too. The model changes when an operation has returned; a block that is being allocated or freed
  // has no owner.
  std::function<void(int)> operate = [&](int depth) {
    const auto interrupted = [&](const std::function<void()>& operation) {
      if (depth == 0) return operation();
      WatchedSteps::run_interrupted(1 + random() % 8, operation, [&] { operate(depth - 1); });
    };
    void* batch[70];
    const std::size_t start = random() % pool.capacity();
    const std::size_t count = 1 + random() % 70;
    std::size_t got = 0;
    const auto note = [&](void* p) {
      const std::size_t index = pool.index_of(p);
      ASSERT_FALSE(held[index]) << "handed out twice";
      held[index] = true;
      ++held_count;
    };
    const auto forget = [&](std::size_t index) {
      held[index] = false;
      --held_count;
    };
    switch (random() % 4) {
      case 0: {
        void* p = nullptr;
        interrupted([&] { p = pool.allocate(); });
        if (p != nullptr) note(p);
        break;
      }
      case 1:
        interrupted([&] { got = pool.allocate_batch(batch, count); });
        for (std::size_t i = 0; i < got; ++i) note(batch[i]);
        break;
      case 2:
        if (!held[start]) break;
        forget(start);
        interrupted([&] { ASSERT_TRUE(pool.deallocate(pool.block(start))); });
        break;
      default:
        for (std::size_t i = start; i < pool.capacity() && got < count; ++i) {
          if (!held[i]) continue;
          forget(i);
          batch[got++] = pool.block(i);
        }
        interrupted([&] { ASSERT_EQ(pool.deallocate_batch(batch, got), got); });
    }
  };
  for (int i = 0; i < 5000; ++i) {
    operate(2);
    WatchedSteps::until_interrupt = 0;
    if (this->HasFatalFailure()) return;
    ASSERT_EQ(pool.in_use(), held_count);
    ASSERT_EQ(pool.broken_invariant(), nullptr);
  }
}

TYPED_TEST(BitmapPoolSteps, AQuietPoolTakesTheStepsThatTheManualStates) {
  auto& pool = this->pool_;
  const auto& geometry = TypeParam::kGeometry;
  BitmapPoolCursor cursor;
  const auto steps = [&](auto&& operation) {
    WatchedSteps::loads = WatchedSteps::rmws = 0;
    operation();
    return std::pair(WatchedSteps::loads, WatchedSteps::rmws);
  };
  using Cost = std::pair<std::size_t, std::size_t>;
  // The pool is exhausted and all markers are set: reads the home word and the top level.
  EXPECT_EQ(steps([&] { EXPECT_EQ(pool.allocate(cursor), nullptr); }),
            Cost(1 + geometry.top_nodes(), 0));
  // After a free whose block another thread took: also reads the next word, once.
  cursor.note_freed(geometry.leaf_count() / 2);
  EXPECT_EQ(steps([&] { EXPECT_EQ(pool.allocate(cursor), nullptr); }),
            Cost(2 + geometry.top_nodes(), 0));
  EXPECT_EQ(steps([&] { EXPECT_EQ(pool.allocate(cursor), nullptr); }),
            Cost(1 + geometry.top_nodes(), 0));
  // A free under set markers clears one of them per level.
  EXPECT_EQ(steps([&] { EXPECT_TRUE(pool.deallocate(pool.block(0))); }),
            Cost(geometry.levels, 1 + geometry.levels));
  // The home word has a free block.
  cursor.leaf() = 0;
  EXPECT_EQ(steps([&] { EXPECT_NE(pool.allocate(cursor), nullptr); }), Cost(1, 1));
  // A double free, and a pointer to no block.
  EXPECT_TRUE(pool.deallocate(pool.block(0)));
  EXPECT_EQ(steps([&] { EXPECT_FALSE(pool.deallocate(pool.block(0))); }), Cost(0, 1));
  EXPECT_EQ(steps([&] { EXPECT_FALSE(pool.deallocate(&pool)); }), Cost(0, 0));
  // The only free block is at the far end of a full pool: once across and once down.
  EXPECT_NE(pool.allocate(cursor), nullptr);
  EXPECT_EQ(pool.allocate(cursor), nullptr);
  EXPECT_TRUE(pool.deallocate(pool.block(pool.capacity() - 1)));
  cursor.leaf() = 0;
  const auto [loads, rmws] = steps([&] { EXPECT_NE(pool.allocate(cursor), nullptr); });
  EXPECT_LE(loads, 1 + geometry.top_nodes() + geometry.levels);
  EXPECT_EQ(rmws, 1u);
}

/// From then on, a thread that loses a race for a word starts at the next word, so threads that
/// meet move apart.
TEST(BitmapPoolRaces, WhoLosesARaceStartsAtTheNextWordFromThenOn) {
  using EightLeaves = BitmapPool<8, 64, 8, 8, WatchedPolicy>;
  EightLeaves pool;
  BitmapPoolCursor winner;
  BitmapPoolCursor loser;
  void* first = nullptr;
  void* second = nullptr;
  bool was_interrupted = false;
  // The second step of a claim is between the read of the word and the compare-exchange.
  was_interrupted = WatchedSteps::run_interrupted(
      2, [&] { second = pool.allocate(loser); }, [&] { first = pool.allocate(winner); });
  ASSERT_TRUE(was_interrupted);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(winner.leaf(), 0u);
  EXPECT_EQ(loser.leaf(), 1u);
  const std::size_t in_a_leaf = EightLeaves::kGeometry.bits_per_leaf();
  void* third = pool.allocate(loser);
  EXPECT_GE(third, pool.block(in_a_leaf)) << "the next block comes from the next word";
  EXPECT_LT(third, pool.block(2 * in_a_leaf));
}

}  // namespace
}  // namespace strata
