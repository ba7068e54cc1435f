// Heaps and the malloc under the process's limits. Each test is a process of its own, with the
// limit in its environment from the start. tests/operations has whole programs.

#include <strata/heap.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/run_together_test.h"
#include "malloc/process.h"
#include "os/child_in_test.h"
#include "os/emulation.h"
#include "user_heap/buffer_pages_test.h"
#include "user_heap/heap_table.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

/// Options of a heap that returns nothing by itself.
Heap::Options keeping(Heap::Checks checks = Heap::Checks::kBasic) {
  return {.reclaims = false, .checks = checks};
}

SharedLimit::Statistics of_process() { return g_heap_table.limit()->statistics(); }

/// Touches so many bytes of a heap, in blocks of one size.
bool fill(Heap& heap, std::size_t total, std::size_t bytes, std::vector<void*>& blocks) {
  for (std::size_t got = 0; got < total; got += bytes) {
    void* const p = heap.allocate(bytes);
    if (p == nullptr) return false;
    std::memset(p, 1, bytes);
    blocks.push_back(p);
  }
  return true;
}
void free_all(Heap& heap, std::vector<void*>& blocks) {
  for (void* p : blocks) heap.deallocate(p);
  blocks.clear();
}

/// Ends the process, because a condition does not hold, with the name of the condition.
[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}
#define MUST(condition) \
  if (!(condition)) fail(#condition)

struct HeapsUnderALimit : ::testing::Test {
  void SetUp() override {
    if (os::kIsEmulated) GTEST_SKIP() << "each needs a process that reads the options anew";
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
  ~HeapsUnderALimit() override {
    unsetenv("STRATA_HARD_LIMIT");
    unsetenv("STRATA_SOFT_LIMIT");
  }

  template <typename Body>
  static void run(const char* option, const char* value, Body body) {
    setenv(option, value, 1);
    EXPECT_EXIT(
        {
          body();
          std::_Exit(0);
        },
        ::testing::ExitedWithCode(0), "");
  }
};

TEST_F(HeapsUnderALimit, WhatOneHeapHasIdleServesTheOthersAndTheMalloc) {
  run("STRATA_HARD_LIMIT", "32m", [] {
    Heap first(keeping());
    Heap second(keeping(Heap::Checks::kFull));
    std::vector<void*> blocks;
    for (const std::size_t bytes : {200u, 5000u, 100'000u, 3'000'000u}) {
      MUST(fill(first, 20 * kMiB, bytes, blocks));
      free_all(first, blocks);
      MUST(fill(second, 15 * kMiB, bytes, blocks));
      free_all(second, blocks);
      for (std::size_t got = 0; got < 20 * kMiB; got += bytes) {
        blocks.push_back(allocate(bytes));
        MUST(blocks.back() != nullptr);
      }
      for (void* p : blocks) deallocate(p);
      blocks.clear();
      MUST(of_process().peak <= 32 * kMiB);
      MUST(of_process().peak > 28 * kMiB);
    }
    first.check_invariants();
    second.check_invariants();
  });
}

TEST_F(HeapsUnderALimit, AHeapThatIsMadeAtTheLimitGetsWhatOthersHaveIdle) {
  run("STRATA_HARD_LIMIT", "64m", [] {
    Heap first(keeping());
    for (const Heap::Checks checks :
         {Heap::Checks::kBasic, Heap::Checks::kFrees, Heap::Checks::kFull}) {
      // Fills the heap to the last small block, so that nothing else fits.
      std::vector<void*> blocks;
      for (const std::size_t bytes : {300'000u, 60'000u, 4096u, 64u}) {
        while (void* const p = first.allocate(bytes)) blocks.push_back(p);
      }
      free_all(first, blocks);
      Heap late(keeping(checks));
      MUST(late.allocate(100) != nullptr);
      Heap::Options guarded = keeping(checks);
      guarded.guard_rate = 100;
      Heap late_and_guarded(guarded);
      MUST(late_and_guarded.allocate(100) != nullptr);
    }
  });
}

TEST_F(HeapsUnderALimit, WhatALiveHeapHoldsIsRefusedToTheOthersUntilItEnds) {
  run("STRATA_HARD_LIMIT", "64m", [] {
    std::optional<Heap> first(keeping());
    Heap second(keeping());
    std::vector<void*> blocks, of_first;
    MUST(second.allocate(1) != nullptr);
    const std::size_t before = of_process().held;
    MUST(fill(*first, 40 * kMiB, 300'000, of_first));
    MUST(!fill(second, 40 * kMiB, 300'000, blocks));
    MUST(second.statistics().refusals != 0);
    MUST(of_process().held <= 64 * kMiB && of_process().peak <= 64 * kMiB);
    MUST(of_process().held == first->statistics().held + second.statistics().held +
                                  g_malloc.engine().limit().held_bytes());
    free_all(second, blocks);
    first.reset();
    MUST(second.release_memory());
    MUST(of_process().held <= before + kMiB);
    MUST(fill(second, 50 * kMiB, 300'000, blocks));
  });
}

TEST_F(HeapsUnderALimit, AboveTheSoftLimitTheHeapWithMostIdleGivesItBack) {
  run("STRATA_SOFT_LIMIT", "48m", [] {
    Heap large(keeping());
    Heap small(keeping());
    Heap busy(keeping());
    std::vector<void*> blocks;
    MUST(fill(large, 24 * kMiB, 300'000, blocks));
    free_all(large, blocks);
    MUST(fill(small, 8 * kMiB, 300'000, blocks));
    free_all(small, blocks);
    MUST(large.statistics().free >= 24 * kMiB && small.statistics().free >= 8 * kMiB);
    MUST(fill(busy, 20 * kMiB, 300'000, blocks));
    MUST(large.statistics().free == 0 && small.statistics().free >= 8 * kMiB);
    MUST(fill(busy, 20 * kMiB, 300'000, blocks));
    MUST(small.statistics().free == 0);
    MUST(of_process().held <= 48 * kMiB);
  });
}

TEST_F(HeapsUnderALimit, AHeapAtItsOwnLimitTakesNothingFromOthers) {
  run("STRATA_HARD_LIMIT", "64m", [] {
    Heap idle(keeping());
    Heap::Options options = keeping();
    options.hard_limit_bytes = 8 * kMiB;
    Heap small(options);
    std::vector<void*> blocks;
    MUST(fill(idle, 40 * kMiB, 300'000, blocks));
    free_all(idle, blocks);
    MUST(!fill(small, 8 * kMiB, 300'000, blocks));
    MUST(idle.statistics().free >= 40 * kMiB);
  });
}

TEST_F(HeapsUnderALimit, APageSourceThatCannotPurgeKeepsItsPagesAndCountsThem) {
  run("STRATA_HARD_LIMIT", "32m", [] {
    BufferPages pages(BufferPages::Purges::kNo);
    Heap::Options options = keeping();
    options.pages = pages.source();
    std::optional<Heap> own(options);
    Heap other(keeping());
    std::vector<void*> blocks;
    MUST(fill(*own, 16 * kMiB, 300'000, blocks));
    free_all(*own, blocks);
    MUST(!fill(other, 20 * kMiB, 300'000, blocks));
    MUST(of_process().held <= 32 * kMiB);
    own.reset();
    MUST(fill(other, 8 * kMiB, 300'000, blocks));
  });
}

TEST_F(HeapsUnderALimit, AShareIsOneOfWhatTheSystemAllowsAndTheStatisticsSaySo) {
  run("STRATA_HARD_LIMIT", "50%", [] {
    Heap heap(named("heap"));
    MUST(heap.allocate(100) != nullptr);
    char text[16 << 10];
    heap.write_statistics_json(text, sizeof text);
    const std::string json(text);
    const std::size_t hard = of_process().hard_limit;
    MUST(hard == g_malloc.engine().limit().statistics().hard_limit && hard != 0);
    MUST(json.find("\"process_hard_bytes\":" + std::to_string(hard)) != json.npos);
    MUST(json.find("\"process_held_bytes\":" + std::to_string(of_process().held)) != json.npos);
    MUST(heap.statistics().hard_limit == 0);
    heap.write_statistics(text, sizeof text);
    MUST(std::string(text).find("process holds") != std::string::npos);
  });
}

TEST_F(HeapsUnderALimit, ThreadsWhoseHeapsComeAndGoMakeRoomForEachOtherAndNobodyIsRefused) {
  run("STRATA_HARD_LIMIT", "64m", [] {
    // Beside the live blocks, at most 20 MiB: spans of all classes in each heap, and bookkeeping.
    constexpr std::size_t kLive = 4 * kMiB;
    constexpr int kThreads = 4;
    std::atomic<int> running{kThreads};
    Heap first;  // with which the limit is read
    std::thread watch([&running] {
      while (running != 0) MUST(of_process().held <= 64 * kMiB);
    });
    run_together(kThreads, [&](int t) {
      std::optional<Heap> heap;
      std::vector<std::pair<void*, std::size_t>> blocks;
      std::mt19937 random(static_cast<unsigned>(t));
      for (int round = 0; round < 12; ++round) {
        if (!heap || round % 5 == 4) heap.emplace(keeping());
        const bool is_malloc = t == 0 && round % 2 == 0;
        const std::size_t largest = std::size_t{1024} << random() % 12;
        for (std::size_t live = 0; live < kLive; live += blocks.back().second) {
          const std::size_t bytes = random() % largest + 64;
          blocks.emplace_back(is_malloc ? allocate(bytes) : heap->allocate(bytes), bytes);
          MUST(blocks.back().first != nullptr);
        }
        for (const auto& [p, bytes] : blocks) is_malloc ? deallocate(p) : heap->deallocate(p);
        blocks.clear();
      }
      heap->check_invariants();
      --running;
    });
    watch.join();
    MUST(of_process().peak <= 64 * kMiB);
  });
}

TEST_F(HeapsUnderALimit, AForkInTheMiddleOfItLeavesAChildThatWorks) {
  run("STRATA_HARD_LIMIT", "24m", [] {
    Heap heap(keeping());
    std::atomic<bool> ends{false};
    std::thread other([&ends] {
      Heap own(keeping());
      std::vector<void*> blocks;
      while (!ends) {
        (void)fill(own, 32 * kMiB, 200'000, blocks);  // until it is refused, again and again
        free_all(own, blocks);
      }
    });
    for (int i = 0; i < 6; ++i) {
      const int status = os::status_in_child([&] {
        // The child also has the blocks of the other thread, live for ever, so little may be left.
        Heap another(keeping());
        std::vector<void*> blocks;
        (void)fill(another, 32 * kMiB, 100'000, blocks);
        free_all(another, blocks);
        return of_process().held <= 24 * kMiB ? 0 : 1;
      });
      MUST(status == 0);
    }
    ends = true;
    other.join();
  });
}

TEST_F(HeapsUnderALimit, TheChildOfAForkCountsNothingThatAnotherThreadWasMapping) {
  run("STRATA_HARD_LIMIT", "100m", [] {
    Heap heap(keeping());
    std::atomic<bool> ends{false};
    std::thread other([&] {
      while (!ends) {
        void* const p = heap.allocate(30 * kMiB);
        MUST(p != nullptr);
        heap.deallocate(p);
        heap.release_memory();
      }
    });
    for (int i = 0; i < 60; ++i) {
      const int status = os::status_in_child([&] {
        heap.check_invariants();  // what is held is what is mapped
        const std::size_t of_malloc = g_malloc.engine().limit().held_bytes();
        // More than the sum if the other thread was just between the two sums.
        return of_process().held >= heap.statistics().held + of_malloc ? 0 : 1;
      });
      MUST(status == 0);
    }
    ends = true;
    other.join();
  });
}

/// Pages of the kernel that go back only when they may.
struct WaitingPages {
  std::atomic<bool> are_going{false};
  std::atomic<bool> may_go{false};
  const Heap::PageSource source{
      .context = this,
      .map = [](void*, std::size_t bytes,
                std::size_t alignment) { return os::kernel_pages().map_aligned(bytes, alignment); },
      .unmap =
          [](void* self, void* address, std::size_t bytes) {
            auto& pages = *static_cast<WaitingPages*>(self);
            pages.are_going = true;
            pages.are_going.notify_one();
            pages.may_go.wait(false);
            os::kernel_pages().unmap(address, bytes);
          }};
};

TEST_F(HeapsUnderALimit, TheChildOfAForkCountsNothingOfAHeapThatWasEnding) {
  run("STRATA_HARD_LIMIT", "100m", [] {
    Heap other(keeping());
    MUST(other.allocate(100) != nullptr);
    WaitingPages pages;
    Heap::Options options = keeping();
    options.pages = &pages.source;
    std::optional<Heap> heap(options);
    MUST(heap->allocate(300'000) != nullptr && heap->allocate(30 * kMiB) != nullptr);
    std::thread ending([&heap] { heap.reset(); });
    pages.are_going.wait(false);
    const auto of_others = [&other] {
      return other.statistics().held + g_malloc.engine().limit().held_bytes();
    };
    const int status =
        os::status_in_child([&] { return of_process().held == of_others() ? 0 : 1; });
    MUST(status == 0);
    MUST(of_process().held > of_others());
    pages.may_go = true;
    pages.may_go.notify_one();
    ending.join();
    MUST(of_process().held == of_others());
  });
}

TEST(HeapsWithoutALimit, CountNothingTogether) {
  Heap heap;
  ASSERT_NE(heap.allocate(100), nullptr);
  EXPECT_EQ(g_heap_table.limit(), nullptr);
  char text[16 << 10];
  heap.write_statistics(text, sizeof text);
  EXPECT_EQ(std::string(text).find("process holds"), std::string::npos);
}

}  // namespace
}  // namespace strata
