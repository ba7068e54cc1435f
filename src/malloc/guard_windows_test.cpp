// Guard pages in every program: which allocations they choose, and how they go together with
// everything else that may happen to a thread.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/lock.h"
#include "malloc/malloc_in_test.h"
#include "thread_cache/steps_in_test.h"

namespace strata {
namespace {

// Enough guards for a short test, and few enough that a refill seldom counts for two.
constexpr std::size_t kRate = 1 << 14;

Options with_rate(std::size_t rate, Options::Checks checks = Options::Checks::kBasic) {
  return {.checks = checks, .guard_rate = rate};
}

/// Numbers are drawn from a fixed seed (TestMalloc), so every run is the same.
struct GuardWindows : TestMalloc, ::testing::Test {
  void begin_guards(MallocInstance&, GuardPool& pool,
                    const GuardPool::Size& size) noexcept override {
    if (refuses_next_start) pages.refuse_call(1);
    EXPECT_EQ(pool.start(size), !refuses_next_start);
    refuses_next_start = false;
  }

  void start_at_rate(Options::Checks checks = Options::Checks::kBasic) {
    TestMalloc::start(with_rate(GuardWatcher::kLeastFreeRate, checks));
    malloc.guard_watcher().configure(kRate, 1, true);
  }

  /// Allocates `count` objects, none of which was freed into the bins before, and frees them in
  /// batches.
  /// \returns  how many were guarded
  std::size_t count_guards(std::size_t bytes, std::size_t count) {
    std::size_t guarded = 0;
    std::vector<void*> batch(std::min<std::size_t>(60'000, (std::size_t{32} << 20) / bytes));
    for (std::size_t done = 0; done < count; done += batch.size()) {
      for (void*& p : batch) {
        p = thread.allocate(bytes);
        if (malloc.guards().owns(p)) ++guarded;
      }
      for (void* p : batch) thread.deallocate(p);
      thread.state.cache->flush_all();
    }
    return guarded;
  }

  /// Allocates until a window is open.
  void open_window() {
    std::vector<void*> taken;
    while (!thread.state.is_in_window) {
      taken.push_back(thread.allocate(48));
      ASSERT_LT(taken.size(), 100 * kRate);
    }
    for (void* p : taken) thread.deallocate(p);
    ASSERT_TRUE(thread.state.is_in_window);
  }
  void* get_guarded(std::size_t bytes) {
    for (;;) {
      open_window();
      while (thread.state.is_in_window) {
        void* const p = thread.allocate(bytes);
        if (malloc.guards().owns(p)) return p;
        thread.deallocate(p);
      }
    }
  }

  bool refuses_next_start = false;
  TestThread thread{malloc};
};

TEST_F(GuardWindows, EveryClassHasTheSameChancePerObjectThatComesFromItsSpans) {
  start_at_rate();
  for (const std::size_t bytes : {16, 100, 512, 1024}) {
    // Slow paths count, too: at most one per 48 objects.
    const double expected = 12;
    const auto guarded = static_cast<double>(count_guards(bytes, 12 * kRate));
    EXPECT_GT(guarded, 0.4 * expected) << bytes;
    EXPECT_LT(guarded, 1.8 * expected) << bytes;
  }
  thread.end();
  check_nothing_is_left();
}

TEST_F(GuardWindows, SmallProgramsHaveNone) {
  start_at_rate();
  malloc.guard_watcher().configure(100, 1, true);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_NE(thread.allocate(64), nullptr);
    ASSERT_FALSE(thread.state.is_in_window);
  }
  EXPECT_FALSE(malloc.guards().objects().is_started());
  open_window();
  EXPECT_TRUE(malloc.guards().objects().is_started());
}

TEST_F(GuardWindows, APlaceThatNeverRefillsIsReachedByAnothersSlowPaths) {
  start_at_rate();
  std::map<std::size_t, std::size_t> guarded;
  std::vector<void*> batch(8'000);
  for (std::size_t done = 0; done < 8 * kRate; done += batch.size()) {
    for (void*& p : batch) {
      p = thread.allocate(32);
      if (malloc.guards().owns(p)) ++guarded[32];
      for (int i = 0; i < 9; ++i) {
        void* const hot = thread.allocate(200);
        if (malloc.guards().owns(hot)) ++guarded[200];
        thread.deallocate(hot);
      }
    }
    for (void* p : batch) thread.deallocate(p);
    thread.state.cache->flush_all();
  }
  EXPECT_GT(guarded[32], 0u);
  EXPECT_GT(guarded[200], 3 * guarded[32]) << "nine of ten allocations are of this size";
}

TEST_F(GuardWindows, WhatIsChosenIsAGuardedObjectToEveryCall) {
  start_at_rate();
  char* p = static_cast<char*>(get_guarded(100));
  EXPECT_FALSE(thread.state.is_in_window);
  EXPECT_EQ(&thread.state.for_malloc(), thread.state.free_bins);
  EXPECT_EQ(thread.usable_bytes(p), 100u);
  std::memset(p, 7, 100);
  p = static_cast<char*>(thread.reallocate(p, 3000));
  EXPECT_EQ(p[99], 7);
  thread.deallocate(p);
  EXPECT_EQ(malloc.guards().statistics().live_objects, 0u);
}

TEST_F(GuardWindows, WhatIsTooLargeIsServedAndEndsTheWindow) {
  start_at_rate();
  open_window();
  constexpr std::size_t kBytes = 100'000;
  if (GuardPool::kLeastSlotPages * os::page_bytes() >= kBytes)
    GTEST_SKIP() << "a slot of such OS pages holds it";
  while (thread.state.is_in_window) thread.deallocate(thread.allocate(kBytes));
  EXPECT_EQ(malloc.guards().statistics().allocations, 0u);
  EXPECT_EQ(&thread.state.for_malloc(), thread.state.free_bins);
}

TEST_F(GuardWindows, ThereAreNoneWhereNobodyWantsThemOrTheDetourGuards) {
  for (const std::size_t rate : {std::size_t{0}, GuardWatcher::kLeastFreeRate - 1}) {
    TestMalloc other;
    other.start(with_rate(rate));
    TestThread one(other.malloc);
    for (std::size_t i = 0; i < 8 * GuardWatcher::kLeastFreeRate; ++i) {
      ASSERT_NE(one.allocate(16), nullptr);
      ASSERT_FALSE(one.state.is_in_window);
    }
  }
}

TEST_F(GuardWindows, ThereAreNoneWhereTheHostHasNoGuards) {
  TestMalloc other;
  other.start(with_rate(GuardWatcher::kLeastFreeRate));
  TestThread one(other.malloc);
  for (std::size_t i = 0; i < 8 * GuardWatcher::kLeastFreeRate; ++i) {
    ASSERT_NE(one.allocate(16), nullptr);
    ASSERT_FALSE(one.state.is_in_window);
  }
}

/// Counts the allocations that it is offered: every one.
struct CountingWatcher : Watcher {
  std::int64_t draw_interval() noexcept override { return 0; }
  Engine::Block allocate(const Allocation&) noexcept override {
    ++offered;
    return {nullptr, false};
  }
  int offered = 0;
};

TEST_F(GuardWindows, AWatchThatBeginsEndsTheWindow) {
  start_at_rate();
  for (const Detour::Unit unit : {Detour::kByBytes, Detour::kByCalls}) {
    CountingWatcher watcher;
    open_window();
    malloc.detour().begin(unit, watcher);
    // As a window leaves them that opens while another thread begins the watch.
    ThreadState::write(thread.state.calls_left, 5);
    ThreadState::write(thread.state.bytes_left, INT64_MAX / 2);
    thread.deallocate(thread.allocate(100));
    EXPECT_FALSE(thread.state.is_in_window);
    EXPECT_EQ(watcher.offered, 1);
    thread.deallocate(thread.allocate(100));
    EXPECT_EQ(watcher.offered, 2);
    malloc.detour().end(unit);
    thread.deallocate(thread.allocate(100));
    EXPECT_EQ(&thread.state.for_malloc(), thread.state.free_bins);
  }
  EXPECT_EQ(malloc.guards().statistics().allocations, 0u);
}

#ifdef STRATA_HAS_STEPS

// For the handler, which takes no argument.
MallocInstance* g_watched_malloc;
ThreadState* g_watched_thread;
CountingWatcher* g_watcher;
int g_steps_left;
bool g_has_begun;

/// Begins a watch, once, after so many steps without a watch at which malloc finds no bins; as
/// another thread would while this one is stopped.
void begin_watch() {
  Detour& detour = g_watched_malloc->detour();
  const bool finds_bins = &g_watched_thread->for_malloc() == g_watched_thread->free_bins;
  if (g_has_begun || detour.is_on() || finds_bins || is_any_lock_held_here()) return;
  if (--g_steps_left >= 0) return;
  g_has_begun = true;
  detour.begin(Detour::kByBytes, *g_watcher);
}

struct GuardWindowsAtEachStep : GuardWindows {
  /// Makes an allocation again and again; each time the watch begins at another of its
  /// instructions.
  /// \param prepare  what to do before each
  template <typename Prepare>
  void expect_no_loss(CountingWatcher& watcher, Prepare prepare) {
    g_watched_malloc = &malloc;
    g_watched_thread = &thread.state;
    g_watcher = &watcher;
    for (int steps = 0;; ++steps) {
      prepare();
      g_steps_left = steps;
      g_has_begun = false;
      void* p = nullptr;
      run_in_steps(begin_watch, [&] { p = thread.allocate(100); });
      thread.deallocate(p);
      if (!g_has_begun) break;
      watcher.offered = 0;
      thread.deallocate(thread.allocate(100));
      EXPECT_EQ(watcher.offered, 1) << steps;
      malloc.detour().end(Detour::kByBytes);
      thread.deallocate(thread.allocate(100));
    }
  }
};

TEST_F(GuardWindowsAtEachStep, AWatchThatBeginsAsAWindowEndsSeesEveryLaterAllocation) {
  static CountingWatcher watcher;
  start_at_rate();
  expect_no_loss(watcher, [&] {
    open_window();
    ThreadState::write(thread.state.calls_left, 0);  // the next allocation ends it
  });
}

TEST_F(GuardWindowsAtEachStep, AWatchThatBeginsAsOneBeforeHasEndedSeesEveryLaterAllocation) {
  struct EndingWatcher : CountingWatcher {
    Engine::Block allocate(const Allocation& allocation) noexcept override {
      if (ends_itself) g_watched_malloc->detour().end(Detour::kByBytes);
      ends_itself = false;
      return CountingWatcher::allocate(allocation);
    }
    bool ends_itself = false;
  };
  static EndingWatcher watcher;
  start_at_rate();
  thread.deallocate(thread.allocate(100));
  expect_no_loss(watcher, [&] {
    watcher.ends_itself = true;
    malloc.detour().begin(Detour::kByBytes, watcher);
  });
}

#endif

TEST_F(GuardWindows, AThreadThatEndsInAWindowLeavesIt) {
  start_at_rate();
  open_window();
  thread.end();
  EXPECT_FALSE(thread.state.is_in_window);
  thread.deallocate(thread.allocate(100));
  check_nothing_is_left();
}

TEST_F(GuardWindows, VerifiedFreesHaveThem) {
  start_at_rate(Options::Checks::kFrees);
  void* const p = get_guarded(100);
  EXPECT_EQ(&thread.state.for_malloc(), thread.state.free_bins);
  thread.deallocate(p);
  EXPECT_DEATH(thread.deallocate(p), "double free of 0x[0-9a-f]+: the object is free already");
}

/// Allocates blocks beyond the size classes; frees each before the next.
/// \returns  how many of `count` were guarded
std::size_t count_guarded_blocks(MallocInstance& malloc, TestThread& thread, std::size_t count) {
  std::size_t guarded = 0;
  for (std::size_t i = 0; i < count; ++i) {
    void* const p = thread.allocate(250'000);
    EXPECT_NE(p, nullptr);
    guarded += malloc.guards().owns(p) ? 1 : 0;
    thread.deallocate(p);
  }
  return guarded;
}

TEST_F(GuardWindows, GuardTheFirstBlockBeyondTheSizeClassesAndSomeLaterOnes) {
  start_at_rate();
  EXPECT_EQ(count_guarded_blocks(malloc, thread, 1), 1u);
  const std::size_t guarded = count_guarded_blocks(malloc, thread, 10'000);
  EXPECT_GE(guarded, 1u);
  EXPECT_LE(guarded, 10u);
  const std::size_t later = count_guarded_blocks(malloc, thread, 200'000);
  EXPECT_GE(later, 4u) << "12 are expected";
  EXPECT_LE(later, 30u);
  EXPECT_FALSE(malloc.guards().objects().is_started()) << "small programs have no others";
  thread.end();
  check_nothing_is_left();
}

TEST_F(GuardWindows, ABlockThatIsChosenWhereGuardsHaveNoRoomIsServedLikeAnyOther) {
  start_at_rate();
  void* const guarded = thread.allocate(250'000);
  ASSERT_TRUE(malloc.guards().owns(guarded)) << "it takes all the room";
  EXPECT_EQ(count_guarded_blocks(malloc, thread, 10'000), 0u);
  thread.deallocate(guarded);
  thread.end();
  check_nothing_is_left();
}

TEST_F(GuardWindows, AStartThatWasRefusedIsTriedAgain) {
  start_at_rate();
  refuses_next_start = true;
  EXPECT_EQ(count_guarded_blocks(malloc, thread, 1), 0u);
  EXPECT_FALSE(refuses_next_start);
  EXPECT_GE(count_guarded_blocks(malloc, thread, 10'000), 1u);
  refuses_next_start = true;
  open_window();
  EXPECT_FALSE(refuses_next_start);
  EXPECT_TRUE(malloc.guards().objects().is_started());
}

TEST_F(GuardWindows, ThePoolOfBlocksIsAskedForAgainWhereGuardsAreAskedFor) {
  TestMalloc::start();
  ASSERT_TRUE(malloc.begin_guards(1, 1));
  pages.refuse_call(1);
  void* const first = thread.allocate(200'000);
  void* const second = thread.allocate(200'000);
  EXPECT_FALSE(malloc.guards().owns(first));
  EXPECT_TRUE(malloc.guards().owns(second));
  thread.deallocate(first);
  thread.deallocate(second);
}

TEST_F(GuardWindows, BlocksThatAreGuardedUnaskedTakeAQuarterOfAMiBAtMost) {
  constexpr std::size_t kMost = std::size_t{256} << 10;
  start_at_rate();
  thread.deallocate(thread.allocate(640'000));
  EXPECT_EQ(statistics().guards.allocations, 0u) << "its memory would be missed when it is freed";
  std::vector<void*> live;
  for (std::size_t i = 0; i < 300; ++i) {
    live.push_back(thread.allocate(170'000 + 1000 * (i % 90)));
    ASSERT_LE(statistics().guards.live_bytes, kMost);
  }
  void* const first = live.front();
  EXPECT_TRUE(malloc.guards().owns(first)) << "larger ones before it do not count";
  const std::size_t held = engine.limit().held_bytes();
  const std::size_t pages_of_it = statistics().guards.live_bytes;
  thread.deallocate(first);
  EXPECT_EQ(engine.limit().held_bytes(), held - pages_of_it) << "freed ones take nothing";
  for (std::size_t i = 1; i < live.size(); ++i) thread.deallocate(live[i]);
  thread.end();
  check_nothing_is_left();
}

TEST_F(GuardWindows, AGuardedBlockIsOneToEveryCall) {
  start_at_rate();
  auto* const p = static_cast<char*>(thread.allocate_zeroed(200'000));
  ASSERT_TRUE(malloc.guards().owns(p));
  EXPECT_EQ(thread.usable_bytes(p), 200'000u);
  EXPECT_FALSE(malloc.resize_in_place(p, 200'001));
  std::memset(p, 7, 200'000);
  auto* const q = static_cast<char*>(thread.reallocate(p, 5'000'000));
  ASSERT_NE(q, nullptr);
  EXPECT_FALSE(malloc.guards().owns(q)) << "there are no slots of its size";
  EXPECT_EQ(q[199'999], 7);
  EXPECT_DEATH(thread.deallocate(p), "double free of 0x[0-9a-f]+: the object is free already");
  thread.deallocate(q);
  thread.end();
  check_nothing_is_left();
}

TEST_F(GuardWindows, AGuardNobodyAskedForDoesNotLookAtHowABlockIsFreed) {
  start_at_rate(Options::Checks::kAuto);
  void* const p = malloc.allocate_slowly(thread.state, 200'000, Allocation::By::kNewArray);
  ASSERT_TRUE(malloc.guards().owns(p));
  malloc.deallocate(thread.state, p, deleting(1));
  EXPECT_DEATH(thread.deallocate(p), "double free of 0x[0-9a-f]+: the object is free already");
}

TEST_F(GuardWindows, ABlockOfAlignedNewIsKnownAsOneHoweverSmallItsAlignment) {
  Options options = with_rate(GuardWatcher::kLeastFreeRate, Options::Checks::kFrees);
  options.mismatches = Options::Mismatches::kAll;
  TestMalloc::start(options);
  constexpr std::size_t kBytes = 200 * 1024;
  void* const p = malloc.allocate_aligned(thread.state, 16, kBytes, Allocation::By::kNew);
  ASSERT_TRUE(malloc.guards().owns(p));
  malloc.deallocate(thread.state, p, deleting(kBytes, 16));
}

TEST_F(GuardWindows, NoBlockIsGuardedWhereNobodyWantsThat) {
  TestMalloc::start(with_rate(0));
  EXPECT_EQ(count_guarded_blocks(malloc, thread, 1000), 0u);
  EXPECT_FALSE(malloc.guards().blocks().is_started());
}

TEST_F(GuardWindows, FullChecksGuardAllBlocksThatFindRoom) {
  start_at_rate(Options::Checks::kFull);
  std::vector<void*> live(1100);
  for (void*& p : live) p = thread.allocate(170'000);
  std::size_t guarded = 0;
  for (void* p : live) guarded += malloc.guards().owns(p) ? 1 : 0;
  EXPECT_EQ(guarded, GuardPool::kForBlocks.slots);
  // The other blocks are checked as without guards.
  EXPECT_EQ(thread.usable_bytes(live.back()), 170'000u);
  static_cast<char*>(live.back())[170'000] ^= 1;
  EXPECT_DEATH(thread.deallocate(live.back()), "overflow of 0x[0-9a-f]+: the program wrote");
  static_cast<char*>(live.back())[170'000] ^= 1;
  for (void* p : live) thread.deallocate(p);
  check_nothing_is_left();
}

TEST_F(GuardWindows, AtTheEndOfTheProcessWhatIsAroundLiveObjectsIsVerified) {
  start_at_rate();
  auto* const p = static_cast<char*>(thread.allocate(200'000));
  ASSERT_TRUE(malloc.guards().owns(p));
  malloc.verify_at_exit(thread.state);
  p[200'000] ^= 1;
  EXPECT_DEATH(malloc.verify_at_exit(thread.state), "overflow of 0x[0-9a-f]+: the program wrote");
  p[200'000] ^= 1;
  thread.deallocate(p);
}

}  // namespace
}  // namespace strata
