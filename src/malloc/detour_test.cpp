#include "malloc/detour.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <latch>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/run_together_test.h"
#include "base/seeded_test.h"
#include "guard/pattern.h"
#include "malloc/process.h"
#include "malloc/statistics.h"

// These tests use the process's own detour: each ends its watch and frees what it allocated.

namespace strata {
namespace {

/// Takes every allocation that it is offered, and notes what it was told.
class Notebook : public Watcher {
 public:
  explicit Notebook(std::int64_t interval) : interval_(interval) {}

  std::int64_t draw_interval() noexcept override { return interval_; }

  Engine::Block allocate(const Allocation& allocation) noexcept override {
    const std::size_t bytes = allocation.bytes;
    const std::size_t alignment = allocation.alignment;
    // An allocation by a watcher must not come back to the watcher.
    deallocate_slowly(strata::allocate(100), nullptr);
    const unsigned size_class = SizeClassMap::class_of_aligned(bytes, alignment);
    const Engine::Block block = size_class != 0
                                    ? g_malloc.engine().allocate_watched(size_class)
                                    : g_malloc.engine().allocate_large(bytes, alignment);
    if (block.address != nullptr) note(block.address, bytes);
    return block;
  }
  void adopt(void* p, std::size_t bytes) noexcept override { note(p, bytes); }

  std::size_t chosen() {
    std::lock_guard guard(mutex_);
    return chosen_;
  }
  /// The bytes that were last requested at `p`; -1 if it took nothing there.
  std::ptrdiff_t bytes_at(void* p) {
    std::lock_guard guard(mutex_);
    const auto it = taken_.find(p);
    return it == taken_.end() ? -1 : static_cast<std::ptrdiff_t>(it->second);
  }

 private:
  void note(void* p, std::size_t bytes) {
    std::lock_guard guard(mutex_);
    ++chosen_;
    taken_[p] = bytes;
  }

  const std::int64_t interval_;
  std::mutex mutex_;
  std::map<void*, std::size_t> taken_;
  std::size_t chosen_ = 0;
};

/// A watch that lasts to the end of the C++ block.
class Watch {
 public:
  Watch(Detour::Unit unit, Watcher& watcher) : unit_(unit) {
    g_malloc.detour().begin(unit, watcher);
  }
  ~Watch() { end(); }
  void end() { g_malloc.detour().end(unit_); }

 private:
  Detour::Unit unit_;
};

/// Notebooks outlive the tests, since their blocks may be freed at any time.
Notebook& new_notebook(std::int64_t interval) {
  static auto* const all = new std::deque<Notebook>;
  return all->emplace_back(interval);
}

TEST(Detour, EveryAllocationOfEveryKindReachesAWatcherOfAll) {
  Notebook& notebook = new_notebook(0);
  Watch watch(Detour::kByCalls, notebook);
  const auto expect_watched = [&](void* p, std::size_t bytes) {
    EXPECT_EQ(notebook.bytes_at(p), static_cast<std::ptrdiff_t>(bytes));
    EXPECT_GE(usable_bytes(p), bytes);
    EXPECT_EQ(g_malloc.engine().class_of(p), 0u) << "free would not see it";
    std::memset(p, 0x5a, bytes);
  };
  std::vector<void*> blocks;
  for (std::size_t bytes :
       {0, 1, 100, 1024, 1025, 5000, 131'072, 131'073, 163'840, 163'841, 700'000, 3'000'000}) {
    blocks.push_back(allocate(bytes));
    expect_watched(blocks.back(), bytes);
    blocks.push_back(allocate_zeroed(1, bytes));
    for (std::size_t i = 0; i < bytes; ++i)
      ASSERT_EQ(static_cast<char*>(blocks.back())[i], 0) << bytes;
    expect_watched(blocks.back(), bytes);
    for (std::size_t alignment : {32, 4096, 1 << 20}) {
      blocks.push_back(allocate_aligned(alignment, bytes));
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % alignment, 0u);
      expect_watched(blocks.back(), bytes);
    }
  }
  void* p = allocate(10);
  for (std::size_t bytes : {60, 50'000, 60'000, 200'000, 210'000, 3'000'000, 20'000'000, 40}) {
    p = reallocate(p, bytes);
    if (bytes != 60'000) expect_watched(p, bytes);  // stays where it is, as realloc does
  }
  blocks.push_back(p);
  for (void* block : blocks) deallocate(block);
  g_malloc.engine().check_invariants();
}

TEST(Detour, OneInSoManyCallsIsChosen) {
  Notebook& notebook = new_notebook(9);
  Watch watch(Detour::kByCalls, notebook);
  std::thread([&] {
    std::vector<void*> blocks;
    for (int i = 1; i <= 1000; ++i) {
      blocks.push_back(allocate(40));
      ASSERT_EQ(notebook.chosen(), static_cast<std::size_t>(i / 10));
    }
    for (void* p : blocks) deallocate(p);
  }).join();
}

TEST(Detour, OneInSoManyBytesIsChosen) {
  Notebook& notebook = new_notebook(11'199);
  Watch watch(Detour::kByBytes, notebook);
  std::thread([&] {
    std::int64_t left = 11'199;
    std::size_t expected = 0;
    const auto expect_counted = [&](std::int64_t bytes) {
      left -= bytes;
      if (left < 0) {
        left = 11'199;
        ++expected;
      }
      ASSERT_EQ(notebook.chosen(), expected);
    };
    for (int i = 1; i <= 1000; ++i) {
      deallocate(allocate(99));
      expect_counted(112);  // the size of the class
      deallocate(allocate_zeroed(1, 2000));
      expect_counted(2048);
    }
    const std::size_t before = notebook.chosen();
    deallocate(allocate(9'999'999));
    EXPECT_EQ(notebook.chosen(), before + 1) << "one allocation is chosen once, however large";
    for (int i = 1; i <= 700; ++i) deallocate(allocate(0));
    EXPECT_EQ(notebook.chosen(), before + 2);
  }).join();
}

/// Sizes that are negative as signed numbers, and large ones for which a count has no room.
TEST(Detour, WhatNoMemoryCouldHoldIsNotCounted) {
  for (const std::size_t bytes :
       {std::size_t{0} - 1'000'000, std::size_t{PTRDIFF_MAX}, (std::size_t{1} << 62) + 1}) {
    Notebook& notebook = new_notebook(999);
    Watch watch(Detour::kByBytes, notebook);
    std::thread([&] {
      errno = 0;
      EXPECT_EQ(allocate(bytes), nullptr);
      EXPECT_EQ(errno, ENOMEM);
      for (int i = 0; i < 100; ++i) deallocate(allocate(1000));
    }).join();
    EXPECT_GE(notebook.chosen(), 99u) << bytes;
  }
}

TEST(Detour, EveryWayToAllocateIsCountedOnce) {
  Notebook& notebook = new_notebook(49);
  Watch watch(Detour::kByCalls, notebook);
  std::thread([&] {
    std::vector<void*> blocks;
    for (std::size_t i = 1; i <= 3000; ++i) {
      // All three requests are of one class: 128 bytes.
      switch (i % 7 % 3) {
        case 0:
          blocks.push_back(allocate(120));
          break;
        case 1:
          blocks.push_back(allocate_zeroed(2, 60));
          break;
        default:
          blocks.push_back(allocate_aligned(128, 128));
      }
      ASSERT_EQ(notebook.chosen(), i / 50);
      if (blocks.size() == 40) {
        for (void* p : blocks) deallocate(p);
        blocks.clear();
      }
    }
    for (void* p : blocks) deallocate(p);
  }).join();
}

TEST(Detour, WhatIsCountedAndNotChosenIsClearedByCalloc) {
  Notebook& notebook = new_notebook(INT64_MAX / 4);
  Watch watch(Detour::kByBytes, notebook);
  std::thread([&] {
    for (const std::size_t bytes : {100, 1024, 1025, 5000, 100'000}) {
      std::vector<void*> blocks;
      for (int i = 0; i < 200; ++i) {
        blocks.push_back(allocate(bytes));
        std::memset(blocks.back(), 0x5a, bytes);
      }
      for (void* p : blocks) deallocate(p);
      for (void*& p : blocks) {
        p = allocate_zeroed(1, bytes);
        ASSERT_EQ(find_change(static_cast<char*>(p), bytes, 0), bytes);
      }
      for (void* p : blocks) deallocate(p);
    }
  }).join();
  EXPECT_EQ(notebook.chosen(), 0u);
}

TEST(Detour, TheTwoWatchersDoNotDisturbEachOther) {
  Notebook& by_bytes = new_notebook(64 * 20 - 1);
  Notebook& by_calls = new_notebook(6);
  Watch first(Detour::kByBytes, by_bytes);
  Watch second(Detour::kByCalls, by_calls);
  std::thread([&] {
    for (int i = 0; i < 7000; ++i) deallocate(allocate(49));
  }).join();
  EXPECT_EQ(by_bytes.chosen(), 350u);
  // Every twentieth allocation is served by the other watcher, and still counts as chosen by this
  // one.
  EXPECT_EQ(by_calls.chosen(), 1000u - 50u);
}

TEST(Detour, AWatchGoesOnWhenTheOtherEnds) {
  Notebook& notebook = new_notebook(0);
  Watch watch(Detour::kByCalls, notebook);
  Watch other(Detour::kByBytes, new_notebook(1 << 20));
  std::thread([&] {
    void* p = allocate(64);
    EXPECT_EQ(notebook.bytes_at(p), 64);
    other.end();
    void* q = allocate(64);
    EXPECT_EQ(notebook.bytes_at(q), 64);
    deallocate(p);
    deallocate(q);
  }).join();
}

TEST(Detour, ThreadsThatRunAlreadyAreRedirectedAndComeBack) {
  Notebook& notebook = new_notebook(0);
  std::latch is_warm(2), has_begun(2), has_allocated(2), has_ended(2);
  std::thread other([&] {
    deallocate(allocate(64));
    EXPECT_EQ(&t_thread.for_malloc(), t_thread.free_bins);
    is_warm.arrive_and_wait();
    has_begun.arrive_and_wait();
    void* p = allocate(64);
    EXPECT_EQ(notebook.bytes_at(p), 64);
    EXPECT_NE(&t_thread.for_malloc(), t_thread.free_bins);
    has_allocated.arrive_and_wait();
    has_ended.arrive_and_wait();
    EXPECT_EQ(&t_thread.for_malloc(), t_thread.free_bins);
    void* q = allocate(64);
    EXPECT_EQ(notebook.bytes_at(q), -1);
    deallocate(q);
    deallocate(p);
  });
  is_warm.arrive_and_wait();
  Watch watch(Detour::kByBytes, notebook);
  has_begun.arrive_and_wait();
  has_allocated.arrive_and_wait();
  watch.end();
  has_ended.arrive_and_wait();
  other.join();
}

TEST(Detour, AThreadThatAllocatesMeanwhileSeesTheWholeWatcher) {
  constexpr int kWatches = 200;
  std::atomic<bool> is_over{false};
  std::latch gate(2);
  std::thread other([&] {
    gate.arrive_and_wait();
    // relaxed, and blocks that are in no bin: only the detour may order what the two threads do.
    while (!is_over.load(std::memory_order_relaxed))
      deallocate(allocate(SizeClassMap::kMaxBytes + 1));
  });
  gate.arrive_and_wait();
  for (int i = 0; i < kWatches; ++i) {
    Notebook& notebook = new_notebook(0);
    Watch watch(Detour::kByBytes, notebook);
    while (notebook.chosen() == 0) std::this_thread::yield();
  }
  is_over.store(true, std::memory_order_relaxed);
  other.join();
}

TEST(Detour, WatchedObjectsAreInTheStatistics) {
  const auto live_of = [] {
    const Statistics now = collect_statistics(g_malloc);
    EXPECT_EQ(now.mapped, now.live + now.cached + now.free() + now.metadata + now.returned());
    return now.classes[SizeClassMap::class_of(7000)].live_objects;
  };
  Notebook& notebook = new_notebook(0);
  Watch watch(Detour::kByCalls, notebook);
  const std::size_t before = live_of();
  void* p = allocate(7000);
  EXPECT_EQ(live_of(), before + 1);
  deallocate(p);
  EXPECT_EQ(live_of(), before);
}

TEST(DetourDeathTest, WrongFreesOfWatchedObjectsHaveTheirSentences) {
  Notebook& notebook = new_notebook(0);
  Watch watch(Detour::kByCalls, notebook);
  char* p = static_cast<char*>(allocate(200));
  void* neighbour = allocate(200);
  EXPECT_DEATH(deallocate(p + 16), "invalid free of 0x[0-9a-f]+: it points into an object");
  EXPECT_DEATH(deallocate(p + 1), "invalid free of 0x[0-9a-f]+: it is misaligned");
  EXPECT_DEATH(
      {
        deallocate(p);
        deallocate(p);
      },
      "double free of 0x[0-9a-f]+: the object is free already");
  deallocate(p);
  deallocate(neighbour);
}

TEST(Detour, WatchesBeginAndEndWhileThreadsAllocate) {
  Notebook& by_bytes = new_notebook(3000);
  Notebook& by_calls = new_notebook(20);
  const auto come_and_go = [&](int t) {
    std::vector<void*> mine;
    for (std::size_t i = 0; i < 20'000; ++i) {
      if (mine.size() < 50 || i % 3 != 0) {
        mine.push_back(allocate(sizeof(int) + i * 31 % 900));
        *static_cast<int*>(mine.back()) = t;
      }
      if (mine.size() > 100) {
        std::swap(mine[i % mine.size()], mine.back());
        ASSERT_EQ(*static_cast<int*>(mine.back()), t);
        deallocate(mine.back());
        mine.pop_back();
      }
    }
    for (void* p : mine) deallocate(p);
  };
  run_together(4, come_and_go, [&] {
    Watch first(Detour::kByBytes, by_bytes);
    std::this_thread::yield();
    Watch second(Detour::kByCalls, by_calls);
    std::this_thread::yield();
  });
  g_malloc.engine().check_invariants();
}

}  // namespace
}  // namespace strata
