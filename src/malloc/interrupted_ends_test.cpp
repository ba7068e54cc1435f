// Signal handlers that allocate while their thread gets its cache, or gives it up.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "base/fork_in_test.h"
#include "base/lock.h"
#include "malloc/hot_path.h"
#include "malloc/malloc_in_test.h"
#include "malloc/options.h"
#include "thread_cache/steps_in_test.h"

namespace strata {
namespace {

#ifdef STRATA_HAS_STEPS

constexpr std::size_t kObjectBytes = 64;
constexpr std::size_t kMostParked = 16;

// For the handler, which takes no argument.
MallocInstance* g_malloc_in_test;
TestThread* g_thread;  // the one that it interrupts
TestThread* g_other;
int g_steps;
int g_steps_after;
void* g_allocated;
void* g_popped;

struct InterruptedEndsTest : ::testing::Test, TestMalloc {
  InterruptedEndsTest() {
    start({.checks = Options::Checks::kBasic});
    g_malloc_in_test = &malloc;
    g_steps = g_steps_after = 0;
    g_allocated = g_popped = nullptr;
  }
  ThreadRegistry& registry() { return engine.registry(); }
  void warm(TestThread& thread) {
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(thread.allocate(kObjectBytes));
    for (void* block : blocks) thread.deallocate(block);
  }
};

/// Starts another thread's use of the malloc as soon as it can get the cache of the thread that
/// ends.
void begin_other() {
  if (is_any_lock_held_here()) return;
  if (g_allocated == nullptr) {
    if (g_malloc_in_test->engine().registry().live_threads() == 0)
      g_allocated = g_other->allocate(kObjectBytes);
  } else {
    ++g_steps_after;
    if (g_popped == nullptr) g_popped = HotPath::pop(g_thread->state, kObjectBytes);
  }
}

TEST_F(InterruptedEndsTest, AThreadThatEndsUsesNoCacheThatAnotherMayHave) {
  std::vector<std::unique_ptr<TestThread>> threads;
  for (std::size_t i = 0; i < kMostParked + 1; ++i) {
    threads.push_back(std::make_unique<TestThread>(malloc));
    warm(*threads.back());
  }
  TestThread& thread = *threads.back();
  TestThread other(malloc);
  for (std::size_t i = 0; i < kMostParked; ++i) threads[i]->end();
  ThreadCache* const cache = thread.state.cache;
  g_thread = &thread;
  g_other = &other;
  run_in_steps(begin_other, [&] { thread.end(); });
  EXPECT_EQ(other.state.cache, cache);
  EXPECT_GT(g_steps_after, 0);
  EXPECT_EQ(g_popped, nullptr) << "from another thread's cache";
  other.deallocate(g_allocated);
}

/// Allocates once, after so many steps.
void allocate_once() {
  if (is_any_lock_held_here() || g_allocated != nullptr || --g_steps >= 0) return;
  g_allocated = g_thread->allocate(kObjectBytes);
}

TEST_F(InterruptedEndsTest, AThreadHasOneCacheWhereverItsFirstAllocationIsInterrupted) {
  {
    TestThread first(malloc);
    warm(first);
  }
  for (int steps = 0;; ++steps) {
    g_steps = steps;
    g_allocated = nullptr;
    TestThread thread(malloc);
    g_thread = &thread;
    run_in_steps(allocate_once, [&] { thread.allocate(kObjectBytes); });
    if (g_allocated == nullptr) break;
    ASSERT_EQ(registry().live_threads(), 1u) << steps;
    ASSERT_NE(thread.state.cache, nullptr);
  }
  EXPECT_EQ(registry().live_threads(), 0u);
}

/// Once, after so many steps, goes on as the child of a fork, in which this is the only thread.
void fork_once() STRATA_NO_THREAD_SAFETY_ANALYSIS {
  if (is_any_lock_held_here() || g_steps < 0 || --g_steps >= 0) return;
  fork_as_child(*g_malloc_in_test);
  g_malloc_in_test->reset_after_fork(g_thread->state);
}

TEST_F(InterruptedEndsTest, AChildCountsItsThreadOnceWhereverThatForkedInItsFirstAllocation) {
  {
    TestThread first(malloc);
    warm(first);
  }
  do {
    const int steps = g_steps_after++;
    g_steps = steps;
    TestThread thread(malloc);
    g_thread = &thread;
    run_in_steps(fork_once, [&] { thread.allocate(kObjectBytes); });
    ASSERT_EQ(registry().live_threads(), 1u) << steps;
    thread.end();
    ASSERT_EQ(registry().live_threads(), 0u) << steps;
  } while (g_steps < 0);
}

#endif

}  // namespace
}  // namespace strata
