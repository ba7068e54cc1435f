#include <strata/heap.hpp>

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/emulation.h"
#include "os/resources.h"
#include "user_heap/heap_table.h"
#include "user_heap/named_heap_test.h"
#include "user_heap/user_heap.h"

namespace strata {
namespace {

TEST(Heap, ServesEverySizeAlignedAndOfTheSizeItSays) {
  Heap heap;
  for (std::size_t bytes = 0; bytes <= 20 * kMiB; bytes += 1 + bytes / 3) {
    void* p = heap.allocate(bytes);
    ASSERT_NE(p, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16, 0u);
    EXPECT_GE(heap.usable_size(p), bytes);
    EXPECT_EQ(heap.usable_size(p), Heap::good_size(bytes)) << bytes;
    EXPECT_TRUE(heap.owns(p));
    std::memset(p, 1, bytes);
    heap.deallocate(p);
  }
  heap.deallocate(nullptr);
  EXPECT_EQ(heap.usable_size(nullptr), 0u);
  EXPECT_EQ(heap.allocate(SIZE_MAX), nullptr);
  EXPECT_EQ(Heap::good_size(SIZE_MAX), 0u);
  EXPECT_EQ(Heap::good_size(PTRDIFF_MAX), 0u) << "in whole pages it is more than that";
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().live, 0u);
}

TEST(Heap, ZeroedMemoryIsZeroWhenItWasUsedBefore) {
  Heap heap;
  for (const std::size_t bytes :
       {std::size_t{100}, std::size_t{5000}, 200'000 * std::size_t{1}, 3 * kMiB}) {
    void* used = heap.allocate(bytes);
    std::memset(used, 0xff, bytes);
    heap.deallocate(used);
    void* p = heap.allocate_zeroed(bytes);
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(reads_as(p, bytes, 0)) << bytes;
    heap.deallocate(p, bytes);
  }
  EXPECT_EQ(heap.allocate_zeroed(SIZE_MAX / 2, 3), nullptr);
}

TEST(Heap, AlignsAsAskedAndRefusesWhatIsNoPowerOfTwo) {
  Heap heap;
  for (std::size_t alignment = 1; alignment <= 4 * kMiB; alignment *= 2) {
    void* p = heap.allocate_aligned(100, alignment);
    ASSERT_NE(p, nullptr) << alignment;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % alignment, 0u);
    heap.deallocate(p);
  }
  EXPECT_EQ(heap.allocate_aligned(100, 0), nullptr);
  EXPECT_EQ(heap.allocate_aligned(100, 48), nullptr);
}

TEST(Heap, ReallocateKeepsContentsAndNullFreesAndAllocates) {
  Heap heap;
  auto* p = static_cast<char*>(heap.reallocate(nullptr, 10));
  ASSERT_NE(p, nullptr);
  std::memset(p, 'x', 10);
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{100'000}, 3 * kMiB, 30 * kMiB,
                                  std::size_t{500'000}, std::size_t{50}}) {
    p = static_cast<char*>(heap.reallocate(p, bytes));
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(reads_as(p, 10, 'x'));
    std::memset(p, 'x', bytes);
  }
  EXPECT_EQ(heap.reallocate(p, 0), nullptr);
  EXPECT_EQ(heap.statistics().live, 0u);
}

TEST(Heap, ResizesInPlaceWhereThereIsRoomAndNeverMoves) {
  Heap heap;
  void* small = heap.allocate(100);
  EXPECT_TRUE(heap.resize_in_place(small, 112));
  EXPECT_FALSE(heap.resize_in_place(small, 113));
  EXPECT_TRUE(heap.resize_in_place(small, 1));
  void* large = heap.allocate(200'000);
  EXPECT_TRUE(heap.resize_in_place(large, 400'000));
  EXPECT_GE(heap.usable_size(large), 400'000u);
  std::memset(large, 1, 400'000);
  EXPECT_TRUE(heap.resize_in_place(large, 150'000));
  EXPECT_LT(heap.usable_size(large), 400'000u);
  EXPECT_FALSE(heap.resize_in_place(large, 2 * kMiB));
  void* huge = heap.allocate(8 * kMiB);
  EXPECT_TRUE(heap.resize_in_place(huge, 4 * kMiB));
  EXPECT_EQ(heap.usable_size(huge), 4 * kMiB);
  EXPECT_FALSE(heap.resize_in_place(huge, 16 * kMiB));
  heap.check_invariants();
}

TEST(Heap, RawCallsServeAClassThatWasFoundOnce) {
  for (const Heap::Checks checks :
       {Heap::Checks::kBasic, Heap::Checks::kFull, Heap::Checks::kFrees}) {
    Heap heap(Heap::Options{.checks = checks});
    for (std::size_t bytes = 0; bytes <= 160 * 1024; bytes += 1 + bytes / 5) {
      const Heap::SizeClass size_class = Heap::size_class_of(bytes);
      ASSERT_NE(size_class, Heap::SizeClass::kNone);
      void* blocks[100];
      for (void*& p : blocks) {
        p = heap.allocate_raw(size_class);
        ASSERT_NE(p, nullptr);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(p) % 16, 0u);
        ASSERT_EQ(heap.usable_size(p), Heap::good_size(bytes));
        std::memset(p, 1, Heap::good_size(bytes));
      }
      for (void* p : blocks) heap.deallocate_raw(p, size_class);
      // The two kinds of calls may be mixed.
      heap.deallocate_raw(heap.allocate(Heap::good_size(bytes)), size_class);
      heap.deallocate(heap.allocate_raw(size_class));
    }
    heap.check_invariants();
    EXPECT_EQ(heap.statistics().live, 0u);
    EXPECT_EQ(Heap::size_class_of(160 * 1024 + 1), Heap::SizeClass::kNone);
    EXPECT_EQ(heap.allocate_raw(Heap::SizeClass::kNone), nullptr);
  }
  Heap a;
  Heap b = std::move(a);
  EXPECT_EQ(a.allocate_raw(Heap::size_class_of(1)), nullptr);  // NOLINT: as promised
}

TEST(Heap, TellsItsOwnMemoryFromThatOfOthers) {
  Heap a;
  Heap b;
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}, 4 * kMiB}) {
    auto* p = static_cast<char*>(a.allocate(bytes));
    EXPECT_TRUE(a.owns(p) && a.owns(p + bytes - 1));
    EXPECT_FALSE(b.owns(p));
    a.deallocate(p);
  }
  EXPECT_FALSE(a.owns(&a));
  EXPECT_FALSE(a.owns(nullptr));
}

TEST(Heap, ItsNameIsKeptAndCut) {
  EXPECT_STREQ(Heap(named("session")).name(), "session");
  EXPECT_STREQ(Heap().name(), "");
  EXPECT_EQ(std::string(Heap(named(std::string(100, 'n').c_str())).name()), std::string(31, 'n'));
}

TEST(Heap, OptionsThatContradictThemselvesAreRefusedWithASentence) {
  Heap::Options options;
  options.soft_limit_bytes = 2 * kMiB;
  options.hard_limit_bytes = kMiB;
  const char* reason = nullptr;
  EXPECT_FALSE(Heap::try_create(options, &reason).has_value());
  EXPECT_STREQ(reason, "Heap: the soft limit is above the hard one");
  EXPECT_THROW(Heap{options}, std::invalid_argument);
}

TEST(Heap, AsksForHugePagesAsItsOptionsSay) {
  const auto asks = [](Heap::HugePages choice) {
    Heap heap(Heap::Options{.huge_pages = choice});
    for (int i = 0; i < 40; ++i) (void)heap.allocate(100'000);
    heap.check_invariants();
    char json[16'384];
    heap.write_statistics_json(json, sizeof json);
    return std::string(json).find("\"huge_regions\":0,") == std::string::npos;
  };
  EXPECT_TRUE(asks(Heap::HugePages::kAlways));
  EXPECT_FALSE(asks(Heap::HugePages::kNever));
  EXPECT_FALSE(asks(Heap::HugePages::kAuto)) << "the heap is small";
  Heap::Options options;
  options.huge_pages = static_cast<Heap::HugePages>(3);
  const char* reason = nullptr;
  EXPECT_FALSE(Heap::try_create(options, &reason).has_value());
  EXPECT_STREQ(reason, "Heap: there is no such choice of huge pages");
}

TEST(Heap, RefusesChecksThatThereAreNot) {
  Heap::Options options;
  options.checks = static_cast<Heap::Checks>(3);
  const char* reason = nullptr;
  EXPECT_FALSE(Heap::try_create(options, &reason).has_value());
  EXPECT_STREQ(reason, "Heap: there is no such choice of checks");
}

TEST(Heap, MovesWithItsBlocksAndLeavesOneThatRefuses) {
  Heap a(named("a"));
  void* p = a.allocate(100);
  Heap b = std::move(a);
  EXPECT_STREQ(b.name(), "a");
  EXPECT_TRUE(b.owns(p));
  b.deallocate(p);
  EXPECT_EQ(a.allocate(100), nullptr);  // NOLINT: what a moved-from heap does is promised
  EXPECT_EQ(a.allocate_zeroed(100), nullptr);
  EXPECT_EQ(a.allocate_aligned(100, 64), nullptr);
  EXPECT_EQ(a.reallocate(nullptr, 100), nullptr);
  a.deallocate(nullptr);
  a = Heap(named("c"));
  EXPECT_STREQ(a.name(), "c");
  a.deallocate(a.allocate(100));
}

TEST(Heap, EndsWithAllItsBlocksAndGivesTheirMemoryBack) {
  const auto mapped = [] { return os::resident_bytes(); };
  {
    Heap warm;
    (void)warm.allocate(100);
  }
  const std::size_t before = mapped();
  for (int i = 0; i < 20; ++i) {
    Heap heap;
    for (const std::size_t bytes :
         {std::size_t{100}, std::size_t{3000}, std::size_t{300'000}, 4 * kMiB}) {
      for (int k = 0; k < 8; ++k) std::memset(heap.allocate(bytes), 1, bytes);
    }
    EXPECT_GT(heap.statistics().live, 32 * kMiB);
  }
  // Less than one of the 20 heaps held. What a sanitizer keeps for each address counts, too.
  if (!os::kIsEmulated) {
    EXPECT_LT(mapped(), before + 32 * kMiB);
  }
}

TEST(Heap, ResetFreesEverythingAndKeepsTheMemory) {
  Heap heap(Heap::Options{.reclaims = false});
  for (int round = 0; round < 5; ++round) {
    std::vector<std::pair<char*, std::size_t>> live;
    for (std::size_t i = 0; i < 3000; ++i) {
      const std::size_t bytes = i % 50 == 0 ? 200'000 + i : 1 + i * 7 % 5000;
      auto* p = static_cast<char*>(i % 2 == 0 ? heap.allocate_zeroed(bytes) : heap.allocate(bytes));
      ASSERT_NE(p, nullptr);
      if (i % 2 == 0) {
        ASSERT_TRUE(reads_as(p, bytes, 0)) << "of a round before";
      }
      std::memset(p, 0xee, bytes);
      live.emplace_back(p, bytes);
      if (i % 3 == 0) {
        heap.deallocate(live.front().first);
        live.erase(live.begin());
      }
    }
    void* huge = heap.allocate(4 * kMiB);
    ASSERT_NE(huge, nullptr);
    const std::size_t held = heap.statistics().held;
    heap.reset();
    heap.check_invariants();
    const Heap::Statistics now = heap.statistics();
    EXPECT_EQ(now.live, 0u);
    EXPECT_EQ(now.cached, 0u);
    EXPECT_EQ(now.held, held - 4 * kMiB) << "only the huge block's memory goes back";
  }
  EXPECT_TRUE(heap.release_memory());
  EXPECT_EQ(heap.statistics().free, 0u);
  heap.check_invariants();
}

TEST(Heap, AHardLimitIsReachedAndNeverPassed) {
  Heap heap(Heap::Options{.hard_limit_bytes = 8 * kMiB});
  for (const std::size_t bytes :
       {std::size_t{200}, std::size_t{3000}, std::size_t{70'000}, std::size_t{300'000}, 2 * kMiB}) {
    std::vector<void*> live;
    while (void* p = heap.allocate(bytes)) {
      std::memset(p, 1, bytes);
      live.push_back(p);
      if (live.size() % 256 == 0) {
        ASSERT_LE(heap.statistics().held, 8 * kMiB);
      }
    }
    EXPECT_GT(live.size() * bytes, 4 * kMiB) << bytes;
    EXPECT_EQ(heap.reallocate(live.back(), 9 * kMiB), nullptr);
    for (void* p : live) heap.deallocate(p);
    heap.check_invariants();
  }
  EXPECT_LE(heap.statistics().peak, 8 * kMiB);
  EXPECT_GT(heap.statistics().refusals, 0u);
}

TEST(Heap, ALimitTooSmallForAnythingRefusesEverything) {
  using Checks = Heap::Checks;
  for (const std::size_t limit : {std::size_t{1}, std::size_t{100}, kMiB / 8 - 1}) {
    for (const Checks checks : {Checks::kBasic, Checks::kFrees, Checks::kFull}) {
      Heap heap(Heap::Options{.hard_limit_bytes = limit, .checks = checks});
      errno = 0;
      EXPECT_EQ(heap.allocate(1), nullptr);
      EXPECT_EQ(errno, ENOMEM);
      heap.check_invariants();
      EXPECT_EQ(heap.allocate(kMiB), nullptr);
      EXPECT_LE(heap.statistics().held, limit);
      heap.check_invariants();
    }
  }
}

TEST(Heap, LimitsAreBytesHoweverLargeTheyAre) {
  for (const std::size_t limit : {SIZE_MAX / 2, SIZE_MAX / 2 + 2, SIZE_MAX - 1}) {
    Heap::Options options;
    options.soft_limit_bytes = options.hard_limit_bytes = limit;
    Heap heap(options);
    for (const bool is_used : {false, true}) {
      if (is_used) {
        EXPECT_NE(heap.allocate(64 * kMiB), nullptr);
      }
      EXPECT_EQ(heap.statistics().soft_limit, limit);
      EXPECT_EQ(heap.statistics().hard_limit, limit);
    }
    EXPECT_EQ(heap.statistics().refusals, 0u);
    heap.check_invariants();
  }
}

TEST(Heap, FromALimitOf128KiBOnSmallBlocksFit) {
  Heap heap(Heap::Options{.hard_limit_bytes = kMiB / 8});
  EXPECT_NE(heap.allocate(1), nullptr);
  heap.check_invariants();
}

TEST(Heap, AboveASoftLimitIdleMemoryGoesBackAtOnce) {
  Heap heap(Heap::Options{.soft_limit_bytes = 4 * kMiB, .reclaims = false});
  std::vector<void*> live;
  for (int i = 0; i < 200; ++i) live.push_back(heap.allocate(100'000));
  for (void* p : live) heap.deallocate(p);
  EXPECT_LT(heap.statistics().held, 6 * kMiB);
}

TEST(Heap, AboveASoftLimitWhatABlockShrinksByInPlaceGoesBackAtOnce) {
  Heap heap(Heap::Options{.soft_limit_bytes = 4 * kMiB, .reclaims = false});
  void* const block = heap.allocate(64 * kMiB);
  ASSERT_NE(block, nullptr);
  std::memset(block, 1, 64 * kMiB);
  EXPECT_TRUE(heap.resize_in_place(block, 2 * kMiB));
  EXPECT_LT(heap.statistics().held, 6 * kMiB);
}

TEST(Heap, ABlockResizedInPlaceIsFreedByItsNewSizeUnderVerifiedFrees) {
  Heap heap(Heap::Options{.checks = Heap::Checks::kFrees});
  for (const std::size_t bytes : {1, 55, 56, 100, 112}) {
    void* const block = heap.allocate(112);
    heap.deallocate(block, heap.resize_in_place(block, bytes) ? bytes : 112);
  }
  void* const block = heap.allocate(112);
  EXPECT_TRUE(heap.resize_in_place(block, 56));
  EXPECT_FALSE(heap.resize_in_place(block, 55)) << "reallocate() would move it";
  heap.deallocate(block);
}

TEST(Heap, FullChecksWatchEveryBlockOfTheirHeapAlone) {
  Heap checked(Heap::Options{.checks = Heap::Checks::kFull});
  Heap usual;
  auto* p = static_cast<char*>(checked.allocate(100));
  EXPECT_EQ(checked.usable_size(p), 100u);
  EXPECT_TRUE(checked.resize_in_place(p, 100));
  EXPECT_FALSE(checked.resize_in_place(p, 99));
  EXPECT_EQ(usual.usable_size(usual.allocate(100)), 112u);
  checked.deallocate(p, 100);
  void* large = checked.allocate(300'000);
  EXPECT_EQ(checked.usable_size(large), 300'000u);
  checked.reset();
  checked.check_invariants();
  EXPECT_EQ(checked.statistics().live, 0u);
  void* again = checked.allocate(300'000);
  EXPECT_NE(again, nullptr);
  for (int i = 0; i < 1000; ++i) checked.deallocate(checked.allocate(100));
}

TEST(Heap, TenThousandIdleOnesAreCheapAndHaveNumbersOfTheirOwn) {
  { Heap warm; }
  const std::size_t before = os::resident_bytes();
  std::vector<Heap> heaps;
  heaps.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) heaps.emplace_back();
  EXPECT_LT((os::resident_bytes() - before) / heaps.size(), 8192u);
  // Uses some of the heaps, from the first to the last.
  std::map<void*, std::size_t> owners;
  for (std::size_t i = 0; i < heaps.size(); i += 501) owners[heaps[i].allocate(100)] = i;
  for (const auto& [p, owner] : owners) {
    ASSERT_NE(p, nullptr);
    EXPECT_TRUE(heaps[owner].owns(p));
    EXPECT_FALSE(heaps[owner + 1].owns(p));
    heaps[owner].deallocate(p);
  }
}

TEST(Heap, MadeUsedAndEndedAgainAndAgainTakesNoMoreMemory) {
  const auto round = [] {
    for (int i = 0; i < 500; ++i) {
      Heap heap;
      for (std::size_t bytes = 16; bytes < 40'000; bytes *= 2)
        std::memset(heap.allocate(bytes), 1, bytes);
    }
  };
  round();
  const std::size_t before = os::resident_bytes();
  const std::size_t regions = g_heap_table.regions().statistics().regions;
  for (int i = 0; i < 4; ++i) round();
  EXPECT_LT(os::resident_bytes(), before + kMiB);
  EXPECT_EQ(g_heap_table.regions().statistics().regions, regions);
}

TEST(Heap, ThereIsOneMostAndASentenceForIt) {
  std::vector<Heap> heaps;
  const char* reason = nullptr;
  while (std::optional<Heap> heap = Heap::try_create({}, &reason))
    heaps.push_back(std::move(*heap));
  EXPECT_STREQ(reason, "Heap: 32767 of them live, and that is the most");
  EXPECT_EQ(heaps.size(), Heap::kMostHeaps);
  EXPECT_THROW(Heap{}, std::bad_alloc);
  heaps.pop_back();
  EXPECT_TRUE(Heap::try_create({}).has_value());
}

#ifdef GTEST_HAS_DEATH_TEST
TEST(HeapKeysDeathTest, ThatTheProcessHasNoneLeftIsSaid) {
  if (os::kIsEmulated) GTEST_SKIP() << "an earlier heap has its key";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        std::vector<pthread_key_t> keys;
        for (pthread_key_t key; pthread_key_create(&key, nullptr) == 0;) keys.push_back(key);
        const char* reason = nullptr;
        const bool has_heap = Heap::try_create({}, &reason).has_value();
        std::fprintf(stderr, "%s\n", reason);
        pthread_key_delete(keys[0]);
        _exit(has_heap || !Heap::try_create({}).has_value() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "Heap: the process has no key for its threads left");
}
#endif

/// Ends the process: with 0 if each of many size classes begins where its pages begin.
[[noreturn]] void leave_by_where_classes_begin() {
  setenv("STRATA_RANDOM", "off", 1);
  Heap heap;
  int elsewhere = 0;
  for (std::size_t bytes = 16; bytes <= 4096; bytes *= 2) {
    const auto at = reinterpret_cast<std::uintptr_t>(heap.allocate(bytes));
    elsewhere += at == 0 || at % kPageBytes != 0;
  }
  _exit(elsewhere);
}

TEST(HeapAddressesDeathTest, WithoutRandomNumbersEachClassBeginsWhereItsPagesBegin) {
  if (os::kIsEmulated) GTEST_SKIP() << "an earlier heap has read the environment";
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(leave_by_where_classes_begin(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace strata
