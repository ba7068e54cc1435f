// Signal handlers that allocate and free in the middle of a cache's slow paths.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "base/lock.h"
#include "thread_cache/fake_thread.h"
#include "thread_cache/steps_in_test.h"

namespace strata {
namespace {

constexpr std::size_t kCacheBudget = std::size_t{32} << 20;
constexpr unsigned kClass = 4;

/// A page source that calls a function in the middle of a refill, as a signal handler may be
/// called.
struct InterruptedPages : os::FakePageSource {
  void (*handler)() = nullptr;
  int interruptions = 0;

  void interrupt() {
    if (handler == nullptr) return;
    ++interruptions;
    handler();
  }
  os::MapAt map_at(void* address, std::size_t bytes) noexcept override {
    interrupt();
    return FakePageSource::map_at(address, bytes);
  }
  void* map_aligned(std::size_t bytes, std::size_t alignment) noexcept override {
    interrupt();
    return FakePageSource::map_aligned(bytes, alignment);
  }
};

/// What the thread's malloc and free find on their hot paths.
ThreadState g_thread{};
void* pop_at_once() { return g_thread.for_malloc().pop(kClass); }
bool push_at_once(void* object) { return g_thread.free_bins->push(kClass, object); }

struct InterruptedTest : ::testing::Test {
  InterruptedPages pages;
  FakeAddressSpace space{pages};
  std::unique_ptr<Central> central = std::make_unique<Central>(space.spans, space.metadata);
  ThreadRegistry registry{*central, space.heap, space.metadata, kCacheBudget};
  ThreadCache& cache = *registry.adopt();

  InterruptedTest() {
    g_thread = {};
    registry.enroll(cache, g_thread);
  }
  std::size_t claimed() { return central->statistics(kClass).spans.claimed_objects; }
};

TEST_F(InterruptedTest, ABinThatIsBeingFilledLooksEmptyAndFull) {
  pages.handler = [] {
    static int object;
    EXPECT_TRUE(is_any_lock_held_here());
    EXPECT_EQ(pop_at_once(), nullptr);
    EXPECT_FALSE(push_at_once(&object));
    EXPECT_EQ(g_thread.verified_bins->pop(kClass), nullptr);
  };
  std::set<void*> objects;
  while (pages.interruptions == 0) {
    ASSERT_TRUE(objects.insert(allocate_from(cache, kClass)).second) << "handed out twice";
  }
  pages.handler = nullptr;
  EXPECT_FALSE(is_any_lock_held_here());
  while (void* object = pop_at_once()) {
    EXPECT_TRUE(objects.insert(object).second) << "handed out twice";
  }
  for (void* object : objects) deallocate_into(cache, kClass, object);
  cache.flush_all();
  EXPECT_EQ(claimed(), 0u);
}

#ifdef STRATA_HAS_STEPS

// The handler uses the bins at one of so many instructions: the processor takes a step between two
// calls of it. It keeps the objects that it popped and could not push again.
constexpr int kEvery = 11;
int g_steps_left = 0;
std::vector<void*> g_kept;

void on_step() {
  if (--g_steps_left >= 0) return;
  g_steps_left = kEvery - 1;
  if (!g_kept.empty() && push_at_once(g_kept.back())) {
    g_kept.pop_back();
  } else if (void* const object = pop_at_once()) {
    g_kept.push_back(FreeObject(object).address());
  }
}

TEST_F(InterruptedTest, NothingIsFreedTwiceAtWhicheverInstructionItIs) {
  g_kept.reserve(1000);
  for (int first = 0; first < kEvery; ++first) {
    std::set<void*> objects;
    for (int i = 0; i < 30; ++i) objects.insert(allocate_from(cache, kClass));
    for (void* object : objects) deallocate_into(cache, kClass, object);
    objects.clear();
    g_steps_left = first;
    run_in_steps(on_step, [&] { cache.flush_all(); });
    // The objects that the handler kept belong to it: nobody else gets them.
    for (void* object : g_kept) ASSERT_TRUE(objects.insert(object).second) << "popped twice";
    for (int i = 0; i < 100; ++i)
      ASSERT_TRUE(objects.insert(allocate_from(cache, kClass)).second) << "handed out twice";
    for (void* object : objects) deallocate_into(cache, kClass, object);
    g_kept.clear();
    cache.flush_all();
    ASSERT_EQ(claimed(), 0u) << "lost";
  }
}

// The handler plays a thread that takes over the whole cache, once.
ThreadCache* g_taken_over = nullptr;

TEST_F(InterruptedTest, ALargeObjectIsPoppedOrTakenOverAtWhicheverInstructionItIs) {
  constexpr unsigned kLarge = SizeClassMap::class_of(40 * 1024);
  static_assert(ObjectBins::is_exchanged(kLarge));
  const auto claimed_large = [&] {
    const Central::ClassStatistics now = central->statistics(kLarge);
    return now.spans.claimed_objects - now.in_transfer;
  };
  int popped = 0;
  int taken = 0;
  int when = 0;
  do {
    deallocate_into(cache, kLarge, allocate_from(cache, kLarge));
    g_taken_over = &cache;
    g_steps_left = when++;
    void* object = nullptr;
    run_in_steps(
        [] {
          if (g_steps_left-- != 0) return;
          void* room[64];
          g_taken_over->take_over(ThreadCache::Owners::kAll, room, 64, [] { return true; });
        },
        [&] { object = cache.pop(kLarge); });
    cache.flush_all();
    ++(object != nullptr ? popped : taken);
    EXPECT_EQ(claimed_large(), object != nullptr ? 1u : 0u) << when << ": lost, or in two places";
    if (object != nullptr) deallocate_into(cache, kLarge, object);
  } while (g_steps_left < 0);  // until the pop ends before that step
  EXPECT_GT(popped, 0);
  EXPECT_GT(taken, 0);
}

#endif

}  // namespace
}  // namespace strata
