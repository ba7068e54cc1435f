// Signal handlers that use a heap while the interrupted call holds a lock of the heap, and what
// other threads do between two instructions of a call.

#include <strata/heap.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/lock.h"
#include "thread_cache/steps_in_test.h"
#include "user_heap/heap_table.h"

namespace strata {
namespace {

#ifdef STRATA_HAS_STEPS

constexpr int kEvery = 11;
constexpr std::size_t kBytes = 64;
Heap* g_heap;
int g_steps_left;
std::vector<void*> g_kept;

Heap::SizeClass size_class() { return Heap::size_class_of(kBytes); }

/// Uses the heap at one of many instructions, and keeps what it gets: raw blocks, whose free is not
/// told where they lie.
void use_heap() {
  if (!is_any_lock_held_here() || --g_steps_left >= 0) return;
  g_steps_left = kEvery - 1;
  if (g_kept.size() == g_kept.capacity()) return;
  if (void* const p = g_heap->allocate_raw(size_class())) g_kept.push_back(p);
}

TEST(InterruptedHeap, NoBlockIsHandedOutTwiceAtWhicheverInstructionItIs) {
  for (int first = 0; first < kEvery; ++first) {
    Heap heap;
    g_heap = &heap;
    g_kept.clear();
    g_kept.reserve(1000);
    std::set<void*> blocks;
    for (int i = 0; i < 30; ++i) blocks.insert(heap.allocate(kBytes));
    for (void* p : blocks) heap.deallocate(p);
    blocks.clear();
    g_steps_left = first;
    run_in_steps(use_heap, [&] { heap.release_memory(); });
    ASSERT_FALSE(g_kept.empty());
    for (void* p : g_kept) ASSERT_TRUE(blocks.insert(p).second) << "handed out twice";
    for (int i = 0; i < 200; ++i)
      ASSERT_TRUE(blocks.insert(heap.allocate(kBytes)).second) << "handed out twice";
    for (void* p : g_kept) {
      heap.deallocate_raw(p, size_class());
      blocks.erase(p);
    }
    for (void* p : blocks) heap.deallocate(p);
    heap.release_memory();
    heap.check_invariants();
    EXPECT_EQ(heap.statistics().live, 0u);
  }
}

int g_tries;
int g_successes;

/// Tries to make a heap, to reset one, and to start a profile.
void make_heap() {
  if (!is_any_lock_held_here()) return;
  ++g_tries;
  const char* reason = nullptr;
  const bool is_made = Heap::try_create({}, &reason).has_value();
  const bool has_profile = Heap::start_profile(1);
  if (is_made || has_profile || reason == nullptr) ++g_successes;
  g_heap->reset();
  Heap::stop_profile();
}

TEST(InterruptedHeap, AHandlerThatMakesAHeapWhereALockIsHeldIsRefusedAndDoesNotWait) {
  Heap heap;
  g_heap = &heap;
  g_tries = g_successes = 0;
  run_in_steps(make_heap, [&] {
    Heap other;
    (void)other.allocate(kBytes);
  });
  EXPECT_GT(g_tries, 0);
  EXPECT_EQ(g_successes, 0);
  run_in_steps(make_heap, [&] { (void)heap.allocate(kBytes); });
  heap.check_invariants();
}

// A profile at rate 1 samples every allocation from its start on.

std::uint64_t sampled_objects() {
  std::uint64_t all = 0;
  SiteTable& sites = g_heap_table.profile().sites();
  for (std::uint32_t id = 1; id <= sites.count(); ++id) {
    all += sites.site(id).sums().allocated_objects;
  }
  return all;
}

void expect_samples_of(Heap& heap) {
  const std::uint64_t before = sampled_objects();
  for (int i = 0; i < 3; ++i) heap.deallocate(heap.allocate(kBytes));
  EXPECT_EQ(sampled_objects(), before + 3);
}

bool g_has_profile;

/// Starts the profile once, after so many steps; as another thread would while this one is stopped.
void start_profile() {
  if (g_has_profile || is_any_lock_held_here() || --g_steps_left >= 0) return;
  g_has_profile = Heap::start_profile(1);
}

TEST(InterruptedHeap, AProfileTakesEveryLaterAllocationAtWhicheverInstructionItBegins) {
  ASSERT_TRUE(Heap::start_profile(1));  // what is done once is done
  Heap::stop_profile();
  Heap heap;
  void* p = heap.allocate(kBytes);
  for (int steps = 0;; ++steps) {
    heap.deallocate(heap.allocate(kBytes));  // the thread's bins are in its table
    g_steps_left = steps;
    g_has_profile = false;
    run_in_steps(start_profile, [&] { p = heap.reallocate(p, kBytes); });
    if (!g_has_profile) break;
    SCOPED_TRACE(steps);
    expect_samples_of(heap);
    Heap::stop_profile();
  }
  heap.deallocate(p);
}

std::atomic<bool> g_is_others_turn;
bool g_had_others_turn;

/// As soon as the heap has its malloc, lets another thread run until that says that it is done.
void let_another_go_on() {
  if (g_had_others_turn || is_any_lock_held_here()) return;
  {
    LockGuard guard(g_heap_table.lock());
    if (g_heap_table.next_made(0) == nullptr) return;
  }
  g_had_others_turn = g_is_others_turn = true;
  while (g_is_others_turn) std::this_thread::yield();
}

TEST(InterruptedHeap, AProfileTakesEveryAllocationOfAHeapThatItsFirstCallIsStillMaking) {
  ASSERT_TRUE(Heap::start_profile(1));
  Heap heap;
  g_is_others_turn = g_had_others_turn = false;
  std::thread other([&] {
    while (!g_is_others_turn) std::this_thread::yield();
    expect_samples_of(heap);
    g_is_others_turn = false;
    while (!g_is_others_turn) std::this_thread::yield();
    expect_samples_of(heap);
  });
  run_in_steps(let_another_go_on, [&] { static_cast<void>(heap.allocate(kBytes)); });
  EXPECT_TRUE(g_had_others_turn);
  g_is_others_turn = true;
  other.join();
  expect_samples_of(heap);
  Heap::stop_profile();
}

#endif

}  // namespace
}  // namespace strata
