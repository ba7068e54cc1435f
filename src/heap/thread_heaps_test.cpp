#include <strata/thread_heaps.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "heap/heap_support_test.h"
#include "os/emulation.h"
#include "os/fake_page_source.h"
#include "os/resources.h"

namespace strata {
namespace {

TEST(ThreadHeaps, ServesEverySizeAlignedAndTakesItBack) {
  ThreadHeaps heaps(small_arenas());
  for (std::size_t bytes = 0; bytes < 600'000; bytes += 1 + bytes / 8) {
    for (std::size_t alignment : {1, 16, 64, 4096}) {
      void* block = heaps.allocate(bytes, alignment);
      ASSERT_NE(block, nullptr) << bytes;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % (alignment < 16 ? 16 : alignment), 0u);
      EXPECT_GE(heaps.usable_size(block), bytes);
      std::memset(block, 1, heaps.usable_size(block));
      heaps.deallocate(block);
    }
  }
  heaps.check_invariants();
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
}

TEST(ThreadHeaps, ReusesASmallBlockAtOnceWithoutTouchingTheArena) {
  ThreadHeaps heaps(small_arenas());
  void* block = heaps.allocate(60);
  heaps.deallocate(block);
  EXPECT_EQ(heaps.allocate(57), block);
  heaps.deallocate(block);
  EXPECT_NE(heaps.allocate(20), block) << "of another size";
  void* large = heaps.allocate(8000);
  const std::size_t peak = heaps.statistics().peak_bytes;
  for (int i = 0; i < 10; ++i) {
    heaps.deallocate(large);
    EXPECT_EQ(heaps.allocate(8000), large);
  }
  EXPECT_EQ(heaps.statistics().peak_bytes, peak);
}

TEST(ThreadHeaps, WorksWithACacheOfAnySizeAndWithNone) {
  for (std::size_t cached : {std::size_t{0}, std::size_t{16}, std::size_t{1000}, 100 * kKiB}) {
    ThreadHeaps::Options options = small_arenas();
    options.cached_bytes = cached;
    ThreadHeaps heaps(options);
    std::vector<void*> blocks;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t bytes = 0; bytes < 1500; ++bytes) blocks.push_back(heaps.allocate(bytes));
      heaps.check_invariants();
      for (void* block : blocks) heaps.deallocate(block);
      heaps.check_invariants();
      blocks.clear();
    }
    void* nothing = heaps.allocate(0);
    EXPECT_NE(nothing, nullptr);
    EXPECT_EQ(heaps.reallocate(nothing, 0), nothing);
    heaps.deallocate(nothing);
    EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
    EXPECT_EQ(heaps.statistics().allocations, 4501u);
    heaps.reclaim_now();
    EXPECT_EQ(heaps.statistics().held_bytes, 0u);
  }
}

TEST(ThreadHeaps, GivesAThreadItsBudgetAndNotAByteMore) {
  os::FakePageSource pages;
  ThreadHeaps::Options options = small_arenas(&pages);
  options.thread_budget_bytes = 2 * kMiB + 512 * kKiB;  // two arenas and a smaller one
  ThreadHeaps heaps(options);
  const auto fill = [&] {
    std::size_t blocks = 0;
    while (heaps.allocate(10'000) != nullptr) ++blocks;
    return blocks;
  };
  const std::size_t mine = fill();
  EXPECT_GT(mine * 10'000, options.thread_budget_bytes * 9 / 10);
  EXPECT_EQ(heaps.statistics().held_bytes, options.thread_budget_bytes);
  EXPECT_EQ(heaps.statistics().arenas, 3u);
  EXPECT_EQ(heaps.statistics().failed_allocations, 1u);
  std::size_t theirs = 0;
  in_thread([&] { theirs = fill(); });
  EXPECT_EQ(theirs, mine);
  EXPECT_EQ(heaps.statistics().held_bytes, 2 * options.thread_budget_bytes);
  heaps.check_invariants();
}

TEST(ThreadHeaps, GivesAllThreadsTogetherTheTotalBudget) {
  ThreadHeaps::Options options = small_arenas();
  options.total_budget_bytes = 3 * kMiB;
  ThreadHeaps heaps(options);
  run_together(4, [&](int) {
    while (heaps.allocate(10'000) != nullptr) {
    }
  });
  EXPECT_EQ(heaps.statistics().held_bytes, 3 * kMiB);
  EXPECT_GE(heaps.statistics().bytes_in_use, 2 * kMiB);
  heaps.check_invariants();
}

TEST(ThreadHeaps, EmptiesItsCacheBeforeItRefuses) {
  ThreadHeaps::Options options = small_arenas();
  options.arena_bytes = options.thread_budget_bytes = ThreadHeaps::kMinArenaBytes;
  ThreadHeaps heaps(options);
  std::vector<void*> blocks;
  while (void* block = heaps.allocate(256)) blocks.push_back(block);
  ASSERT_GT(blocks.size(), 100u);
  // Some blocks stay in the cache: those freed last, which are from the middle of the arena.
  std::rotate(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(blocks.size() / 2),
              blocks.end());
  for (void* block : blocks) heaps.deallocate(block);
  void* large = heaps.allocate(50'000);
  EXPECT_NE(large, nullptr);
  heaps.deallocate(large);
}

TEST(ThreadHeaps, ShrinksWhereItIsWhenThereIsNoRoomForASmallerBlock) {
  ThreadHeaps::Options options = small_arenas();
  options.arena_bytes = options.thread_budget_bytes = ThreadHeaps::kMinArenaBytes;
  ThreadHeaps heaps(options);
  auto* block = static_cast<unsigned char*>(heaps.allocate(600));
  std::memset(block, 7, 600);
  while (heaps.allocate(16) != nullptr) {
  }
  const std::uint64_t failures = heaps.statistics().failed_allocations;
  EXPECT_EQ(heaps.reallocate(block, 20), block);
  EXPECT_EQ(block[19], 7);
  EXPECT_EQ(heaps.statistics().failed_allocations, failures) << "it was served";
  EXPECT_EQ(heaps.reallocate(block, 5000), nullptr);
  EXPECT_EQ(block[19], 7);
  EXPECT_EQ(heaps.statistics().failed_allocations, failures + 1);
}

TEST(ThreadHeaps, BlocksThatLeaveTheCacheInAnyOrderMergeAgain) {
  for (std::size_t bytes : {16, 60, 250}) {
    for (std::size_t step : {std::size_t{1}, std::size_t{299}, std::size_t{107}}) {
      ThreadHeaps heaps(small_arenas());
      std::vector<void*> blocks(300);
      for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < blocks.size(); ++i) {
          blocks[i] = heaps.allocate(i % 5 == 4 ? bytes + 300 : bytes);
          std::memset(blocks[i], static_cast<int>(i % 251), bytes);
          heaps.check_invariants();
        }
        for (std::size_t i = 0, at = 0; i < blocks.size(); ++i, at = (at + step) % blocks.size()) {
          for (std::size_t b = 0; b < bytes; ++b) {
            ASSERT_EQ(static_cast<unsigned char*>(blocks[at])[b], at % 251);
          }
          heaps.deallocate(blocks[at]);
          heaps.check_invariants();
        }
        EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
      }
      EXPECT_EQ(heaps.statistics().arenas, 1u);
      heaps.reclaim_now();
      EXPECT_EQ(heaps.statistics().held_bytes, 0u);
    }
  }
}

TEST(ThreadHeaps, ACacheTakesTheBlocksThatFitBeforeItCutsAnother) {
  ThreadHeaps::Options options = small_arenas();
  ThreadHeaps heaps(options);
  // Free places of the bin's size between live blocks, and not in the cache.
  std::vector<char*> blocks;
  for (int i = 0; i < 200; ++i) blocks.push_back(static_cast<char*>(heaps.allocate(128)));
  const auto [lowest, highest] = std::minmax_element(blocks.begin(), blocks.end());
  const char* const low = *lowest;
  const char* const high = *highest;
  for (std::size_t i = 0; i < blocks.size(); i += 2) heaps.deallocate(blocks[i]);
  heaps.reclaim_now();
  for (int i = 0; i < 100; ++i) {
    char* again = static_cast<char*>(heaps.allocate(128));
    EXPECT_TRUE(low <= again && again <= high) << i;
  }
}

#ifdef GTEST_HAS_DEATH_TEST
TEST(ThreadHeaps, SayThatTheProcessHasNoKeyForItsThreadsLeft) {
  // In a process of its own: one that has had an instance keeps its key.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        for (pthread_key_t key; pthread_key_create(&key, nullptr) == 0;) {
        }
        const char* reason = nullptr;
        const bool has_heaps = ThreadHeaps::try_create({}, &reason).has_value();
        std::fprintf(stderr, "%s\n", reason);
        _exit(has_heaps ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "no key");
}
#endif

TEST(ThreadHeaps, RefusesWhatNoArenaHolds) {
  os::FakePageSource pages;
  ThreadHeaps heaps(small_arenas(&pages));
  for (std::size_t bytes :
       {kMiB - 1500, kMiB, 10 * kMiB, std::size_t{1} << 40, SIZE_MAX - 15, SIZE_MAX}) {
    EXPECT_EQ(heaps.allocate(bytes), nullptr);
    EXPECT_EQ(heaps.allocate(bytes, 64), nullptr);
  }
  EXPECT_EQ(heaps.allocate(100, kMiB), nullptr);
  EXPECT_EQ(pages.mapped_bytes(), 0u) << "no arena is taken in vain";
  EXPECT_EQ(heaps.statistics().failed_allocations, 13u);
}

TEST(ThreadHeaps, ServesWhatJustFitsAFreshArena) {
  std::size_t served = 0;
  for (std::size_t bytes = kMiB - 5000; bytes < kMiB; bytes += 8) {
    ThreadHeaps heaps(small_arenas());
    void* block = heaps.allocate(bytes);
    if (block == nullptr) {
      EXPECT_EQ(heaps.statistics().held_bytes, 0u) << bytes;
      break;
    }
    served = bytes;
    std::memset(block, 1, bytes);
  }
  EXPECT_GT(served, kMiB - 4096);
  for (std::size_t alignment = 32; alignment <= 512 * kKiB; alignment *= 2) {
    ThreadHeaps heaps(small_arenas());
    for (std::size_t bytes = 400 * kKiB; bytes < kMiB; bytes += 10'000) {
      if (heaps.allocate(bytes, alignment) == nullptr) break;
    }
    EXPECT_LE(heaps.statistics().held_bytes, heaps.statistics().allocations * kMiB);
  }
}

TEST(ThreadHeaps, ResizesInPlaceWhereItCanAndMovesWhereItMust) {
  ThreadHeaps heaps(small_arenas());
  std::mt19937_64 random(seed_of_this_run());
  unsigned char* block = nullptr;
  std::size_t bytes = 0;
  for (int step = 0; step < 3000; ++step) {
    const std::size_t wanted = 1 + random() % (random() % 3 == 0 ? 100'000 : 600);
    auto* moved = static_cast<unsigned char*>(heaps.reallocate(block, wanted));
    ASSERT_NE(moved, nullptr);
    for (std::size_t i = 0; i < std::min(bytes, wanted); ++i) ASSERT_EQ(moved[i], bytes % 251);
    block = moved;
    bytes = wanted;
    std::memset(block, static_cast<int>(bytes % 251), bytes);
    ASSERT_GE(heaps.statistics().bytes_in_use, bytes);
  }
  heaps.deallocate(block);
  heaps.check_invariants();
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
}

TEST(ThreadHeaps, TouchesOnlyWhatItUsesOfAFreshArena) {
  if (kIsSanitized) GTEST_SKIP() << "shadow memory counts as resident";
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's books of the pages count as resident";
  ThreadHeaps heaps;  // arenas of 64 MiB
  heaps.deallocate(heaps.allocate(1));
  const std::size_t before = os::resident_bytes();
  for (int i = 0; i < 20; ++i) {
    in_thread([&] { ASSERT_NE(heaps.allocate(60 * kMiB), nullptr); });
  }
  EXPECT_GE(heaps.statistics().held_bytes, 20 * 64 * kMiB);
  EXPECT_LT(os::resident_bytes() - before, 4 * kMiB);
}

/// The first thread that maps an arena stops at the gate.
struct SlowPages final : os::PageSource, Gate {
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    pass();
    return os::PageSource::map_aligned(bytes, alignment);
  }
};

TEST(ThreadHeaps, CreatesArenasWithoutALockThatOtherThreadsNeed) {
  SlowPages pages;
  ThreadHeaps heaps(small_arenas(&pages));
  std::thread slow([&] { EXPECT_NE(heaps.allocate(100), nullptr); });
  pages.arrived.wait();
  // The other thread is in the system call; meanwhile this one makes a heap and an arena.
  EXPECT_NE(heaps.allocate(100), nullptr);
  pages.go_on.count_down();
  slow.join();
}

TEST(ThreadHeaps, TwoInstancesInOneThreadNeverShareAnArena) {
  os::FakePageSource first_pages;
  os::FakePageSource second_pages;
  ThreadHeaps first(small_arenas(&first_pages));
  ThreadHeaps second(small_arenas(&second_pages));
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t bytes = 16 + i * 30;
    void* a = first.allocate(bytes);
    void* b = second.allocate(bytes);
    ASSERT_TRUE(first_pages.is_mapped(a, bytes));
    ASSERT_TRUE(second_pages.is_mapped(b, bytes));
    if (i % 2 == 0) first.deallocate(a);
    if (i % 3 == 0) second.deallocate(b);
  }
  void* a = first.allocate(10);
  EXPECT_TRUE(first.owns(a));
  EXPECT_FALSE(second.owns(a));
  first.check_invariants();
  second.check_invariants();
}

TEST(ThreadHeaps, OwnsItsArenasToTheirEndsAndNoFurther) {
  const auto expect_end = [](ThreadHeaps& heaps, const char* end) {
    EXPECT_TRUE(heaps.owns(end - 1));
    EXPECT_FALSE(heaps.owns(end));
    EXPECT_FALSE(heaps.owns(end + os::page_bytes()));
  };
  ThreadHeaps heaps(long_arenas());
  auto* block = static_cast<char*>(heaps.allocate(100));
  expect_end(heaps, arena_start(block, 4 * kMiB) + 3 * kMiB);
  // The budget leaves half an arena for the second one.
  ThreadHeaps::Options options = small_arenas();
  options.total_budget_bytes = kMiB + 512 * kKiB;
  ThreadHeaps bounded(options);
  ASSERT_NE(bounded.allocate(1000 * kKiB), nullptr);
  auto* in_half = static_cast<char*>(bounded.allocate(400 * kKiB));
  ASSERT_NE(in_half, nullptr);
  ASSERT_EQ(bounded.statistics().arenas, 2u);
  expect_end(bounded, arena_start(in_half, kMiB) + 512 * kKiB);
}

TEST(ThreadHeaps, AnInstanceInTheSlotOfADeadOneStartsAfresh) {
  os::FakePageSource pages;
  for (int round = 0; round < 200; ++round) {
    ThreadHeaps heaps(small_arenas(&pages));
    void* block = heaps.allocate(100);
    ASSERT_TRUE(pages.is_mapped(block, 100));
    std::memset(block, 1, 100);
    EXPECT_EQ(heaps.statistics().allocations, 1u);
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

TEST(ThreadHeaps, RefusesMoreInstancesThanSlotsWithASentence) {
  std::vector<ThreadHeaps> many;
  const char* reason = nullptr;
  while (auto heaps = ThreadHeaps::try_create(small_arenas(), &reason)) {
    EXPECT_EQ(reason, nullptr);
    many.push_back(std::move(*heaps));
  }
  EXPECT_LE(many.size(), ThreadHeaps::kMaxInstances);
  EXPECT_STREQ(reason, "ThreadHeaps: 64 instances live, and that is the most");
  EXPECT_THAT([] { ThreadHeaps{}; }, testing::ThrowsMessage<std::bad_alloc>(testing::StrEq(
                                         "ThreadHeaps: 64 instances live, and that is the most")));
  many.clear();
  EXPECT_TRUE(ThreadHeaps::try_create(small_arenas()));
}

TEST(ThreadHeaps, RefusesOptionsThatContradictThemselvesWithASentenceEach) {
  const auto why = [](const ThreadHeaps::Options& options) {
    const char* reason = nullptr;
    EXPECT_FALSE(ThreadHeaps::try_create(options, &reason));
    EXPECT_THAT([&] { ThreadHeaps{options}; },
                testing::ThrowsMessage<std::invalid_argument>(testing::StrEq(reason)));
    return reason;
  };
  ThreadHeaps::Options options;
  options.cached_bytes = ThreadHeaps::kMaxCachedBytes + 1;
  EXPECT_STREQ(why(options), "ThreadHeaps: a cache is above 1 GiB");
  options = {};
  options.thread_budget_bytes = 1000;
  EXPECT_STREQ(why(options), "ThreadHeaps: an arena or a budget is below 64 KiB");
  options = {};
  options.arena_bytes = std::size_t{1} << 35;
  EXPECT_STREQ(why(options), "ThreadHeaps: an arena is above 16 GiB");
}

TEST(ThreadHeaps, KeepsItsBlocksWhenItMoves) {
  os::FakePageSource pages;
  {
    ThreadHeaps first(small_arenas(&pages));
    void* block = first.allocate(100);
    ThreadHeaps second(std::move(first));
    EXPECT_TRUE(second.owns(block));
    EXPECT_EQ(first.allocate(1), nullptr);  // NOLINT: heaps that moved refuse every request
    EXPECT_EQ(first.reclaim_now(), 0u);
    ThreadHeaps third(small_arenas(&pages));
    third = std::move(second);
    third.deallocate(block);
    EXPECT_EQ(third.statistics().bytes_in_use, 0u);
    third.check_invariants();
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
}

TEST(ThreadHeaps, ReclaimNowCountsTheMemoryThatWentBackNotTheAddresses) {
  if (!os::knows_pages()) GTEST_SKIP() << "the emulator answers for its host's pages";
  ThreadHeaps heaps;  // arenas of 64 MiB
  void* block = heaps.allocate(100'000);
  std::memset(block, 1, 100'000);
  heaps.deallocate(block);
  ASSERT_EQ(heaps.statistics().held_bytes, std::size_t{64} << 20);
  const std::size_t returned = heaps.reclaim_now();
  EXPECT_GE(returned, 100'000u);
  EXPECT_LE(returned, 100'000u + 4 * os::page_bytes()) << "and the head and the end of the arena";
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
}

TEST(ThreadHeaps, GoesAwayWhileBlocksOfEndedAndOfLivingThreadsAreStillInUse) {
  os::FakePageSource pages;
  std::barrier phase(2);
  std::thread living;
  {
    ThreadHeaps heaps(small_arenas(&pages));
    in_thread([&] { static_cast<void>(heaps.allocate(1000)); });
    in_thread([&] {
      for (int i = 0; i < 100; ++i) static_cast<void>(heaps.allocate(100));
    });
    living = std::thread([&] {
      static_cast<void>(heaps.allocate(50));
      phase.arrive_and_wait();
      phase.arrive_and_wait();  // the instance is gone, and this thread ends after it
    });
    phase.arrive_and_wait();
  }
  EXPECT_EQ(pages.mapped_bytes(), 0u);
  phase.arrive_and_wait();
  living.join();
}

TEST(ThreadHeaps, ThreadsEndWhileInstancesComeAndGo) {
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::shared_ptr<ThreadHeaps> current = std::make_shared<ThreadHeaps>(small_arenas());
  std::thread changer([&] {
    for (int i = 0; i < 100; ++i) {
      auto fresh = std::make_shared<ThreadHeaps>(small_arenas());
      {
        std::lock_guard guard(mutex);
        current.swap(fresh);
      }
      std::this_thread::yield();
    }
    stop = true;
  });
  while (!stop) {
    in_thread([&] {
      std::shared_ptr<ThreadHeaps> heaps;
      {
        std::lock_guard guard(mutex);
        heaps = current;
      }
      heaps->deallocate(heaps->allocate(100));
      static_cast<void>(heaps->allocate(3000));
    });
  }
  changer.join();
}

TEST(ThreadHeaps, SurvivesARefusalOfTheKernelAtEveryCall) {
  for (std::size_t n = 1;; ++n) {
    os::FakePageSource pages;
    ThreadHeaps heaps(small_arenas(&pages));
    pages.refuse_call(n);
    std::vector<void*> blocks;
    std::size_t refused = 0;
    for (int i = 0; i < 400; ++i) {
      void* block = heaps.allocate(10'000);
      block != nullptr ? blocks.push_back(block) : void(++refused);
    }
    heaps.check_invariants();
    for (void* block : blocks) heaps.deallocate(block);
    heaps.reclaim_now();
    heaps.check_invariants();
    if (pages.refused_calls() == 0) {
      ASSERT_GT(n, 4u) << "the loop saw every arena's creation";
      break;
    }
    EXPECT_LE(refused, 1u) << "the next request asks again";
    EXPECT_EQ(heaps.statistics().failed_allocations, refused);
    EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  }
}

TEST(ThreadHeaps, RefusesWhileTheKernelHasNothingAndWorksAfterwards) {
  os::FakePageSource pages;
  ThreadHeaps heaps(small_arenas(&pages));
  pages.refuse_from_call(1);
  EXPECT_EQ(heaps.allocate(10), nullptr);
  EXPECT_EQ(heaps.allocate(10'000), nullptr);
  EXPECT_EQ(heaps.statistics().held_bytes, 0u);
  pages.refuse_nothing();
  EXPECT_NE(heaps.allocate(10), nullptr);
  EXPECT_NE(heaps.allocate(10'000), nullptr);
  heaps.check_invariants();
}

TEST(ThreadHeaps, RefusesAndStillFreesInAThreadForWhichNoHeapCanBeMade) {
  if (kIsSanitized) GTEST_SKIP() << "the sanitizer needs address space itself";
  if (os::kIsEmulated) GTEST_SKIP() << "the limit would be the emulator's";
  constexpr std::size_t kThreads = 300;
  ThreadHeaps heaps(own_arenas());
  std::vector<void*> blocks(kThreads);
  for (void*& block : blocks) block = heaps.allocate(1000);
  std::atomic<std::size_t> refused{0};
  std::atomic<std::size_t> not_moved{0};
  std::atomic<std::size_t> kept{0};
  std::barrier phase(kThreads + 1);
  std::vector<std::thread> threads;
  for (void* block : blocks) {
    threads.emplace_back([&, block] {
      phase.arrive_and_wait();
      if (heaps.allocate(100) == nullptr) ++refused;
      if (heaps.reallocate(block, 5000) == nullptr) ++not_moved;
      if (heaps.reallocate(block, 900) == block) ++kept;
      heaps.deallocate(block);
      phase.arrive_and_wait();
    });
  }
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  const rlimit nothing_more{1, limit.rlim_max};
  setrlimit(RLIMIT_AS, &nothing_more);
  phase.arrive_and_wait();
  phase.arrive_and_wait();
  setrlimit(RLIMIT_AS, &limit);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, kThreads);
  EXPECT_EQ(not_moved, kThreads);
  EXPECT_EQ(kept, kThreads) << "a block that has room stays where it is";
  const ThreadHeaps::Statistics now = heaps.statistics();
  EXPECT_LT(now.heaps, kThreads) << "some had none";
  EXPECT_EQ(now.failed_allocations, 2 * kThreads);
  EXPECT_EQ(now.frees, kThreads);
  EXPECT_EQ(now.bytes_in_use, 0u);
  heaps.reclaim_now();
  EXPECT_EQ(heaps.statistics().held_bytes, 0u) << "every block came home";
  in_thread([&] { EXPECT_NE(heaps.allocate(100), nullptr); });
}

TEST(ThreadHeaps, CountsWhatHappened) {
  ThreadHeaps heaps(own_arenas());
  void* a = heaps.allocate(1000);
  void* b = heaps.allocate(100);
  const std::size_t both = heaps.usable_size(a) + heaps.usable_size(b);
  EXPECT_EQ(heaps.statistics().bytes_in_use, both);
  heaps.deallocate(a);
  in_thread([&] { heaps.deallocate(b); });
  const ThreadHeaps::Statistics now = heaps.statistics();
  EXPECT_EQ(now.allocations, 2u);
  EXPECT_EQ(now.frees, 2u);
  EXPECT_EQ(now.remote_frees, 1u);
  EXPECT_EQ(now.bytes_in_use, 0u);
  EXPECT_GE(now.peak_bytes, both);
  EXPECT_LE(now.peak_bytes, both + 20 * kKiB) << "what the cache took in advance";
  EXPECT_EQ(now.held_bytes, kMiB);
  EXPECT_EQ(now.arenas, 1u);
  EXPECT_EQ(now.failed_allocations, 0u);
}

TEST(ThreadHeaps, NoSnapshotEverWrapsBelowZeroWhileBlocksChangeHands) {
  ThreadHeaps heaps(small_arenas());
  constexpr std::size_t kSlots = 64;
  std::vector<std::atomic<void*>> slots(kSlots);
  const std::uint64_t base = seed_of_this_run();
  const auto use = [&](int t) {
    std::mt19937_64 random(base + static_cast<std::uint64_t>(t));
    for (int i = 0; i < 30'000; ++i) {
      void* block = heaps.allocate(1 + random() % 500);
      heaps.deallocate(slots[random() % kSlots].exchange(block));
    }
  };
  run_together(3, use, [&] {
    const ThreadHeaps::Statistics now = heaps.statistics();
    ASSERT_LE(now.frees, now.allocations);
    ASSERT_LT(now.bytes_in_use, 100 * kMiB);
  });
  for (auto& slot : slots) heaps.deallocate(slot.load());
  EXPECT_EQ(heaps.statistics().bytes_in_use, 0u);
  EXPECT_EQ(heaps.statistics().frees, heaps.statistics().allocations);
  heaps.check_invariants();
}

}  // namespace
}  // namespace strata
