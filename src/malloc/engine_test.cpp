#include "malloc/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/fork_in_test.h"
#include "malloc/malloc_in_test.h"
#include "os/emulation.h"
#include "os/threads.h"

namespace strata {
namespace {

struct EngineTest : ::testing::Test, TestMalloc {
  void SetUp() override { start(); }
};

TEST_F(EngineTest, TwoEnginesStandSideBySide) {
  TestMalloc other;
  other.start();
  TestThread here(malloc);
  TestThread there(other.malloc);
  void* a = here.allocate(100);
  void* b = there.allocate(100);
  EXPECT_NE(a, b);
  EXPECT_NE(engine.class_of(a), 0u);
  EXPECT_EQ(engine.class_of(b), 0u);
  EXPECT_EQ(other.engine.class_of(a), 0u);
  here.deallocate(a);
  there.deallocate(b);
}

TEST(Engine, ARegionOfTheProgramsOwnSourceIsNoRoomForBookkeeping) {
  os::FakePageSource kernel;
  os::FakePageSource own;
  PageMap map;
  ASSERT_TRUE(map.cover(std::uintptr_t{1} << 48, os::kernel_pages()));
  for (const bool is_programs : {true, false}) {
    os::PageSource* const blocks = is_programs ? &own : nullptr;
    const auto engine = std::make_unique<Engine>(
        Engine::Ground{.pages = kernel, .number = 1, .regions = &own, .blocks = blocks}, map);
    ASSERT_TRUE(engine->start(Options{}, 0));
    engine->deallocate_large(engine->allocate_large(kMiB, 16).address);
    EXPECT_EQ(engine->make_room_for_bookkeeping(1), !is_programs);
    engine->discard();
  }
  map.discard(os::kernel_pages());
}

TEST_F(EngineTest, EverySizeHasItsUsableBytesAndItsAlignment) {
  TestThread thread(malloc);
  std::vector<void*> blocks;
  for (std::size_t bytes = 1; bytes < 5 * kMiB; bytes += 1 + bytes / 7) {
    void* p = thread.allocate(bytes);
    ASSERT_NE(p, nullptr) << bytes;
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16, 0u) << bytes;
    const std::size_t usable = engine.usable_bytes(p, "realloc");
    ASSERT_GE(usable, bytes);
    ASSERT_LE(usable, bytes + bytes / 3 + 65536);
    std::memset(p, 0x5a, usable);
    blocks.push_back(p);
  }
  for (void* p : blocks) thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

TEST_F(EngineTest, ThreadsThatMeetGetPagesOfTheirOwnUnlessAddressesAreFew) {
  for (const std::size_t address_space : {SIZE_MAX, 64 * kMiB}) {
    TestMalloc other;
    ASSERT_TRUE(other.engine.start(Options{}, 1, address_space));
    PagePlace first;
    PagePlace second;
    for (int i = 0; i < 64; ++i) {
      void* const a = other.engine.allocate_large(200'000, 16, first).address;
      void* const b = other.engine.allocate_large(200'000, 16, second).address;
      other.engine.deallocate_large(a);
      other.engine.deallocate_large(b);
    }
    EXPECT_EQ(first.shard() != second.shard(),
              address_space == SIZE_MAX && os::processor_count() > 1);
    other.engine.check_invariants();
  }
}

/// As in a process that started with little address space, and got more later.
TEST_F(EngineTest, ABlockThatHasNoPlaceInTheMapAnyMoreIsAMapping) {
  TestMalloc other;
  Options options;
  options.huge_pages = HugePages::kNever;  // nothing is touched
  ASSERT_TRUE(other.engine.start(options, 1, 24 * kMiB));
  if (other.map->limit() > 16 * 1024 * kMiB) GTEST_SKIP() << "no low addresses";
  std::vector<void*> blocks;
  while (blocks.size() < 17 * 1024) {
    blocks.push_back(other.engine.allocate_large(kMiB, 16).address);
    ASSERT_NE(blocks.back(), nullptr) << blocks.size() << " MiB";
  }
  EXPECT_TRUE(other.engine.is_huge(blocks.back()));
  EXPECT_EQ(other.engine.usable_bytes(blocks.back(), "realloc"), kMiB);
  for (void* block : blocks) other.engine.deallocate_large(block);
  other.check_nothing_is_left();
}

TEST_F(EngineTest, WhatALimitForbidsWhereAddressesAreFewIsOneRefusal) {
  TestMalloc other;
  ASSERT_TRUE(other.engine.start(Options{.hard_limit = 8 * kMiB}, 1, 24 * kMiB));
  std::vector<void*> blocks;
  while (void* const block = other.engine.allocate_large(kMiB, 16).address) blocks.push_back(block);
  EXPECT_EQ(other.engine.limit().statistics().refusals, 1u);
  for (void* block : blocks) other.engine.deallocate_large(block);
  other.check_nothing_is_left();
}

TEST_F(EngineTest, EveryAlignmentIsKeptForEverySize) {
  TestThread thread(malloc);
  std::vector<void*> blocks;
  for (std::size_t alignment = 1; alignment <= 16 * kMiB; alignment *= 2) {
    for (std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{4096}, std::size_t{70'000},
          SizeClassMap::kMaxBytes, kMiB - 1, kMiB + 1, 3 * kMiB}) {
      // Twice, so that the second block cannot be aligned by luck.
      for (int i = 0; i < 2; ++i) {
        void* p = thread.allocate(bytes, alignment);
        ASSERT_NE(p, nullptr);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u)
            << bytes << " aligned to " << alignment;
        ASSERT_GE(malloc.usable_bytes(p), bytes);
        std::memset(p, 0x5a, bytes);
        blocks.push_back(p);
      }
    }
  }
  check();
  for (void* p : blocks) thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

TEST_F(EngineTest, SizesNobodyCanHaveAreNull) {
  for (std::size_t bytes : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 65535, SIZE_MAX / 2 + 1,
                            std::size_t{PTRDIFF_MAX}, std::size_t{PTRDIFF_MAX} - 4096}) {
    for (std::size_t alignment : {std::size_t{16}, std::size_t{4096}, kMiB, 64 * kMiB,
                                  std::size_t{1} << 62, std::size_t{1} << 63}) {
      EXPECT_EQ(engine.allocate_large(bytes, alignment).address, nullptr);
    }
  }
  EXPECT_EQ(engine.allocate_large(1, std::size_t{1} << 62).address, nullptr);
  EXPECT_EQ(engine.allocate_large(1, std::size_t{1} << 63).address, nullptr);
  void* p = engine.allocate_large(kMiB, 16).address;
  EXPECT_EQ(engine.resize_large(p, SIZE_MAX), nullptr);
  EXPECT_EQ(engine.resize_large(p, PTRDIFF_MAX), nullptr);
  engine.deallocate_large(p);
  check_nothing_is_left();
}

// aligned_alloc(4 MiB, 0) makes the last of these requests.
TEST_F(EngineTest, ABlockOfNoBytesIsABlockOfItsOwn) {
  for (const std::size_t alignment : {std::size_t{16}, 64 * 1024ul, 4 * kMiB}) {
    void* const a = engine.allocate_large(0, alignment).address;
    void* const b = engine.allocate_large(0, alignment).address;
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    EXPECT_NE(a, b);
    EXPECT_NE(engine.usable_bytes(a, "free"), 0u);
    engine.check_invariants();
    engine.deallocate_large(a);
    engine.deallocate_large(b);
  }
}

TEST_F(EngineTest, FreshMemoryIsZeroAndSaysSo) {
  engine.release_all();  // the page that start() tried
  std::vector<void*> blocks;
  for (std::size_t bytes : {200'000ul, 500'000ul, 2'000'000ul, 9'000'000ul}) {
    const Engine::Block block = engine.allocate_large(bytes, 16);
    ASSERT_TRUE(block.is_zero);
    for (std::size_t i = 0; i < bytes; i += 512)
      ASSERT_EQ(static_cast<char*>(block.address)[i], 0) << bytes;
    std::memset(block.address, 0xff, bytes);
    blocks.push_back(block.address);
  }
  for (void* p : blocks) engine.deallocate_large(p);
  for (std::size_t bytes : {200'000ul, 500'000ul, 2'000'000ul, 9'000'000ul}) {
    const Engine::Block block = engine.allocate_large(bytes, 16);
    if (block.is_zero) {
      for (std::size_t i = 0; i < bytes; i += 512)
        ASSERT_EQ(static_cast<char*>(block.address)[i], 0) << bytes;
    }
    engine.deallocate_large(block.address);
  }
}

TEST_F(EngineTest, ALargeBlockIsKnownToFitItsPagesWithoutALock) {
  auto* const large = static_cast<char*>(engine.allocate_large(300'000, 16).address);
  EXPECT_TRUE(engine.fits_its_pages(large, 262'145));
  EXPECT_TRUE(engine.fits_its_pages(large, 5 * kPageBytes));
  EXPECT_FALSE(engine.fits_its_pages(large, 5 * kPageBytes + 1)) << "it needs another page";
  EXPECT_FALSE(engine.fits_its_pages(large, 4 * kPageBytes)) << "it has a page to give back";
  EXPECT_FALSE(engine.fits_its_pages(large, 0));
  EXPECT_FALSE(engine.fits_its_pages(large, SIZE_MAX));
  EXPECT_FALSE(engine.fits_its_pages(large + 16, 300'000));
  EXPECT_FALSE(engine.fits_its_pages(large + kPageBytes, 300'000));
  engine.deallocate_large(large);
  EXPECT_FALSE(engine.fits_its_pages(large, 300'000)) << "it is free";
  void* const object = engine.allocate_object(SizeClassMap::class_of(40'000)).address;
  EXPECT_FALSE(engine.fits_its_pages(object, 40'000)) << "it is an object of a class";
  void* const huge = engine.allocate_large(4 * kMiB, 16).address;
  EXPECT_FALSE(engine.fits_its_pages(huge, 4 * kMiB));
  EXPECT_FALSE(engine.fits_its_pages(nullptr, 100'000));
}

TEST_F(EngineTest, BlocksThatHaveGrownAgainKeepAPageThatTheyNeedNoMoreAndAFewOthers) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(engine.allocate_large(kPageBytes, 16).address);
  const auto count_that_may_be = [&](std::size_t bytes) {
    return std::count_if(blocks.begin(), blocks.end(),
                         [&](void* p) { return engine.resize_on_its_pages(p, bytes); });
  };
  EXPECT_EQ(count_that_may_be(4095), 0) << "they are copied soon";
  EXPECT_EQ(count_that_may_be(4096), 4);
  EXPECT_EQ(count_that_may_be(10'000), 4) << "they are short already";
  EXPECT_FALSE(engine.fits_its_pages(blocks[0], 40'000)) << "somebody has to note it";
  EXPECT_EQ(count_that_may_be(24'576), 100) << "four of them have grown again";
  EXPECT_EQ(count_that_may_be(24'575), 8);
  void* const longer = engine.allocate_large(2 * kPageBytes, 16).address;
  EXPECT_EQ(engine.resize_large(longer, 10'000), nullptr);
  EXPECT_TRUE(engine.resize_on_its_pages(blocks[7], 40'000));
  EXPECT_EQ(engine.resize_large(longer, 10'000), longer);
  EXPECT_EQ(engine.usable_bytes(longer, "realloc"), kPageBytes) << "its other page went back";
  EXPECT_EQ(engine.resize_large(longer, 2 * kPageBytes), longer) << "it grows into that";
  EXPECT_EQ(count_that_may_be(10'000), 9);
  for (void* p : blocks) engine.deallocate_large(p);
  engine.deallocate_large(longer);
  check_nothing_is_left();
}

TEST_F(EngineTest, ABlockThatGoesToAndFroPaysForNoOther) {
  void* const busy = engine.allocate_large(kPageBytes, 16).address;
  std::vector<void*> blocks;
  int stay = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(engine.resize_on_its_pages(busy, 10'000));
    ASSERT_TRUE(engine.resize_on_its_pages(busy, 40'000));
    blocks.push_back(engine.allocate_large(kPageBytes, 16).address);
    stay += engine.resize_on_its_pages(blocks.back(), 5'000) ? 1 : 0;
  }
  EXPECT_EQ(stay, 4);
  blocks.push_back(busy);
  for (void* p : blocks) engine.deallocate_large(p);
  check_nothing_is_left();
}

TEST_F(EngineTest, ABlockThatIsFreedWhileItIsShortMakesRoomForAnother) {
  for (int i = 0; i < 100; ++i) {
    void* const p = engine.allocate_large(kPageBytes, 16).address;
    ASSERT_TRUE(engine.resize_on_its_pages(p, 10'000));
    engine.deallocate_large(p);
  }
  // Nor does the next one on its page inherit that a block has grown again.
  void* const first = engine.allocate_large(kPageBytes, 16).address;
  ASSERT_TRUE(engine.resize_on_its_pages(first, 10'000));
  ASSERT_TRUE(engine.resize_on_its_pages(first, 40'000));
  engine.deallocate_large(first);
  std::vector<void*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(engine.allocate_large(kPageBytes, 16).address);
  ASSERT_EQ(blocks[0], first);
  for (std::size_t i = 4; i > 0; --i) ASSERT_TRUE(engine.resize_on_its_pages(blocks[i], 10'000));
  EXPECT_FALSE(engine.resize_on_its_pages(first, 10'000));
  for (void* p : blocks) engine.deallocate_large(p);
  check_nothing_is_left();
}

TEST_F(EngineTest, AHugeBlockIsResizedAtOnceWhereItStaysInItsMapping) {
  auto* const huge = static_cast<char*>(engine.allocate_large(4 * kMiB, 16).address);
  EXPECT_TRUE(engine.resize_in_mapping(huge, 4 * kMiB));
  EXPECT_TRUE(engine.resize_in_mapping(huge, 4 * kMiB - 60'000)) << "it keeps its tail";
  EXPECT_TRUE(engine.resize_in_mapping(huge, 4 * kMiB));
  EXPECT_FALSE(engine.resize_in_mapping(huge, 4 * kMiB - 70'000)) << "it has a tail to give up";
  EXPECT_FALSE(engine.resize_in_mapping(huge, 4 * kMiB + 1));
  EXPECT_FALSE(engine.resize_in_mapping(huge, 0));
  EXPECT_FALSE(engine.resize_in_mapping(huge, SIZE_MAX));
  EXPECT_FALSE(engine.resize_in_mapping(huge + 4096, 4 * kMiB));
  EXPECT_EQ(engine.usable_bytes(huge, "realloc"), 4 * kMiB);
  ASSERT_EQ(engine.resize_large(huge, kMiB / 2 + 30'000), huge);
  EXPECT_FALSE(engine.resize_in_mapping(huge, kMiB / 2 - 1)) << "it would not stay a mapping";
  void* const large = engine.allocate_large(900'000, 16).address;
  EXPECT_FALSE(engine.resize_in_mapping(large, 900'000)) << "it has pages";
  engine.deallocate_large(huge);
  EXPECT_FALSE(engine.resize_in_mapping(huge, kMiB)) << "it is free";
  EXPECT_FALSE(engine.resize_in_mapping(nullptr, kMiB));
  engine.deallocate_large(large);
  check_nothing_is_left();
}

TEST_F(EngineTest, WhereThereIsALimitAHugeBlockGivesUpWhatItShrinksBy) {
  engine.limit().configure(0, 64 * kMiB);
  void* const huge = engine.allocate_large(4 * kMiB, 16).address;
  EXPECT_TRUE(engine.resize_in_mapping(huge, 4 * kMiB));
  EXPECT_FALSE(engine.resize_in_mapping(huge, 4 * kMiB - 60'000));
  EXPECT_NE(engine.resize_large(huge, 4 * kMiB - 60'000), nullptr);
  engine.deallocate_large(huge);
}

TEST_F(EngineTest, ALargeBlockGrowsInPlaceAndAHugeOneMovesWithoutACopy) {
  void* large = engine.allocate_large(300'000, 16).address;
  EXPECT_EQ(engine.resize_large(large, 600'000), large);
  EXPECT_GE(engine.usable_bytes(large, "realloc"), 600'000u);
  EXPECT_EQ(engine.resize_large(large, 200'000), large);
  EXPECT_LT(engine.usable_bytes(large, "realloc"), 300'000u);
  EXPECT_EQ(engine.resize_large(large, 2 * kMiB), nullptr);  // another kind of block
  EXPECT_EQ(engine.resize_large(large, 100), nullptr);
  void* huge = engine.allocate_large(4 * kMiB, 16).address;
  std::memset(huge, 0x77, 4 * kMiB);
  huge = engine.resize_large(huge, 40 * kMiB);
  ASSERT_NE(huge, nullptr);
  EXPECT_EQ(pages.calls(os::FakePageSource::kRemap), 1u);
  for (std::size_t i = 0; i < 4 * kMiB; i += 4096) ASSERT_EQ(static_cast<char*>(huge)[i], 0x77);
  EXPECT_EQ(engine.resize_large(huge, kMiB), huge) << "at the border it is not copied";
  EXPECT_EQ(engine.usable_bytes(huge, "realloc"), kMiB);
  EXPECT_EQ(engine.resize_large(huge, kMiB / 2 - 1), nullptr);
  engine.deallocate_large(large);
  engine.deallocate_large(huge);
  check_nothing_is_left();
}

TEST_F(EngineTest, FreedMemoryGoesBackToTheKernelWhenAskedTo) {
  TestThread thread(malloc);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 3000; ++i) blocks.push_back(thread.allocate(1 + i * 11 % 50'000));
  blocks.push_back(thread.allocate(30 * kMiB));
  for (void* p : blocks) std::memset(p, 1, 1);
  for (void* p : blocks) thread.deallocate(p);
  thread.end();
  EXPECT_GT(engine.idle_bytes(), 0u);
  EXPECT_TRUE(engine.release_all());
  EXPECT_EQ(engine.idle_bytes(), 0u);
  EXPECT_FALSE(engine.release_all());
  check_nothing_is_left();
}

TEST_F(EngineTest, WhatIsNotNeededGoesBackInTheSecondRound) {
  TestThread thread(malloc);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 2000; ++i) blocks.push_back(thread.allocate(i * 7 % 30'000));
  for (void* p : blocks) thread.deallocate(p);
  thread.end();
  // Memory passes a parked cache, transfer caches, spans and pages: what was idle in one is idle in
  // the next after a round.
  for (int round = 0; round < 2; ++round) engine.release_unneeded();
  EXPECT_EQ(engine.idle_bytes(), 0u);
  check_nothing_is_left();
}

/// The memory between the holes of a span that becomes empty counts, too, although it never becomes
/// idle pages.
TEST_F(EngineTest, AllThatGoesBackIsCountedAsReturned) {
  TestThread thread(malloc);
  std::vector<void*> live;
  std::vector<void*> blocks;
  const std::size_t in_pages = 4 * os::page_bytes() / 1024;
  for (std::size_t i = 0; i < 8192; ++i)
    (i % in_pages == 0 ? live : blocks).push_back(thread.allocate(1024));
  const auto given_back = [this] {
    return engine.decommitted_in_spans() +
           engine.page_heap().statistics().decommitted_pages * kPageBytes;
  };
  const std::size_t before = given_back();
  std::size_t returned = 0;
  for (void* p : blocks) thread.deallocate(p);
  for (int round = 0; round < 3; ++round) returned += engine.release_unneeded();
  for (void* p : live) thread.deallocate(p);
  thread.end();
  for (int round = 0; round < 3; ++round) returned += engine.release_unneeded();
  EXPECT_GE(returned, 8 * kMiB);
  EXPECT_EQ(returned > 8 * kMiB, os::page_bytes() < kPageBytes) << "once as holes";
  EXPECT_EQ(returned, given_back() - before);
  check_nothing_is_left();
}

TEST_F(EngineTest, WhatAnIdleThreadLeftBesideLiveObjectsGoesBackInTheSecondRound) {
  if (!os::barrier_in_all_threads()) GTEST_SKIP() << "this kernel has no such barrier";
  TestThread thread(malloc);
  std::vector<void*> blocks;
  std::vector<void*> live;
  for (std::size_t i = 0; i < 30'000; ++i) blocks.push_back(thread.allocate(16 + i * 37 % 3000));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 64 != 0) {
      thread.deallocate(blocks[i]);
    } else {
      live.push_back(blocks[i]);
    }
  }
  engine.release_unneeded();
  EXPECT_GT(engine.release_unneeded(), 8 * kMiB);
  EXPECT_EQ(engine.release_unneeded(), 0u) << "something waited for another round";
  check();
  for (void* p : live) thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

/// The order of frees leaves the last objects of nearly every span in the caches: a few hundred
/// objects keep all spans.
TEST_F(EngineTest, AGrowingHeapUsesThePagesThatCachedObjectsKept) {
  constexpr std::size_t kSmall = 32;
  constexpr std::size_t kSmallCount = 6 * kMiB / kSmall;
  constexpr std::size_t kStride = 4099;  // a prime: all objects in turn, another span each time
  static_assert(kSmallCount % kStride != 0, "the stride meets every object");
  TestThread thread(malloc);
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < kSmallCount; ++i) blocks.push_back(thread.allocate(kSmall));
  for (std::size_t i = 0; i < kSmallCount; ++i)
    thread.deallocate(blocks[i * kStride % kSmallCount]);
  const Statistics freed = statistics();
  ASSERT_LT(freed.cached, kMiB);
  ASSERT_GT(freed.in_spans, 3 * kMiB) << "the caches keep no spans";

  blocks.clear();
  for (std::size_t bytes = 0; bytes < 12 * kMiB; bytes += 1024)
    blocks.push_back(thread.allocate(1024));
  EXPECT_LT(statistics().limit.held, 14 * kMiB);
  for (void* p : blocks) thread.deallocate(p);
  thread.end();
  check_nothing_is_left();
}

/// Allocates so many bytes in large blocks, and follows the growth after each.
std::size_t most_held_while_growing(Engine& engine, std::size_t bytes, std::vector<void*>& blocks) {
  std::size_t most = 0;
  for (std::size_t taken = 0; taken < bytes; taken += kMiB / 4) {
    blocks.push_back(engine.allocate_large(kMiB / 4, 16).address);
    engine.follow_growth(nullptr);
    most = std::max(most, engine.limit().held_bytes());
  }
  return most;
}

/// A program that has freed a huge block and goes on with smaller ones: the mapping pays for them.
TEST_F(EngineTest, AKeptMappingThatNobodyTakesPaysForAllGrowth) {
  constexpr std::size_t kKept = 64 * kMiB;
  void* const huge = engine.allocate_large(kKept, 16).address;
  engine.follow_growth(nullptr);
  engine.deallocate_large(huge);
  const std::size_t before = engine.limit().held_bytes();
  std::vector<void*> blocks;
  const std::size_t most = std::max(before, most_held_while_growing(engine, kKept, blocks));
  // A thirty-second until the first look, and one more after it.
  EXPECT_LE(most - before, kKept / 32 * 2 + 2 * kMiB);
  for (void* p : blocks) engine.deallocate_large(p);
  check_nothing_is_left();
}

TEST_F(EngineTest, WhatMadeRoomForOthersIsNoRoomForTheHeap) {
  constexpr std::size_t kKept = 64 * kMiB;
  void* const huge = engine.allocate_large(kKept, 16).address;
  engine.follow_growth(nullptr);
  engine.deallocate_large(huge);
  const std::size_t before = engine.limit().held_bytes();
  EXPECT_EQ(engine.make_room_for_others(kKept / 2), kKept / 2);
  EXPECT_EQ(engine.limit().held_bytes(), before - kKept / 2);
  std::vector<void*> blocks;
  const std::size_t most = most_held_while_growing(engine, kKept / 4, blocks);
  EXPECT_LE(most, before - kKept / 2 + kKept / 32 * 2 + 2 * kMiB);
  engine.make_room_for_others(SIZE_MAX);
  EXPECT_EQ(engine.huge().kept_bytes(), 0u);
  for (void* p : blocks) engine.deallocate_large(p);
  check_nothing_is_left();
}

TEST_F(EngineTest, AllLocksCanBeTakenTogetherByRankAndGivenBack) {
  TestThread thread(malloc);
  void* p = thread.allocate(100);
  fork_as_parent(malloc);
  fork_as_child(malloc);
  malloc.reset_after_fork(thread.state);
  thread.deallocate(p);
  void* huge = engine.allocate_large(3 * kMiB, 16).address;
  engine.deallocate_large(huge);
  thread.end();
  check_nothing_is_left();
}

using EngineDeathTest = EngineTest;

TEST_F(EngineDeathTest, AForeignPointerIsFatal) {
  int on_the_stack = 0;
  EXPECT_DEATH(engine.deallocate_large(&on_the_stack),
               "strata: invalid free of 0x[0-9a-f]+: " + os::lies_in_stack());
  EXPECT_DEATH(engine.usable_bytes(&on_the_stack, "realloc"),
               "strata: invalid realloc of 0x[0-9a-f]+: " + os::lies_in_stack());
  EXPECT_DEATH(engine.deallocate_large(reinterpret_cast<void*>(UINTPTR_MAX)), "invalid free");
}

TEST_F(EngineDeathTest, APointerIntoALargeBlockIsFatal) {
  auto* p = static_cast<char*>(engine.allocate_large(300'000, 16).address);
  EXPECT_DEATH(engine.deallocate_large(p + 16), "it points into an allocation, not at its start");
  EXPECT_DEATH(engine.deallocate_large(p + 65536), "it points into an allocation");
  EXPECT_DEATH(engine.deallocate_large(p + 1), "it is misaligned, no allocation starts there");
  EXPECT_DEATH(engine.usable_bytes(p + 16, "realloc"), "invalid realloc of .*points into");
}

TEST_F(EngineDeathTest, AMisalignedPointerIntoASmallSpanIsFatal) {
  auto* p = static_cast<char*>(engine.allocate_object(5).address);
  ASSERT_EQ(engine.class_of(p + 8), 0u);
  EXPECT_DEATH(engine.deallocate_large(p + 8), "it is misaligned, no allocation starts there");
}

TEST_F(EngineDeathTest, ALargeOrHugeBlockFreedTwiceIsFatal) {
  void* large = engine.allocate_large(300'000, 16).address;
  engine.deallocate_large(large);
  EXPECT_DEATH(engine.deallocate_large(large), "it was freed before, or never allocated");
  void* huge = engine.allocate_large(3 * kMiB, 16).address;
  engine.deallocate_large(huge);
  EXPECT_DEATH(engine.deallocate_large(huge), "double free of .*: the block is free already");
  EXPECT_DEATH(engine.usable_bytes(huge, "realloc"), "invalid realloc of .*is free already");
  engine.release_all();
  EXPECT_DEATH(engine.deallocate_large(huge), "double free of .*: the block is free already");
  void* again = engine.allocate_large(3 * kMiB, 16).address;
  engine.deallocate_large(again);
}

/// It knows the starts of the last blocks only, but all that it keeps of them.
TEST_F(EngineDeathTest, WhatIsKeptOfHugeBlocksWasFreedBefore) {
  auto* const huge = static_cast<char*>(engine.allocate_large(3 * kMiB, 16).address);
  engine.deallocate_large(huge);
  EXPECT_DEATH(engine.deallocate_large(huge + kMiB), "invalid free of .*: it was freed before, or");
}

}  // namespace
}  // namespace strata
