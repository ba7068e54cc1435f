#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "malloc/malloc_instance.h"
#include "malloc/statistics.h"
#include "os/fake_page_source.h"

namespace strata {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// What operator delete and free_sized say about a block.
constexpr FreeCall deleting(std::size_t bytes, std::size_t alignment = FreeCall::kUnsaid) {
  return {FreeCall::By::kDelete, bytes, alignment};
}
constexpr FreeCall freeing(std::size_t bytes, std::size_t alignment = FreeCall::kUnsaid) {
  return {FreeCall::By::kFree, bytes, alignment};
}

/// A malloc over the test's page source, beside the process's own.
struct TestMalloc : MallocHost {
  bool start(MallocInstance& starting) noexcept override { return starting.start(started_with, 1); }
  /// Every TestThread reports its end by itself.
  bool follow_thread(ThreadCache&) noexcept override { return true; }

  /// \param delay_ms  0: no thread is started, which would outlive the test
  static Options with_delay(Options options, std::size_t delay_ms) {
    options.release_delay_ms = delay_ms;
    return options;
  }
  void start(Options with = {}, std::size_t delay_ms = 0) {
    started_with = with_delay(with, delay_ms);
    ASSERT_TRUE(start(malloc));
  }

  Statistics statistics() { return collect_statistics(malloc); }

  /// Checks that, at rest, every byte is in exactly one place.
  void check() {
    engine.check_invariants();
    const Statistics now = statistics();
    ASSERT_EQ(now.mapped, now.live + now.cached + now.free() + now.metadata + now.returned());
    ASSERT_EQ(now.limit.held, now.mapped - now.returned());
    ASSERT_EQ(pages.mapped_bytes(), now.mapped + now.page_map);
  }

  /// Checks that nothing is left, after the program freed everything and its threads ended.
  void check_nothing_is_left() {
    malloc.checked().flush_quarantine();
    engine.release_all();
    check();
    const Statistics now = statistics();
    EXPECT_EQ(now.live, 0u);
    EXPECT_EQ(now.cached, 0u);
    EXPECT_EQ(now.in_spans, 0u);
    EXPECT_EQ(now.idle, 0u);
    EXPECT_EQ(now.mapped, now.metadata + now.clean + now.empties + now.guards.reserved_bytes);
    EXPECT_EQ(now.huge_blocks, 0u);
    EXPECT_EQ(now.threads, 0u);
  }

  os::FakePageSource pages;
  Options started_with = with_delay({}, 0);
  std::unique_ptr<SpareMemory> spare = std::make_unique<SpareMemory>();
  std::unique_ptr<PageMap> map = std::make_unique<PageMap>();
  std::unique_ptr<MallocInstance> owned =
      std::make_unique<MallocInstance>(Engine::Ground{pages}, *map, *spare, *this);
  MallocInstance& malloc = *owned;
  Engine& engine = malloc.engine();
};

/// A thread of a program that uses a malloc.
/// \threads  any, but one at a time
class TestThread {
 public:
  explicit TestThread(MallocInstance& malloc) : malloc_(malloc) {}
  ~TestThread() { end(); }
  TestThread(const TestThread&) = delete;
  TestThread& operator=(const TestThread&) = delete;

  void end() { malloc_.end_thread(state); }

  void* allocate(std::size_t bytes) { return malloc_.allocate(state, bytes); }
  void* allocate(std::size_t bytes, std::size_t alignment) {
    return malloc_.allocate_aligned(state, alignment, bytes);
  }
  void* allocate_zeroed(std::size_t bytes) { return malloc_.allocate_zeroed(state, 1, bytes); }
  void deallocate(void* p) { malloc_.deallocate(state, p); }
  void* reallocate(void* p, std::size_t bytes) { return malloc_.reallocate(state, p, bytes); }
  std::size_t usable_bytes(const void* p) { return malloc_.usable_bytes(p); }
  /// From now on no object is of a larger class than its own: the thread has had more than a few of
  /// each class.
  void use_every_class() {
    for (unsigned c = 1; SizeClassMap::bytes_of(c) <= 2048; ++c) {
      std::array<void*, 16> objects;
      for (void*& object : objects) object = allocate(SizeClassMap::bytes_of(c));
      for (void* const object : objects) deallocate(object);
    }
  }

  ThreadState state = MallocInstance::new_thread();

 private:
  MallocInstance& malloc_;
};

}  // namespace strata
