// What happens to a program that misuses a heap: it dies with one sentence, which names the heaps.

#include <strata/heap.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "malloc/process.h"
#include "os/emulation.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

struct HeapDeathTest : ::testing::Test {
  HeapDeathTest() { ::testing::FLAGS_gtest_death_test_style = os::kSafestDeathTests; }
  Heap session{named("session")};
  Heap cache{named("cache")};
};

TEST_F(HeapDeathTest, AFreeIntoTheWrongHeapOfALargerBlockNamesBothAtOnce) {
  for (const std::size_t bytes : {std::size_t{300'000}, 4 * kMiB}) {
    void* p = session.allocate(bytes);
    EXPECT_DEATH(cache.deallocate(p),
                 "invalid free of 0x.*: it belongs to the heap 'session', not to the heap 'cache'");
    (void)cache.allocate(100);
    EXPECT_DEATH(cache.deallocate(p),
                 "invalid free of 0x.*: it belongs to the heap 'session', not to the heap 'cache'");
    EXPECT_DEATH(
        static_cast<void>(cache.reallocate(p, 10)),
        "invalid realloc of 0x.*: it belongs to the heap 'session', not to the heap 'cache'");
  }
}

TEST_F(HeapDeathTest, AFreeIntoTheWrongHeapOfASmallBlockNamesBothWhenItReachesItsSpan) {
  void* p = session.allocate(100);
  EXPECT_DEATH(
      {
        (void)cache.allocate(100);
        cache.deallocate(p);
        cache.release_memory();
      },
      "invalid free of 0x.*: it belongs to the heap 'session', not to the heap 'cache'");
  EXPECT_DEATH(cache.deallocate(p), "it belongs to the heap 'session', not to the heap 'cache'")
      << "nothing of the other heap was used yet";
  (void)cache.allocate(100);
  EXPECT_DEATH(
      static_cast<void>(cache.reallocate(p, 1000)),
      "invalid realloc of 0x.*: it belongs to the heap 'session', not to the heap 'cache'");
  EXPECT_DEATH(static_cast<void>(cache.usable_size(p)), "it belongs to the heap 'session'");
}

TEST_F(HeapDeathTest, ARawFreeOfAnotherClassIsSeenWhereFreesAreVerifiedAndHarmlessElsewhere) {
  session.deallocate_raw(session.allocate(16), Heap::size_class_of(16));
  session.deallocate_raw(session.allocate(100), Heap::size_class_of(16));
  session.release_memory();
  session.check_invariants();
  EXPECT_EQ(session.statistics().live, 0u);
  for (const Heap::Checks checks : {Heap::Checks::kFull, Heap::Checks::kFrees}) {
    Heap::Options options = named("checked");
    options.checks = checks;
    Heap checked(options);
    void* p = checked.allocate_raw(Heap::size_class_of(100));
    EXPECT_DEATH(checked.deallocate_raw(p, Heap::size_class_of(1000)), "mismatched free_sized of");
  }
}

TEST_F(HeapDeathTest, UnderFullChecksAFreeIntoTheWrongHeapIsFoundAtOnce) {
  Heap::Options options = named("checked");
  options.checks = Heap::Checks::kFull;
  Heap checked(options);
  (void)checked.allocate(100);
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}, 4 * kMiB}) {
    void* p = session.allocate(bytes);
    EXPECT_DEATH(checked.deallocate(p),
                 "it belongs to the heap 'session', not to the heap 'checked'");
  }
}

TEST_F(HeapDeathTest, UnderFullChecksWhatWasWrittenWhereNobodyMayIsFoundWhenTheHeapEndsOrIsReset) {
  for (const bool is_freed : {false, true}) {
    for (const bool resets : {false, true}) {
      EXPECT_DEATH(
          {
            Heap::Options options = named("checked");
            options.checks = Heap::Checks::kFull;
            Heap checked(options);
            auto* const p = static_cast<volatile char*>(checked.allocate(100));
            if (is_freed) checked.deallocate(const_cast<char*>(p));
            p[is_freed ? 50 : 100] = 1;
            if (resets) {
              checked.reset();
              std::_Exit(0);
            }
          },
          is_freed ? "use after free of 0x.*\\(in the heap 'checked'\\)"
                   : "overflow of 0x.*\\(in the heap 'checked'\\)");
    }
  }
}

/// Meanwhile removes the seed of random tests from the environment, since the malloc would warn
/// about it.
struct WithoutSeed {
  WithoutSeed() { unsetenv(kName); }
  ~WithoutSeed() {
    if (has_seed) setenv(kName, seed.c_str(), 1);
  }
  WithoutSeed(const WithoutSeed&) = delete;
  WithoutSeed& operator=(const WithoutSeed&) = delete;

  static constexpr char kName[] = "STRATA_SEED";
  const bool has_seed = std::getenv(kName) != nullptr;
  const std::string seed = has_seed ? std::getenv(kName) : "";
};

/// Heaps that are live when the process ends.
struct HeapsAtExit : WithoutSeed, HeapDeathTest {
  enum class Mistake {
    kNone,
    kOverflow,
    kUseAfterFree,
    kLargeOverflow,
    kHugeOverflow,
    kDoubleFree
  };

  /// Makes a heap with the mistake, which nobody ends, and exits.
  [[noreturn]] static void exit_after(Mistake mistake, Heap::Checks checks) {
    Heap::Options options = named("at exit");
    options.checks = checks;
    Heap& heap = *new Heap(options);
    const std::size_t bytes = mistake == Mistake::kHugeOverflow    ? 4 * kMiB + 100
                              : mistake == Mistake::kLargeOverflow ? 300'000
                                                                   : 100;
    auto* const p = static_cast<volatile char*>(heap.allocate(bytes));
    auto* const q = heap.allocate(100);
    const auto free = [&heap](volatile char* block) { heap.deallocate(const_cast<char*>(block)); };
    switch (mistake) {
      case Mistake::kNone:
        free(p);
        break;
      case Mistake::kUseAfterFree:
        free(p);
        p[50] = 1;
        break;
      case Mistake::kDoubleFree:
        free(p);
        heap.deallocate(q);
        free(p);
        break;
      default:
        p[bytes] = 1;
    }
    std::exit(0);
  }
};

TEST_F(HeapsAtExit, UnderFullChecksAllThatIsLiveOrWaitsIsVerifiedAndTheHeapNamed) {
  const auto dies = [](Mistake mistake, const char* sentence) {
    EXPECT_DEATH(exit_after(mistake, Heap::Checks::kFull), sentence);
  };
  dies(Mistake::kOverflow, "overflow of 0x.*offset 100 .*of 100 bytes \\(in the heap 'at exit'\\)");
  dies(Mistake::kUseAfterFree, "use after free of 0x.*offset 50 .*\\(in the heap 'at exit'\\)");
  dies(Mistake::kLargeOverflow, "overflow of 0x.*of 300000 bytes \\(in the heap 'at exit'\\)");
  dies(Mistake::kHugeOverflow, "overflow of 0x.*of 4194404 bytes \\(in the heap 'at exit'\\)");
}

TEST_F(HeapsAtExit, WhatWaitsInCachesReachesItsSpansWhereDoubleFreesShow) {
  EXPECT_DEATH(exit_after(Mistake::kDoubleFree, Heap::Checks::kBasic),
               "double free of 0x.*: the object is free already \\(in the heap 'at exit'\\)");
}

TEST_F(HeapsAtExit, WithoutAMistakeNothingIsSaid) {
  for (const Heap::Checks checks :
       {Heap::Checks::kBasic, Heap::Checks::kFrees, Heap::Checks::kFull})
    EXPECT_EXIT(exit_after(Mistake::kNone, checks), ::testing::ExitedWithCode(0), "^$");
}

TEST_F(HeapsAtExit, AHeapThatHasEndedBeforeIsNotLookedAt) {
  EXPECT_EXIT(
      {
        static Heap heap(named("static"));
        (void)heap.allocate(100);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "^$");
}

/// What a handler of SIGABRT does with heaps, whose locks its thread may hold, before it exits.
void end_heaps_and_exit(int) {
  const bool is_made = Heap::try_create({}).has_value();
  Heap::stop_profile();
  const bool has_profile = Heap::start_profile();
  std::exit(is_made || has_profile ? 1 : 0);  // ends the static heap
}

TEST_F(HeapsAtExit, AfterAMistakeTheHandlerOfTheAbortCanEndHeaps) {
  EXPECT_EXIT(
      {
        alarm(20);  // ends one that waits for ever
        std::signal(SIGABRT, end_heaps_and_exit);
        Heap::Options options = named("static");
        options.checks = Heap::Checks::kFull;
        static Heap heap(options);
        std::atexit([] { heap.reset(); });
        void* const p = heap.allocate(100);
        heap.deallocate(p);
        heap.deallocate(p);
      },
      ::testing::ExitedWithCode(0), "double free of 0x.*\\(in the heap 'static'\\)");
}

TEST_F(HeapDeathTest, WhatIsFoundInAHeapNamesIt) {
  Heap::Options options = named("checked");
  options.checks = Heap::Checks::kFull;
  Heap checked(options);
  void* p = checked.allocate(100);
  EXPECT_DEATH(checked.deallocate(p, 99), "freed with 99 \\(in the heap 'checked'\\)");
  void* q = session.allocate(100);
  EXPECT_DEATH(
      {
        session.deallocate(static_cast<char*>(q) + 16);
        session.release_memory();
      },
      "invalid free of 0x.*it points into an object.* \\(in the heap 'session'\\)");
  session.deallocate(q);
  EXPECT_DEATH(session.deallocate(q), "it was freed just before \\(in the heap 'session'\\)");
}

TEST_F(HeapDeathTest, TheMallocAndAHeapTellEachOthersBlocks) {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{300'000}, 4 * kMiB}) {
    void* ours = session.allocate(bytes);
    EXPECT_DEATH(deallocate(ours), "it belongs to the heap 'session', not to the malloc");
    void* theirs = allocate(bytes);
    EXPECT_DEATH(session.deallocate(theirs), "it belongs to the malloc, not to the heap 'session'");
    session.deallocate(ours);
    deallocate(theirs);
  }
}

TEST_F(HeapDeathTest, AHeapWithoutANameGoesByItsNumber) {
  Heap nameless;
  void* p = nameless.allocate(4 * kMiB);
  EXPECT_DEATH(cache.deallocate(p), "it belongs to heap [0-9]+, not to the heap 'cache'");
}

TEST_F(HeapDeathTest, ANameReachesNoTerminalAsAnEscape) {
  Heap escaping(named("\033[2J"));
  void* p = escaping.allocate(4 * kMiB);
  EXPECT_DEATH(cache.deallocate(p), "it belongs to the heap '\\?\\[2J', not to the heap 'cache'");
  char text[256];
  escaping.write_statistics(text, sizeof text);
  EXPECT_NE(std::string_view(text).find(" of the heap '?[2J' of"), std::string_view::npos) << text;
}

TEST_F(HeapDeathTest, ADoubleFreeIsFoundAsInTheMalloc) {
  void* small = session.allocate(100);
  session.deallocate(small);
  EXPECT_DEATH(session.deallocate(small), "double free of 0x");
  void* large = session.allocate(4 * kMiB);
  session.deallocate(large);
  EXPECT_DEATH(session.deallocate(large), "double free of 0x.*: the block is free already");
}

TEST_F(HeapDeathTest, ABlockOfAHeapThatHasEndedIsNobodys) {
  void* small;
  void* large;
  (void)session.allocate(100);
  {
    Heap ended(named("ended"));
    small = ended.allocate(100);
    large = ended.allocate(300'000);
  }
  EXPECT_DEATH(session.deallocate(small), "invalid free of 0x");
  EXPECT_DEATH(session.deallocate(large), "invalid free of 0x");
}

TEST_F(HeapDeathTest, FullChecksFindAnOverflow) {
  Heap::Options options = named("checked");
  options.checks = Heap::Checks::kFull;
  Heap checked(options);
  auto* p = static_cast<char*>(checked.allocate(100));
  EXPECT_DEATH(
      {
        p[100] = 1;
        checked.deallocate(p);
      },
      "overflow");
  auto* q = static_cast<char*>(checked.allocate(50));
  EXPECT_DEATH(checked.deallocate(q, 51), "51");
}

TEST_F(HeapDeathTest, WhatWasMovedFromHasNothingToFree) {
  void* p = session.allocate(100);
  Heap other = std::move(session);
  EXPECT_DEATH(session.deallocate(p), "invalid free of 0x.*: its heap was moved from");
  EXPECT_DEATH(static_cast<void>(session.reallocate(p, 10)),
               "invalid realloc of 0x.*: its heap was moved from");
  EXPECT_DEATH(static_cast<void>(session.resize_in_place(p, 10)),
               "invalid realloc of 0x.*: its heap was moved from");
  EXPECT_DEATH(static_cast<void>(session.usable_size(p)),
               "invalid malloc_usable_size of 0x.*: its heap was moved from");
}

}  // namespace
}  // namespace strata
