#include "base/lock.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <new>
#include <thread>
#include <type_traits>

#include "base/run_together_test.h"
#include "os/child_in_test.h"
#include "os/wait.h"

// Some of these tests break Clang's rules for locks on purpose.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

namespace strata {
namespace {

constinit Lock g_lock{LockRank::kLeaf};
static_assert(std::is_trivially_destructible_v<Lock>,
              "a lock in static storage outlives all its users");

int more_threads_than_cores() { return 4 * static_cast<int>(std::thread::hardware_concurrency()); }

TEST(Lock, IsHeldBetweenLockAndUnlock) {
  EXPECT_FALSE(g_lock.is_held());
  g_lock.lock();
  EXPECT_TRUE(g_lock.is_held());
  g_lock.unlock();
  EXPECT_FALSE(g_lock.is_held());
}

TEST(Lock, TryLockTakesAFreeLockAndNoOther) {
  Lock lock(LockRank::kLeaf);
  EXPECT_TRUE(lock.try_lock());
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  std::thread([&] {
    EXPECT_TRUE(lock.try_lock());
    lock.unlock();
  }).join();
}

TEST(Lock, AThreadKnowsWhetherItHoldsAny) {
  Lock first(LockRank::kStart);
  Lock second(LockRank::kLeaf);
  EXPECT_FALSE(is_any_lock_held_here());
  first.lock();
  EXPECT_TRUE(second.try_lock());
  EXPECT_FALSE(second.try_lock());
  std::thread([] { EXPECT_FALSE(is_any_lock_held_here()) << "another thread's locks"; }).join();
  first.unlock();
  EXPECT_TRUE(is_any_lock_held_here());
  second.unlock();
  EXPECT_FALSE(is_any_lock_held_here());
  LocksInFork::begin();
  EXPECT_TRUE(is_any_lock_held_here()) << "a handler that forks as well is not to wait";
  LocksInFork::begin_child();
  EXPECT_TRUE(is_any_lock_held_here()) << "what locks guard is not in order yet";
  LocksInFork::end_in_child();
  EXPECT_FALSE(is_any_lock_held_here());
}

TEST(Lock, WhoGivesWayTakesItAgainAfterAThreadThatSlept) {
  Lock lock(LockRank::kLeaf);
  lock.lock();
  lock.give_way();
  EXPECT_TRUE(lock.is_held());
  std::atomic<bool> has_had_it = false;
  std::thread other([&] {
    LockGuard guard(lock);
    has_had_it = true;
  });
  while (!has_had_it) {
    while (!has_had_it && !lock.has_sleepers()) std::this_thread::yield();
    lock.give_way();
    EXPECT_TRUE(lock.is_held());
  }
  other.join();
  lock.unlock();
}

/// Who gives way waits at the same word as those who want the lock, and may be woken in place of
/// one of them. Here that is the second thread, which finds that the third was faster and sleeps
/// again.
TEST(Lock, WhoGivesWayLeavesNobodyAsleep) {
  for (int round = 0; round < 1000; ++round) {
    Lock lock(LockRank::kLeaf);
    std::atomic<bool> is_taken = false;
    std::atomic<bool> gives_way = false;
    run_together(3, [&](int thread) {
      if (thread == 0) {
        LockGuard guard(lock);
        is_taken = true;
        while (!lock.has_sleepers()) std::this_thread::yield();
        gives_way = true;
        lock.give_way();
      } else if (thread == 1) {
        while (!is_taken) std::this_thread::yield();
        LockGuard guard(lock);
      } else {
        while (!gives_way) std::this_thread::yield();
        for (int i = 0; i < 20 * (round % 30); ++i) os::relax_processor();
        LockGuard guard(lock);
        for (int i = 0; i < 5'000 && !lock.has_sleepers(); ++i) os::relax_processor();
      }
    });
  }
}

TEST(Lock, GuardReleasesAtTheEndOfItsBlock) {
  Lock lock(LockRank::kLeaf);
  {
    LockGuard guard(lock);
    EXPECT_TRUE(lock.is_held());
  }
  EXPECT_FALSE(lock.is_held());
}

TEST(Lock, ExcludesEveryOtherThread) {
  constexpr int kRounds = 5'000;
  Lock lock(LockRank::kLeaf);
  const int threads = more_threads_than_cores();
  // Plain fields on purpose: two threads inside at once would lose counts, and would be a data
  // race.
  long count = 0;
  int inside = 0;
  run_together(threads, [&](int) {
    for (int i = 0; i < kRounds; ++i) {
      LockGuard guard(lock);
      ASSERT_EQ(++inside, 1);
      ++count;
      --inside;
    }
  });
  EXPECT_EQ(count, static_cast<long>(threads) * kRounds);
}

TEST(Lock, TryLockExcludesToo) {
  constexpr int kRounds = 5'000;
  Lock lock(LockRank::kLeaf);
  long count = 0;
  const int threads = more_threads_than_cores();
  run_together(threads, [&](int index) {
    for (int i = 0; i < kRounds; ++i) {
      if (index % 2 == 0) {
        lock.lock();
      } else {
        while (!lock.try_lock()) std::this_thread::yield();
      }
      ++count;
      lock.unlock();
    }
  });
  EXPECT_EQ(count, static_cast<long>(threads) * kRounds);
}

TEST(Lock, SleepersAreWokenOneAfterTheOther) {
  // The holder keeps the lock for much longer than anybody spins, so the others go to sleep. After
  // a lost wake-up they would sleep for ever.
  Lock lock(LockRank::kLeaf);
  int passed = 0;
  const int threads = more_threads_than_cores();
  run_together(threads, [&](int) {
    for (int i = 0; i < 3; ++i) {
      LockGuard guard(lock);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++passed;
    }
  });
  EXPECT_EQ(passed, 3 * threads);
}

TEST(Lock, KeepsErrnoWhileItSleepsAndWakes) {
  Lock lock(LockRank::kLeaf);
  run_together(more_threads_than_cores(), [&](int) {
    errno = EDOM;
    lock.lock();
    EXPECT_EQ(errno, EDOM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    errno = EDOM;
    lock.unlock();
    EXPECT_EQ(errno, EDOM);
  });
}

TEST(LocksInFork, AreHeldUntilItEndsAndFreeInBothProcessesThen) {
  Lock tried(LockRank::kCentral);
  Lock taken(LockRank::kLeaf);
  for (int round = 0; round < 3; ++round) {
    LocksInFork::begin();
    LocksInFork::hold(tried);
    LocksInFork::hold(taken);
    EXPECT_TRUE(tried.is_held() && taken.is_held());
    std::thread([&] { EXPECT_FALSE(tried.try_lock()); }).join();
    const int status = os::status_in_child([&] {
      LocksInFork::begin_child();
      const bool was_free = !tried.is_held() && !taken.is_held() && tried.try_lock();
      taken.lock();
      return was_free && tried.is_held() && taken.is_held() ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(tried.is_held() && taken.is_held());
    LocksInFork::end_in_parent();
    EXPECT_FALSE(tried.is_held() || taken.is_held());
    ASSERT_TRUE(tried.try_lock());
    tried.unlock();
    LockGuard guard(taken);
    EXPECT_FALSE(taken.try_lock());
  }
  EXPECT_EQ(taken.waits(), 0u) << "nobody waited";
}

TEST(LocksInFork, NothingIsWrittenToTheLocksAtItsEnd) {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  Lock& lock = *new (page) Lock(LockRank::kLeaf);
  for (const bool is_child : {false, true}) {
    LocksInFork::begin();
    LocksInFork::hold(lock);
    ASSERT_EQ(mprotect(page, page_bytes, PROT_READ), 0);
    if (is_child) LocksInFork::begin_child();
    is_child ? LocksInFork::end_in_child() : LocksInFork::end_in_parent();
    EXPECT_FALSE(lock.is_held());
    ASSERT_EQ(mprotect(page, page_bytes, PROT_READ | PROT_WRITE), 0);
    LockGuard guard(lock);
  }
  munmap(page, page_bytes);
}

TEST(LocksInFork, AThreadWaitsForTheForkThatHoldsTheLock) {
  Lock lock(LockRank::kLeaf);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> is_over{false};
    LocksInFork::begin();
    LocksInFork::hold(lock);
    std::thread waiter([&] {
      LockGuard guard(lock);
      EXPECT_TRUE(is_over.load());
    });
    while (lock.waits() != static_cast<std::uint32_t>(round) + 1) std::this_thread::yield();
    // The waiter is still in its spin loop, or asleep already.
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    is_over.store(true);
    LocksInFork::end_in_parent();
    waiter.join();
  }
}

TEST(LocksInFork, ExcludeAllThreadsThatWaitForEachOtherMeanwhile) {
  // Some threads sleep for the lock, some for the end of a fork, and one forks. After a lost
  // wake-up somebody would sleep for ever.
  Lock lock(LockRank::kLeaf);
  long count = 0;
  const int threads = more_threads_than_cores();
  constexpr int kRounds = 300;
  run_together(threads, [&](int index) {
    for (int i = 0; i < kRounds; ++i) {
      if (index == 0) {
        LocksInFork::begin();
        LocksInFork::hold(lock);
        ++count;
        if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        LocksInFork::end_in_parent();
      } else if (index % 3 == 0) {
        while (!lock.try_lock()) std::this_thread::yield();
        ++count;
        lock.unlock();
      } else {
        LockGuard guard(lock);
        ++count;
        if (i % 16 == index) std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  });
  EXPECT_EQ(count, static_cast<long>(threads) * kRounds);
}

TEST(Lock, RanksMayBeTakenUpwardsAndAgainAfterRelease) {
  Lock low(LockRank::kCentral);
  Lock high(LockRank::kPageHeap);
  for (int i = 0; i < 2; ++i) {
    LockGuard first(low);
    LockGuard second(high);
    EXPECT_TRUE(low.is_held() && high.is_held());
  }
  high.lock();
  high.unlock();
  low.lock();
  low.unlock();
}

TEST(Lock, RanksAreCountedPerThread) {
  Lock low(LockRank::kCentral);
  Lock high(LockRank::kPageHeap);
  LockGuard guard(high);
  std::thread([&] { LockGuard elsewhere(low); }).join();
}

void take_downwards(Lock& high, Lock& low) {
  high.lock();
  low.lock();
}

void try_downwards(Lock& high, Lock& low) {
  high.lock();
  low.try_lock();
}

TEST(LocksInForkDeathTest, HasRanksOfItsOwnForEachObject) {
#ifdef NDEBUG
  GTEST_SKIP() << "ranks are checked in builds without NDEBUG: those with sanitizers";
#endif
  Lock low(LockRank::kCentral);
  Lock high(LockRank::kPageHeap);
  LocksInFork::begin();
  LocksInFork::hold(high);
  EXPECT_DEATH(LocksInFork::hold(low), "a lock was taken out of rank order");
  LocksInFork::begin_next();
  LocksInFork::hold(low);
  LocksInFork::end_in_parent();
}

constinit Lock g_lowest{LockRank::kHeapTable};
constinit std::atomic<int> g_handled{0};

/// Does what the malloc does in a signal handler.
void take_lowest_if_none_is_held(int) {
  if (!is_any_lock_held_here()) LockGuard guard(g_lowest);
  g_handled.fetch_add(1, std::memory_order_relaxed);
}

TEST(Lock, ASignalHandlerFindsNoRankOfALockThatDoesNotCount) {
#ifdef NDEBUG
  GTEST_SKIP() << "ranks are checked in builds without NDEBUG: those with sanitizers";
#endif
  constexpr int kSignals = 2000;
  struct sigaction handler = {};
  struct sigaction before;
  handler.sa_handler = take_lowest_if_none_is_held;
  sigaction(SIGUSR1, &handler, &before);
  const pthread_t interrupted = pthread_self();
  std::thread sender([&] {
    for (int handled = 0; handled < kSignals;) {
      const int sent_after = handled;
      pthread_kill(interrupted, SIGUSR1);
      while ((handled = g_handled.load(std::memory_order_relaxed)) == sent_after) sched_yield();
    }
  });
  while (g_handled.load(std::memory_order_relaxed) < kSignals) LockGuard guard(g_lock);
  sender.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(LockDeathTest, DiesOfAGuardThatUnlocksWhatItHasUnlocked) {
#ifdef NDEBUG
  GTEST_SKIP() << "checked in builds without NDEBUG: those with sanitizers";
#endif
  Lock lock(LockRank::kCentral);
  EXPECT_DEATH(
      {
        LockGuard guard(lock);
        guard.unlock();
      },
      "is_held\\(\\) does not hold");
}

TEST(LockDeathTest, DiesOnALockOfALowerRank) {
#ifdef NDEBUG
  GTEST_SKIP() << "ranks are checked in builds without NDEBUG: those with sanitizers";
#endif
  Lock low(LockRank::kCentral);
  Lock high(LockRank::kPageHeap);
  EXPECT_DEATH(take_downwards(high, low), "a lock was taken out of rank order");
  EXPECT_DEATH(try_downwards(high, low), "a lock was taken out of rank order");
}

}  // namespace
}  // namespace strata
