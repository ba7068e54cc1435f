// Threads that replace their objects while the scavenger works without a pause.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "malloc/malloc_in_test.h"

namespace strata {
namespace {

constexpr std::size_t kBytes = 64;

class TurnoverInThreads : public SeededTest, protected TestMalloc {};

/// Each thread frees what its neighbour allocated, while much is free and while little is, and
/// another takes over caches and returns memory all the time.
TEST_F(TurnoverInThreads, ObjectsStayWholeWhileCachesAreTakenOver) {
  start();
  constexpr int kThreads = 3;
  constexpr std::size_t kMost = 24'000;
  const std::uint64_t drawn = random();
  std::vector<std::vector<std::uint64_t*>> sets(kThreads);
  std::atomic<bool> is_over{false};
  std::thread scavenger([&] {
    while (!is_over.load()) {
      engine.release_unneeded();
      std::this_thread::yield();
    }
  });
  for (unsigned round = 0; round < 4; ++round) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        TestThread thread(malloc);
        std::vector<std::uint64_t*>& set = sets[(static_cast<unsigned>(t) + round) % kThreads];
        std::uint64_t state = drawn + round * kThreads + static_cast<std::uint64_t>(t) + 1;
        const auto store = [&] {
          auto* const p = static_cast<std::uint64_t*>(thread.allocate(kBytes));
          ASSERT_NE(p, nullptr);
          p[0] = reinterpret_cast<std::uintptr_t>(p);
          p[7] = ~p[0];
          set.push_back(p);
        };
        const auto drop = [&] {
          state = state * 6364136223846793005u + 1442695040888963407u;
          std::swap(set[(state >> 33) % set.size()], set.back());
          std::uint64_t* const p = set.back();
          set.pop_back();
          ASSERT_EQ(p[0], reinterpret_cast<std::uintptr_t>(p));
          ASSERT_EQ(p[7], ~p[0]);
          p[0] = p[7] = 0;
          thread.deallocate(p);
        };
        while (set.size() < kMost) store();
        while (set.size() > kMost / 4) {
          drop();
          drop();
          store();
        }
        for (std::size_t i = 0; i < kMost / 2; ++i) {
          drop();
          store();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  is_over = true;
  scavenger.join();
  check();
  TestThread last(malloc);
  for (auto& set : sets) {
    for (std::uint64_t* p : set) last.deallocate(p);
  }
  last.end();
  check_nothing_is_left();
}

}  // namespace
}  // namespace strata
