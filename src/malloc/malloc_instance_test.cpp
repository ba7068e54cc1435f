#include "malloc/malloc_instance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_in_test.h"
#include "base/lock.h"
#include "base/run_together_test.h"
#include "malloc/malloc_in_test.h"
#include "os/emulation.h"

namespace strata {
namespace {

Options unguarded(Options::Checks checks = Options{}.checks) {
  return {.checks = checks, .guard_rate = 0};
}

struct MallocTest : ::testing::Test, TestMalloc {};

TEST_F(MallocTest, StartsWithItsFirstAllocation) {
  TestThread thread(malloc);
  EXPECT_FALSE(malloc.is_started());
  EXPECT_FALSE(malloc.release_memory(thread.state)) << "there is nothing yet";
  void* p = thread.allocate(100);
  EXPECT_NE(p, nullptr);
  EXPECT_TRUE(malloc.is_started());
  thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

TEST_F(MallocTest, IsStartedByTheNextAllocationWhereMemoryWasOutAtFirst) {
  TestThread thread(malloc);
  pages.refuse_from_call(1);
  void* const first = thread.allocate(100);
  EXPECT_TRUE(malloc.is_spare(first)) << "there is a little memory without a heap";
  EXPECT_EQ(thread.allocate(2 * SpareMemory::kBytes), nullptr);
  EXPECT_FALSE(malloc.is_started());
  pages.refuse_nothing();
  void* p = thread.allocate(100);
  EXPECT_NE(p, nullptr);
  EXPECT_FALSE(malloc.is_spare(p));
  thread.deallocate(p);
  thread.deallocate(first);
}

TEST_F(MallocTest, AThreadThatEndedIsServedWithoutACache) {
  start();
  TestThread thread(malloc);
  void* kept = thread.allocate(100);
  thread.end();
  EXPECT_EQ(statistics().threads, 0u);
  void* p = thread.allocate(100);
  EXPECT_NE(p, nullptr);
  thread.deallocate(p);
  thread.deallocate(kept);
  EXPECT_EQ(statistics().threads, 0u);
  check_nothing_is_left();
}

TEST_F(MallocTest, TheNextThreadGetsWhatTheLastOneHeld) {
  start();
  TestThread first(malloc);
  void* p = first.allocate(500);
  first.deallocate(p);
  first.end();
  TestThread second(malloc);
  EXPECT_EQ(second.allocate(500), p);
  second.deallocate(p);
}

TEST_F(MallocTest, AnAllocationThatFailsAgainAndAgainHardlyAsksTheKernel) {
  start();
  TestThread thread(malloc);
  std::vector<void*> objects;
  pages.limit_mapped_bytes(pages.mapped_bytes() + 8 * kMiB);
  while (void* p = thread.allocate(64)) objects.push_back(p);
  const std::size_t before = pages.fallible_calls();
  constexpr std::size_t kFailures = 1000;
  for (std::size_t i = 0; i < kFailures; ++i) ASSERT_EQ(thread.allocate(64), nullptr);
  EXPECT_LE(pages.fallible_calls() - before, kFailures);
  for (void* p : objects) thread.deallocate(p);
  void* const large = thread.allocate(500'000);
  EXPECT_NE(large, nullptr) << "what was freed serves other sizes at once";
  thread.deallocate(large);
}

/// Answers attend(), and counts the calls.
struct AttentiveMalloc : TestMalloc {
  void attend() noexcept override { ++attended; }
  int attended = 0;
};

TEST_F(MallocTest, ABlockThatGrowsHasPagesOfItsOwnAndGrowsIntoThem) {
  TestThread thread(malloc);
  void* const small = thread.reallocate(thread.allocate(10'000), 30'000);
  EXPECT_NE(engine.class_of(small), 0u);
  auto* const p = static_cast<char*>(thread.reallocate(small, 40'000));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(engine.class_of(p), 0u);
  std::memset(p, 7, 40'000);
  EXPECT_EQ(thread.reallocate(p, 60'000), p);
  EXPECT_EQ(thread.reallocate(p, 200'000), p) << "nothing lies behind it";
  EXPECT_EQ(thread.reallocate(p, 100'000), p);
  EXPECT_EQ(thread.reallocate(p, 39'000), p);
  EXPECT_EQ(thread.reallocate(p, 20'000), p) << "it may grow again";
  auto* const shrunk = static_cast<char*>(thread.reallocate(p, 4'000));
  ASSERT_NE(shrunk, nullptr);
  EXPECT_NE(engine.class_of(shrunk), 0u) << "it is an object of its class again";
  for (std::size_t i = 0; i < 4'000; ++i) ASSERT_EQ(shrunk[i], 7);
  thread.deallocate(shrunk);
}

/// Blocks that grow and shrink again and again, beyond a page, too.
TEST_F(MallocTest, BlocksThatShrinkAndGrowAgainStayOnTheirPages) {
  for (const Options::Checks checks : {Options::Checks::kAuto, Options::Checks::kBasic}) {
    TestMalloc test;
    test.start(unguarded(checks));
    TestThread thread(test.malloc);
    std::mt19937_64 random(7);
    std::vector<char*> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(static_cast<char*>(thread.reallocate(thread.allocate(20'000), 40'000)));
      ASSERT_NE(blocks.back(), nullptr);
      std::memset(blocks.back(), i, 4096);
    }
    int moves = 0;
    for (int step = 0; step < 5000; ++step) {
      char*& block = blocks[random() % blocks.size()];
      const std::size_t bytes = 4096 + random() % (kPageBytes - 4096);
      auto* const p = static_cast<char*>(thread.reallocate(block, bytes));
      ASSERT_NE(p, nullptr);
      ASSERT_GE(thread.usable_bytes(p), bytes);
      moves += p != block ? 1 : 0;
      block = p;
      if (step % 100 == 0) test.check();
    }
    EXPECT_LE(moves, 100);
    for (char*& block : blocks) {
      block = static_cast<char*>(thread.reallocate(block, 3 * kPageBytes));
      block = static_cast<char*>(thread.reallocate(block, 10'000));
      ASSERT_LE(thread.usable_bytes(block), kPageBytes);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      for (std::size_t at = 0; at < 4096; ++at) ASSERT_EQ(blocks[i][at], static_cast<char>(i));
      thread.deallocate(blocks[i]);
    }
    thread.end();
    test.check_nothing_is_left();
  }
}

/// They would waste most of a page each.
TEST_F(MallocTest, OfBlocksThatShrinkForGoodFewStayOnTheirPages) {
  start(unguarded());
  TestThread thread(malloc);
  const auto is_on_a_page = [&](const void* p) { return engine.class_of(p) == 0; };
  const auto count_that_stay = [&](std::size_t first, std::size_t cut) {
    std::vector<void*> blocks;
    int stay = 0;
    for (int i = 0; i < 100; ++i) {
      void* p = first > SizeClassMap::kMaxBytes ? thread.allocate(first)
                                                : thread.reallocate(thread.allocate(20'000), first);
      p = thread.reallocate(p, cut);
      stay += is_on_a_page(p) ? 1 : 0;
      blocks.push_back(p);
    }
    for (void* p : blocks) thread.deallocate(p);
    return stay;
  };
  EXPECT_EQ(count_that_stay(40'000, 10'000), 4);
  EXPECT_EQ(count_that_stay(40'000, 10'000), 4) << "the others were freed";
  EXPECT_EQ(count_that_stay(200'000, 20'000), 4);
  EXPECT_EQ(count_that_stay(200'000, 24'576), 100) << "these waste less";
}

TEST_F(MallocTest, AHugeBlockAlternatesBetweenTwoLengthsWithoutTheKernel) {
  start();
  TestThread thread(malloc);
  void* const p = thread.reallocate(thread.allocate(kMiB), kMiB + 1);
  ASSERT_NE(p, nullptr);
  const std::size_t calls = pages.fallible_calls();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(thread.reallocate(p, kMiB), p);
    ASSERT_EQ(thread.reallocate(p, kMiB + 1), p);
  }
  EXPECT_EQ(pages.fallible_calls(), calls);
  check();
  thread.deallocate(p);
}

/// A signal handler that interrupted the malloc may hold a block of spare memory.
TEST_F(MallocTest, WhereACallMustNotWaitABlockOfSpareMemoryIsRefusedToBecomeHuge) {
  start();
  TestThread thread(malloc);
  thread.deallocate(thread.allocate(2 * kMiB));
  LockGuard guard(engine.huge().lock());
  void* const p = thread.allocate(100);
  ASSERT_NE(p, nullptr);
  EXPECT_TRUE(spare->owns(p));
  EXPECT_EQ(thread.reallocate(p, 4 * kMiB), nullptr);
  thread.deallocate(p);
}

/// Even if the object is larger, the program gets what it asked for, and may name the size it asked
/// for.
TEST_F(MallocTest, AClassesFirstObjectsMayBeLargerOnes) {
  for (const Options::Checks checks : {Options::Checks::kAuto, Options::Checks::kBasic}) {
    TestMalloc test;
    test.start(unguarded(checks));
    TestThread thread(test.malloc);
    auto* const p = static_cast<char*>(thread.allocate(72));
    EXPECT_EQ(thread.usable_bytes(p), 128u);
    std::memset(p, 7, 128);
    thread.deallocate(p);
    auto* const zeroed = static_cast<char*>(thread.allocate_zeroed(72));
    for (int i = 0; i < 72; ++i) ASSERT_EQ(zeroed[i], 0);
    test.malloc.deallocate(thread.state, zeroed, deleting(72));
    void* const aligned = thread.allocate(192, 64);
    EXPECT_EQ(thread.usable_bytes(aligned), 256u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % 64, 0u);
    EXPECT_EQ(thread.reallocate(aligned, 256), aligned);
    test.malloc.deallocate(thread.state, aligned, freeing(192, 64));
    for (int i = 0; i < 8; ++i) thread.deallocate(thread.allocate(72));
    void* const own = thread.allocate(72);
    EXPECT_EQ(thread.usable_bytes(own), 80u);
    thread.deallocate(own);
    thread.end();
    test.check_nothing_is_left();
  }
}

TEST_F(MallocTest, WhereFreesAreComparedEachObjectIsOfItsClass) {
  for (const Options::Checks checks : {Options::Checks::kFrees, Options::Checks::kFull}) {
    TestMalloc test;
    test.start({.checks = checks});
    TestThread thread(test.malloc);
    void* const p = thread.allocate(72);
    EXPECT_LE(thread.usable_bytes(p), 80u);
    test.malloc.deallocate(thread.state, p, deleting(72));
    void* const wrong = thread.allocate(72);
    EXPECT_DEATH(test.malloc.deallocate(thread.state, wrong, deleting(128)),
                 "mismatched sized delete");
    thread.deallocate(wrong);
  }
}

TEST_F(MallocTest, ABlockThatMovesAgainGetsRoomToGrow) {
  start(unguarded(Options::Checks::kFrees));  // each class has its own objects from the first on
  TestThread thread(malloc);
  const auto count_moves = [&](std::size_t step) {
    int moves = 0;
    void* p = nullptr;
    for (std::size_t bytes = step; bytes <= 16'384; bytes += step) {
      void* const before = p;
      p = thread.reallocate(p, bytes);
      std::memset(p, static_cast<int>(bytes / step), bytes);
      moves += p != before ? 1 : 0;
      EXPECT_GE(thread.usable_bytes(p), bytes);
      EXPECT_LE(thread.usable_bytes(p), bytes + bytes * 3 / 5);
    }
    thread.deallocate(p);
    return moves;
  };
  const int first = count_moves(64);
  EXPECT_LE(first, 60) << "four classes of the grain, and eight a doubling";
  EXPECT_LE(count_moves(64), 30) << "the classes have objects at hand";
  EXPECT_LE(count_moves(1024), 13);
}

TEST_F(MallocTest, ABlockThatGrowsPassesFewClasses) {
  start(unguarded());
  TestThread thread(malloc);
  thread.use_every_class();
  std::set<std::size_t> sizes;
  void* p = thread.allocate(1024);
  for (std::size_t bytes = 1025; bytes <= 32'768; bytes += 61) {
    p = thread.reallocate(p, bytes);
    sizes.insert(thread.usable_bytes(p));
  }
  EXPECT_EQ(sizes, (std::set<std::size_t>{1280, 2048, 2560, 4096, 5120, 8192, 10'240, 16'384,
                                          20'480, 32'768}));
  thread.deallocate(p);
}

TEST_F(MallocTest, ABlockThatHasGrownStaysWhereItIsAsItShrinksByALittle) {
  start(unguarded());
  TestThread thread(malloc);
  thread.use_every_class();
  for (std::size_t bytes = 1100; bytes <= 32'768; bytes += 61) {
    void* const p = thread.reallocate(thread.allocate(100), bytes);
    EXPECT_EQ(thread.reallocate(p, bytes - bytes / 8), p) << bytes;
    EXPECT_EQ(thread.reallocate(p, bytes), p) << bytes;
    thread.deallocate(p);
  }
}

/// Whatever kind of block the smaller size would get.
TEST_F(MallocTest, ABlockOfAnySizeStaysWhereItIsAsItShrinksAndGrowsByALittle) {
  start(unguarded());
  TestThread thread(malloc);
  for (std::size_t bytes = 30'000; bytes <= 3 * kMiB; bytes += bytes / 100) {
    auto* const p = static_cast<char*>(thread.reallocate(thread.allocate(100), bytes));
    ASSERT_NE(p, nullptr);
    p[0] = p[bytes - bytes / 8 - 1] = 7;
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(thread.reallocate(p, bytes - bytes / 8), p) << bytes;
      ASSERT_GE(thread.usable_bytes(p), bytes - bytes / 8);
      ASSERT_EQ(thread.reallocate(p, bytes), p) << bytes;
    }
    ASSERT_EQ(p[0] + p[bytes - bytes / 8 - 1], 14);
    thread.deallocate(p);
  }
  thread.end();
  check_nothing_is_left();
}

TEST_F(MallocTest, OnlyTheBlockThatMovedLastGetsRoomToGrow) {
  start();
  TestThread thread(malloc);
  thread.use_every_class();
  for (int round = 0; round < 2; ++round) {
    void* a = thread.allocate(320);
    void* b = thread.allocate(320);
    for (const std::size_t bytes : {400u, 500u, 600u}) {
      a = thread.reallocate(a, bytes);
      b = thread.reallocate(b, bytes);
      EXPECT_EQ(thread.usable_bytes(a), SizeClassMap::bytes_of(SizeClassMap::class_of(bytes)));
      EXPECT_EQ(thread.usable_bytes(b), SizeClassMap::bytes_of(SizeClassMap::class_of(bytes)));
    }
    thread.deallocate(a);
    thread.deallocate(b);
  }
}

TEST_F(MallocTest, AHeapThatGrowsBeyondItsPeakGivesIdleMemoryBackForIt) {
  start();
  TestThread thread(malloc);
  thread.deallocate(thread.allocate(10 * kMiB));
  std::vector<void*> passing;
  for (int i = 0; i < 40; ++i) passing.push_back(thread.allocate(200'000));
  const std::size_t held = engine.limit().held_bytes();
  EXPECT_LT(held, 14 * kMiB) << "a huge block was kept, and has gone for the others";
  for (int i = 0; i < 40; i += 2) thread.deallocate(passing[i]);
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(thread.allocate(kMiB));
  EXPECT_LT(engine.limit().held_bytes(), held + 5 * kMiB) << "holes of 200 KiB were idle";
  check();
  for (int i = 1; i < 40; i += 2) thread.deallocate(passing[i]);
  for (void* block : blocks) thread.deallocate(block);
  thread.end();
  check_nothing_is_left();
}

/// By how much a heap grows for blocks that do not fit its idle memory: gaps between live blocks.
std::size_t growth_beside_holes(TestMalloc& test, TestThread& thread) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(thread.allocate(200'000));
  const std::size_t before = test.engine.limit().held_bytes();
  for (int i = 0; i < 100; i += 2) thread.deallocate(std::exchange(blocks[i], nullptr));
  std::size_t most = before;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(thread.allocate(500'000));
    most = std::max(most, test.engine.limit().held_bytes());
  }
  for (void* block : blocks) thread.deallocate(block);
  return most - before;
}

TEST_F(MallocTest, AHugeBlockThatIsGoneIsNoPeakForEver) {
  start();
  TestThread thread(malloc);
  thread.deallocate(thread.allocate(4096 * kMiB));
  for (int round = 0; round < 3; ++round) engine.release_unneeded();
  EXPECT_LT(growth_beside_holes(*this, thread), 4 * kMiB);
  thread.end();
  check_nothing_is_left();
}

TEST_F(MallocTest, BesideAHugeBlockAHeapThatGrowsGivesIdleMemoryBackForIt) {
  start();
  TestThread thread(malloc);
  void* const huge = thread.allocate(4096 * kMiB);
  EXPECT_LT(growth_beside_holes(*this, thread), 4 * kMiB);
  thread.deallocate(huge);
  thread.end();
  check_nothing_is_left();
}

/// The idle memory lies in gaps that are too short.
TEST_F(MallocTest, ASmallHeapWithEnoughIdleMemoryGrowsByAStepAtTheMostUnlessHugeBlocksComeAndGo) {
  start();
  TestThread thread(malloc);
  const auto growth = [&](std::size_t huge_bytes) {
    std::vector<void*> blocks = {thread.allocate(huge_bytes)};
    for (int i = 0; i < 40; ++i) blocks.push_back(thread.allocate(200'000));
    const std::size_t held = engine.limit().held_bytes();
    for (int i = 1; i < 40; i += 2) thread.deallocate(std::exchange(blocks[i], nullptr));
    std::size_t most = 0;
    for (int i = 0; i < 14; ++i) {
      blocks.push_back(thread.allocate(300'000));
      most = std::max(most, engine.limit().held_bytes());
    }
    check();
    for (void* block : blocks) thread.deallocate(block);
    return most - held;
  };
  EXPECT_LT(growth(1), kMiB);
  malloc.release_memory(thread.state);
  EXPECT_GT(growth(2 * kMiB), kMiB);
  thread.end();
  check_nothing_is_left();
}

TEST_F(MallocTest, BelowItsPeakAHeapKeepsWhatIsIdle) {
  start();
  TestThread thread(malloc);
  const auto rise_and_fall = [&](int most) {
    std::vector<void*> blocks;
    for (int i = 0; i < most; ++i) blocks.push_back(thread.allocate(200'000 + i % 3 * 100'000));
    for (void* block : blocks) thread.deallocate(block);
  };
  for (const int peak : {30, 60}) {
    for (int i = 0; i < 5; ++i) rise_and_fall(peak);
    const std::size_t returned = statistics().returned() + pages.decommitted_bytes();
    for (int i = 0; i < 50; ++i) rise_and_fall(peak - 10 + i % 10);
    EXPECT_EQ(statistics().returned() + pages.decommitted_bytes(), returned) << peak;
  }
}

/// Tables that the program makes and drops, of which it fills a few entries.
TEST_F(MallocTest, ZeroesOfABlockThatIsUsedAgainTakeNoMemoryWhereLittleWasTouched) {
  start();
  TestThread thread(malloc);
  const std::size_t bytes = 8 * kMiB + 1000;
  pages.say_touched(false);
  for (int i = 0; i < 20; ++i) {
    auto* const table = static_cast<char*>(thread.allocate_zeroed(bytes));
    ASSERT_NE(table, nullptr);
    os::kernel_pages().advise_small(table, 8 * kMiB);
    for (const std::size_t at : {std::size_t{0}, bytes / 2, bytes - 1}) {
      ASSERT_EQ(table[at], 0);
      table[at] = 1;
    }
    if (os::knows_pages()) {
      ASSERT_LT(os::resident_bytes_in(table, 8 * kMiB), kMiB);
    }
    thread.deallocate(table);
  }
  pages.say_touched(true);
  auto* const filled = static_cast<char*>(thread.allocate_zeroed(bytes));
  ASSERT_NE(filled, nullptr);
  EXPECT_EQ(filled[0] + filled[bytes / 2] + filled[bytes - 1], 0);
  thread.deallocate(filled);
}

TEST_F(MallocTest, WhatABlockLeavesThatGrowsServesTheNextOne) {
  TestThread thread(malloc);
  thread.use_every_class();
  const auto grow = [&] {
    void* p = nullptr;
    for (std::size_t bytes = 64; bytes < 900'000; bytes += bytes / 2)
      p = thread.reallocate(p, bytes);
    return p;
  };
  thread.deallocate(grow());
  const std::size_t held = engine.limit().held_bytes();
  for (int i = 0; i < 10; ++i) thread.deallocate(grow());
  EXPECT_LE(engine.limit().held_bytes(), held);
}

TEST_F(MallocTest, InALargeHeapABlockThatGrowsHasPagesOnlyWhereAnObjectWouldTakeAsMuch) {
  TestThread thread(malloc);
  std::vector<void*> blocks;
  while (engine.page_heap().is_small()) blocks.push_back(thread.allocate(kMiB));
  const auto has_pages = [&](std::size_t bytes) {
    void* const p = thread.reallocate(thread.allocate(10'000), bytes);
    const bool has = engine.class_of(p) == 0;
    thread.deallocate(p);
    return has;
  };
  for (const std::size_t bytes : {40'000, 65'536, 65'537, 114'688, 131'073, 163'840})
    EXPECT_FALSE(has_pages(bytes)) << bytes;
  for (const std::size_t bytes : {114'689, 131'072, 163'841, 170'000})
    EXPECT_TRUE(has_pages(bytes)) << bytes;
  for (void* block : blocks) thread.deallocate(block);
}

TEST_F(MallocTest, InALargeHeapABlockThatIsCutLeavesPagesThatItWouldNotFill) {
  TestThread thread(malloc);
  const auto has_pages = [&](std::size_t grown, std::size_t cut) {
    void* p = thread.reallocate(thread.allocate(10'000), grown);
    EXPECT_EQ(engine.class_of(p), 0u);
    std::memset(p, 7, cut);
    p = thread.reallocate(p, cut);
    EXPECT_EQ(static_cast<char*>(p)[cut - 1], 7);
    const bool has = engine.class_of(p) == 0;
    thread.deallocate(p);
    return has;
  };
  EXPECT_TRUE(has_pages(120'000, 30'000)) << "in a small heap, what it does not touch is not held";
  std::vector<void*> blocks;
  while (engine.page_heap().is_small()) blocks.push_back(thread.allocate(kMiB));
  EXPECT_FALSE(has_pages(120'000, 30'000));
  EXPECT_FALSE(has_pages(120'000, 57'344));
  EXPECT_TRUE(has_pages(120'000, 70'000)) << "it has more than half of them";
  EXPECT_TRUE(has_pages(120'000, 57'345)) << "it fills one page";
  EXPECT_TRUE(has_pages(200'000, 30'000)) << "it was no object before, and may grow again";
  for (void* block : blocks) thread.deallocate(block);
}

TEST(MallocHost, StartsTheMallocForThreadsWhoseFirstCallsComeAtOnce) {
  struct Starter : TestMalloc {
    bool start(MallocInstance& starting) noexcept override {
      LockGuard guard(lock);
      return starting.is_started() || TestMalloc::start(starting);
    }
    Lock lock{LockRank::kStart};
  };
  for (int round = 0; round < 50; ++round) {
    Starter starter;
    run_together(4, [&](int) {
      TestThread thread(starter.malloc);
      void* const p = thread.allocate(100);
      ASSERT_NE(p, nullptr);
      thread.deallocate(p);
    });
    starter.check_nothing_is_left();
  }
}

TEST(MallocHost, IsCalledOnceByASlowPathAfterItAsked) {
  AttentiveMalloc program;
  program.start();
  TestThread thread(program.malloc);
  thread.deallocate(thread.allocate(3 * kMiB));
  EXPECT_EQ(program.attended, 0);
  program.malloc.ask_for_attention();
  for (int i = 0; i < 3; ++i) thread.deallocate(thread.allocate(3 * kMiB));
  EXPECT_EQ(program.attended, 1);
}

TEST_F(MallocTest, AForkInTheMiddleOfItsUseLeavesTheChildItsOwnObjects) {
  start();
  TestThread thread(malloc);
  TestThread other(malloc);
  void* mine = thread.allocate(100);
  void* lost = other.allocate(100);
  fork_as_parent(malloc);
  fork_as_child(malloc);
  malloc.reset_after_fork(thread.state);
  EXPECT_EQ(statistics().threads, 1u);
  thread.deallocate(mine);
  thread.deallocate(lost);
  thread.end();
  EXPECT_EQ(statistics().threads, 0u);
  other.state = MallocInstance::new_thread();  // it does not exist in the child
}

TEST_F(MallocTest, TheChildOfAForkCountsAnewWhatIsHeld) {
  start();
  TestThread thread(malloc);
  Guards& guards = malloc.guards();
  ASSERT_TRUE(guards.start(true));
  void* const live = guards.allocate({1000});
  void* const waiting = guards.allocate({1000});
  void* const waiting_block = guards.allocate({kMiB});
  pages.refuse_from_call(1);
  guards.deallocate(waiting, {});
  guards.deallocate(waiting_block, {});
  pages.refuse_nothing();
  ASSERT_GT(guards.statistics().waiting_bytes, kMiB);
  const std::size_t held = engine.limit().held_bytes();
  engine.limit().hold(kMiB);  // what another thread does in the middle of a call
  fork_as_child(malloc);
  malloc.reset_after_fork(thread.state);
  EXPECT_EQ(engine.limit().held_bytes(), held);
  guards.deallocate(live, {});
}

TEST_F(MallocTest, AThreadGetsNoCacheAfterItsEndIfItHadNoneBefore) {
  start();
  TestThread thread(malloc);
  thread.end();
  void* const p = thread.allocate(100);
  ASSERT_NE(p, nullptr);
  thread.deallocate(p);
  EXPECT_EQ(statistics().threads, 0u);
}

TEST_F(MallocTest, AForkHoldsTheLocksOfEachPart) {
  start();
  TestThread thread(malloc);
  void* const p = thread.allocate(128);
  LocksInFork::begin();
  malloc.hold_locks_for_fork();
  for (Lock* const lock : {&thread.state.cache->bins_lock(),
                           &engine.central().list_lock_of(SizeClassMap::class_of(128), p),
                           &malloc.scavenger().round_lock(), &malloc.profiler().sites().lock(),
                           &malloc.guards().objects().lock(), &malloc.guards().blocks().lock(),
                           &engine.huge().lock(), &engine.metadata().lock(), &map->lock()})
    EXPECT_TRUE(lock->is_held());
  LocksInFork::end_in_parent();
  thread.deallocate(p);
}

TEST_F(MallocTest, AProfileThatBeginsDuringAForkTouchesNoLockThatTheForkHolds) {
  start();
  LocksInFork::begin();
  malloc.hold_locks_for_fork();
  std::thread other([&] { EXPECT_TRUE(malloc.profiler().start(1 << 20, 1)); });
  while (!malloc.detour().has_watchers()) std::this_thread::yield();
  LocksInFork::end_in_parent();
  EXPECT_FALSE(is_any_lock_held_here());
  other.join();
  malloc.profiler().stop();
}

using MallocDeathTest = MallocTest;

TEST_F(MallocDeathTest, AFreeBeforeAnyAllocationIsFatal) {
  TestThread thread(malloc);
  int on_the_stack = 0;
  EXPECT_DEATH(thread.deallocate(&on_the_stack),
               "strata: invalid free of 0x[0-9a-f]+: " + os::lies_in_stack());
}

}  // namespace
}  // namespace strata
