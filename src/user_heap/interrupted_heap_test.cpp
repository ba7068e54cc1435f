// Signal handlers that use a heap while the call that they interrupt holds a lock of it.

#include <strata/heap.hpp>

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/lock.h"
#include "thread_cache/steps_in_test.h"

namespace strata {
namespace {

#ifdef STRATA_HAS_STEPS

constexpr int kEvery = 11;
constexpr std::size_t kBytes = 64;
Heap* g_heap;
int g_steps_left;
std::vector<void*> g_kept;

Heap::SizeClass size_class() { return Heap::size_class_of(kBytes); }

/// Uses the heap at one instruction of many, and keeps what it gets: raw blocks, whose
/// free is told nothing of where they lie.
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

#endif

}  // namespace
}  // namespace strata
