// Heaps and threads: blocks that other threads free, threads that end, heaps that end meanwhile,
// forks.

#include <strata/heap.hpp>

#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/run_together_test.h"
#include "base/thread_annotations.h"
#include "os/child_in_test.h"
#include "os/emulation.h"
#include "os/resources.h"
#include "user_heap/heap_table.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

/// Blocks on their way from one thread to another.
class Exchange {
 public:
  void* swap(std::size_t place, void* p) {
    return slots_[place % std::size(slots_)].exchange(p, std::memory_order_acq_rel);
  }
  template <typename Function>
  void drain(Function function) {
    for (auto& slot : slots_) {
      if (void* p = slot.exchange(nullptr, std::memory_order_acquire)) function(p);
    }
  }

 private:
  std::atomic<void*> slots_[256] = {};
};

TEST(HeapThreads, EachFreesWhatOthersAllocated) {
  Heap heap;
  Exchange exchange;
  run_together(4, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int i = 0; i < 30'000; ++i) {
      const std::size_t bytes = random() % 64 == 0 ? random() % 300'000 : random() % 2000;
      auto* p = static_cast<unsigned char*>(heap.allocate(bytes + 16));
      ASSERT_NE(p, nullptr);
      std::memcpy(p, &bytes, sizeof bytes);
      p[bytes + 15] = 0x5a;
      if (void* other = exchange.swap(random(), p)) {
        std::size_t other_bytes;
        std::memcpy(&other_bytes, other, sizeof other_bytes);
        ASSERT_EQ(static_cast<unsigned char*>(other)[other_bytes + 15], 0x5a);
        heap.deallocate(other);
      }
    }
  });
  exchange.drain([&](void* p) { heap.deallocate(p); });
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().live, 0u);
  EXPECT_LE(heap.statistics().threads, 1u) << "threads that ended still count";
}

TEST(HeapThreads, ThreadsThatComeAndGoUseSeveralHeapsAndLeaveNothingBehind) {
  std::vector<Heap> heaps(7);
  Exchange exchanges[7];
  for (int round = 0; round < 12; ++round) {
    run_together(6, [&](int t) {
      std::mt19937 random(static_cast<unsigned>(round * 100 + t));
      for (int i = 0; i < 800; ++i) {
        const std::size_t which = random() % heaps.size();
        void* p = heaps[which].allocate(random() % 3000);
        ASSERT_NE(p, nullptr);
        if (void* other = exchanges[which].swap(random(), p)) heaps[which].deallocate(other);
      }
    });
  }
  for (std::size_t i = 0; i < heaps.size(); ++i) {
    exchanges[i].drain([&](void* p) { heaps[i].deallocate(p); });
    heaps[i].check_invariants();
    EXPECT_EQ(heaps[i].statistics().live, 0u);
    EXPECT_LE(heaps[i].statistics().threads, 1u) << "only this one has not ended";
  }
}

TEST(HeapThreads, AHeapEndsWhileOtherThreadsHoldCachesOfIt) {
  constexpr int kThreads = 4;
  std::optional<Heap> heap;
  std::barrier<> step(kThreads + 1);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (;;) {
        step.arrive_and_wait();  // there is a heap
        if (is_over) return;
        std::vector<void*> live;
        for (std::size_t i = 0; i < 400; ++i) live.push_back(heap->allocate(16 + i));
        for (std::size_t i = 0; i < live.size(); i += 2) heap->deallocate(live[i]);
        step.arrive_and_wait();  // used
        step.arrive_and_wait();  // ended
      }
    });
  }
  for (int round = 0; round < 100; ++round) {
    heap.emplace();
    step.arrive_and_wait();
    step.arrive_and_wait();
    heap->check_invariants();
    EXPECT_EQ(heap->statistics().threads, std::size_t{kThreads});
    heap.reset();
    step.arrive_and_wait();
  }
  is_over = true;
  step.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
}

TEST(HeapThreads, HeapsEndWhileThreadsThatUsedThemEnd) {
  // In each round a thread that used the heap ends while another thread ends the heap.
  for (int round = 0; round < 200; ++round) {
    auto heap = std::make_unique<Heap>();
    std::latch used(1);
    std::thread user([&] {
      for (std::size_t i = 0; i < 100; ++i) (void)heap->allocate(i * 10);
      used.count_down();
    });
    used.wait();
    heap.reset();
    user.join();
  }
}

/// The only live heap.
UserHeap& only_heap() {
  LockGuard guard(g_heap_table.lock());
  return *g_heap_table.next_made(0);
}

TEST(HeapThreads, WhatAThreadHasVerifiedCountsWhenItEnds) {
  Heap heap(Heap::Options{.checks = Heap::Checks::kFrees});
  for (std::uint64_t round = 1; round <= 2; ++round) {
    std::thread([&] {
      for (int i = 0; i < 100; ++i) heap.deallocate(heap.allocate(100));
    }).join();
    EXPECT_EQ(only_heap().malloc_if_made()->verified_frees(), round * 100);
  }
}

TEST(HeapThreads, AHeapIsResetWhileAThreadThatUsedItEnds) {
  // The caches of so many threads are kept. When one more thread ends, it flushes the oldest cache.
  constexpr std::size_t kKept = 16;
  Heap heap;
  struct User {
    std::latch may_end{1};
    ThreadCache* cache;
    std::thread thread;
  } users[kKept + 1];
  std::latch have_used(kKept + 1);
  for (User& user : users) {
    user.thread = std::thread([&] {
      std::vector<void*> blocks;
      for (int i = 0; i < 100; ++i) blocks.push_back(heap.allocate(100));
      for (void* p : blocks) heap.deallocate(p);
      user.cache = HeapThread::use_here(only_heap().number())->state.cache;
      have_used.count_down();
      user.may_end.wait();
    });
  }
  have_used.wait();
  for (std::size_t i = 0; i < kKept; ++i) {
    users[i].may_end.count_down();
    users[i].thread.join();
  }
  ThreadRegistry& registry = only_heap().malloc_if_made()->engine().registry();
  // The last thread has to wait for the oldest cache; so does a thread that resets the heap
  // meanwhile.
  std::latch is_held(1);
  std::latch may_go_on(1);
  std::thread holder([&] {
    LockGuard guard(users[0].cache->bins_lock());
    is_held.count_down();
    may_go_on.wait();
  });
  is_held.wait();
  users[kKept].may_end.count_down();
  while (registry.live_threads() != 0) std::this_thread::yield();
  std::atomic<bool> is_reset{false};
  std::thread resetter([&] {
    heap.reset();
    is_reset = true;
  });
  while (!is_reset && users[0].cache->bins_lock().waits() < 2) std::this_thread::yield();
  may_go_on.count_down();
  for (std::thread* thread : {&holder, &users[kKept].thread, &resetter}) thread->join();
  std::vector<void*> blocks;
  for (int i = 0; i < 5000; ++i) blocks.push_back(heap.allocate(100));
  for (void* p : blocks) heap.deallocate(p);
  heap.release_memory();
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().live, 0u);
}

TEST(HeapThreads, OneHeapARequestInManyThreadsTakesNoMoreMemory) {
  const auto serve = [](int requests) {
    run_together(4, [&](int t) {
      for (int i = 0; i < requests; ++i) {
        Heap heap;
        for (std::size_t k = 0; k < 50; ++k) {
          void* p = heap.allocate(20 + k * 37 % 2000);
          ASSERT_NE(p, nullptr);
          std::memset(p, t, 20);
        }
      }
    });
  };
  serve(200);
  const std::size_t before = os::resident_bytes();
  for (int i = 0; i < 4; ++i) serve(200);
#ifndef __SANITIZE_THREAD__  // whose own memory grows
  if (!os::kIsEmulated) {
    EXPECT_LT(os::resident_bytes(), before + 4 * kMiB);
  }
#else
  (void)before;
#endif
}

/// Heaps that go from thread to thread. Each thread frees some blocks of earlier threads and leaves
/// some of its own; the last one ends the heap with whatever is left in it.
class Relay {
 public:
  void make_pass_and_end(int heaps) {
    left_to_make_ = heaps;
    run_together(kThreads, [this](int t) {
      std::mt19937 random(static_cast<unsigned>(t));
      while (Leg* const leg = take(random)) {
        run(*leg, random);
        hand_over(*leg);
      }
    });
  }

 private:
  static constexpr int kThreads = 4;
  static constexpr int kHops = 4;
  static constexpr std::size_t kMostLive = 24;

  struct Leg {
    std::optional<Heap> heap;
    void* blocks[64] = {};
    int hops = 0;
  };

  /// \returns  nullptr when all heaps are made and none waits
  Leg* take(std::mt19937& random) {
    std::lock_guard guard(mutex_);
    if (left_to_make_ != 0 && live_ < kMostLive && (waiting_.empty() || random() % 4 == 0)) {
      --left_to_make_;
      return &legs_[free_.empty() ? live_++ : (++live_, take_last(free_))];
    }
    return waiting_.empty() ? nullptr : &legs_[take_last(waiting_)];
  }

  static void run(Leg& leg, std::mt19937& random) {
    if (!leg.heap) leg.heap.emplace();
    for (void*& block : leg.blocks) {
      if (random() % 2 == 0) continue;
      leg.heap->deallocate(block);
      const std::size_t bytes = random() % 100 == 0 ? 200'000 : 16 + random() % 3000;
      block = leg.heap->allocate(bytes);
      ASSERT_NE(block, nullptr);
      std::memset(block, 1, 16);
    }
    if (++leg.hops < kHops) return;
    leg.heap.reset();
    leg.hops = 0;
    for (void*& block : leg.blocks) block = nullptr;
  }

  void hand_over(Leg& leg) {
    std::lock_guard guard(mutex_);
    const auto number = static_cast<std::size_t>(&leg - legs_);
    (leg.heap ? waiting_ : free_).push_back(number);
    if (!leg.heap) --live_;
  }

  static std::size_t take_last(std::vector<std::size_t>& numbers) {
    const std::size_t last = numbers.back();
    numbers.pop_back();
    return last;
  }

  std::mutex mutex_;
  int left_to_make_ = 0;
  std::size_t live_ = 0;
  std::vector<std::size_t> waiting_, free_;
  Leg legs_[kMostLive + 1];
};

TEST(HeapThreads, TenThousandMadeUsedAndEndedBesideTenThousandIdleOnesTakeNoMoreMemory) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)  // which are slower
  constexpr int kHeaps = 1000;
#else
  constexpr int kHeaps = 10'000;
#endif
  static Relay relay;
  relay.make_pass_and_end(kHeaps / 4);
  const std::size_t before = os::resident_bytes();
  std::vector<Heap> idle;
  idle.reserve(10'000);
  for (int i = 0; i < 10'000; ++i) idle.emplace_back();
  const std::size_t with_idle = os::resident_bytes();
  for (int i = 0; i < 3; ++i) relay.make_pass_and_end(kHeaps / 4);
  const std::size_t after = os::resident_bytes();
  idle.clear();
#ifndef __SANITIZE_THREAD__  // whose own memory grows
  EXPECT_LT((with_idle - before) / 10'000, 8192u);
  if (!os::kIsEmulated) {
    EXPECT_LT(after, with_idle + 4 * kMiB);
  }
#else
  (void)(before + with_idle + after);
#endif
}

TEST(HeapThreads, TheHardLimitHoldsUnderContention) {
  Heap::Options options;
  options.hard_limit_bytes = 12 * kMiB;
  options.reclaim_delay_ms = 2;
  Heap heap(options);
  std::atomic<std::size_t> refused{0};
  std::atomic<int> running{4};
  std::thread watcher([&] {
    while (running != 0) ASSERT_LE(heap.statistics().held, options.hard_limit_bytes);
  });
  run_together(4, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    std::vector<std::pair<void*, std::size_t>> live;
    for (int i = 0; i < 8000; ++i) {
      if (live.empty() || random() % 100 < (i / 2000 % 2 == 0 ? 65u : 35u)) {
        const std::size_t bytes = random() % (std::size_t{16} << random() % 16);
        void* p = heap.allocate(bytes);
        if (p == nullptr) {
          ++refused;
          continue;
        }
        std::memset(p, 1, bytes);
        live.emplace_back(p, bytes);
      } else {
        std::swap(live[random() % live.size()], live.back());
        heap.deallocate(live.back().first);
        live.pop_back();
      }
    }
    for (const auto& [p, bytes] : live) heap.deallocate(p);
    --running;
  });
  watcher.join();
  heap.check_invariants();
  EXPECT_GT(refused, 0u);
  EXPECT_LE(heap.statistics().peak, options.hard_limit_bytes);
}

TEST(HeapThreads, IdleMemoryOfAHeapThatReclaimsGoesBackWithoutACall) {
  const auto fill_and_free = [](Heap& heap) {
    std::vector<void*> live;
    for (int i = 0; i < 1000; ++i) {
      live.push_back(heap.allocate(10'000));
      std::memset(live.back(), 1, 10'000);
    }
    for (void* p : live) heap.deallocate(p);
  };
  Heap::Options options;
  options.reclaim_delay_ms = 10;
  Heap reclaims(options);
  options.reclaims = false;
  Heap keeps(options);
  fill_and_free(keeps);
  fill_and_free(reclaims);
  while (reclaims.statistics().held > 2 * kMiB) std::this_thread::yield();
  EXPECT_GT(keeps.statistics().held, 8 * kMiB);
}

TEST(HeapThreads, WhatABlockShrinksByInPlaceGoesBackWithoutAnotherCall) {
  Heap heap(Heap::Options{.reclaim_delay_ms = 10});
  void* const block = heap.allocate(64 * kMiB);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(heap.resize_in_place(block, 2 * kMiB));
  while (heap.statistics().held > 4 * kMiB) std::this_thread::yield();
  EXPECT_EQ(heap.usable_size(block), 2 * kMiB);
}

TEST(HeapThreads, WhatIsFreedAsTheReclaimerEndsGoesBackToo) {
  Heap heap(Heap::Options{.reclaim_delay_ms = 2});
  constexpr std::size_t kBlocks = 16;
  for (int round = 0; round < 40; ++round) {
    void* live[kBlocks];
    for (void*& p : live) p = heap.allocate(kMiB);
    for (std::size_t i = 0; i < kBlocks / 2; ++i) heap.deallocate(live[i]);
    // Now that nothing is idle, the reclaimer's thread is about to end, or has ended.
    while (heap.statistics().free != 0) std::this_thread::yield();
    for (std::size_t i = kBlocks / 2; i < kBlocks; ++i) heap.deallocate(live[i]);
    while (heap.statistics().free != 0) std::this_thread::yield();
  }
}

TEST(HeapThreads, AThreadsLastCallsPassNoCache) {
  static Heap* g_heap;
  Heap heap;
  g_heap = &heap;
  struct AtExit {
    ~AtExit() {
      for (int i = 0; i < 100; ++i) g_heap->deallocate(g_heap->allocate(100));
    }
  };
  std::thread([&] {
    thread_local AtExit at_exit;
    (void)&at_exit;
    heap.deallocate(heap.allocate(100));
  }).join();
  heap.check_invariants();
  EXPECT_EQ(heap.statistics().live, 0u);
}

/// As in the child of a fork, where a new thread may have the values of one that was about to end.
TEST(HeapThreads, AThreadThatEndsLeavesTheTableOfAnotherAlone) {
  Heap heap;
  heap.deallocate(heap.allocate(100));
  pthread_key_t key = 0;
  while (key != PTHREAD_KEYS_MAX && pthread_getspecific(key) != t_heap_table) ++key;
  ASSERT_NE(key, pthread_key_t{PTHREAD_KEYS_MAX});
  std::thread([key, of_another = t_heap_table] { pthread_setspecific(key, of_another); }).join();
  EXPECT_EQ(heap.statistics().threads, 1u);
  heap.deallocate(heap.allocate(100));
}

void lock_for_ever(Lock& lock) STRATA_NO_THREAD_SAFETY_ANALYSIS { lock.lock(); }

TEST(HeapThreads, AThreadThatEndsWithALockHeldDoesNotWaitForIt) {
  const int status = os::status_in_child([]() -> int {
    Heap heap;
    std::thread([&] {
      heap.deallocate(heap.allocate(100));
      lock_for_ever(g_heap_table.lock());
    }).join();
    _exit(0);  // the end of the heap would wait for it
  });
  EXPECT_EQ(status, 0);
}

TEST(HeapThreads, TheChildOfAForkMayResetAHeapWhoseSpansOthersWereMakingAndDestroying) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  constexpr int kForks = 300;
  constexpr int kBlocks = 5000;
  Heap::Options options;
  options.checks = Heap::Checks::kFrees;
  options.reclaims = false;  // the child starts no thread
  Heap heap(options);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::vector<void*> blocks;
      while (!stop.load(std::memory_order_relaxed)) {
        for (int i = 0; i < 600; ++i) blocks.push_back(heap.allocate(16 + (i + t) % 4 * 500));
        for (void* block : blocks) heap.deallocate(block);
        blocks.clear();
        heap.release_memory();
      }
    });
  }
  const auto reset_and_use = [&] {
    heap.reset();
    static int* blocks[kBlocks];
    for (int i = 0; i < kBlocks; ++i) {
      blocks[i] = static_cast<int*>(heap.allocate(16 + i % 100));
      *blocks[i] = i;
    }
    for (int i = 0; i < kBlocks; ++i) {
      if (*blocks[i] != i) return 1;
    }
    heap.reset();
    return 0;
  };
  for (int i = 0; i < kForks; ++i) {
    EXPECT_EQ(os::status_in_child(reset_and_use), 0) << "in the fork number " << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(HeapThreads, HeapsWorkOnBothSidesOfAForkUnderLoad) {
  if (os::kIsEmulated) GTEST_SKIP() << "the emulator's own locks stay locked in the child";
  Heap::Options options;
#ifdef __SANITIZE_THREAD__  // which ends a child that starts a thread
  options.reclaims = false;
#endif
  // Neither the threads nor the child use the process's malloc. That may be a sanitizer's, which
  // may be locked in the child for ever.
  std::optional<Heap> heaps[3];
  for (auto& heap : heaps) heap.emplace(options);
  Heap mine(options);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      Heap& heap = *heaps[t];
      while (!is_over) {
        void* live[50];
        for (void*& p : live) p = heap.allocate(random() % 100'000);
        for (void* p : live) heap.deallocate(p);
        Heap passing(options);
        (void)passing.allocate(100);
      }
    });
  }
  for (int i = 0; i < 30; ++i) {
    void* before = mine.allocate(100);
    const int status = os::status_in_child([&] {
      mine.deallocate(before);
      for (auto& heap : heaps) {
        for (std::size_t k = 0; k < 100; ++k) {
          void* p = heap->allocate(k * 1000);
          if (p == nullptr) return 1;
          heap->deallocate(p);
        }
        heap->check_invariants();
      }
      {
        Heap another(options);
        (void)another.allocate(100);
      }
      for (auto& heap : heaps) heap.reset();
      return 0;
    });
    ASSERT_EQ(status, 0);
    mine.deallocate(before);
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  for (auto& heap : heaps) {
    heap->check_invariants();
    EXPECT_EQ(heap->statistics().live, 0u);
  }
}

}  // namespace
}  // namespace strata
