#include "base/lock.h"

#include <algorithm>
#include <iterator>

#include "base/fatal.h"
#include "os/wait.h"

namespace strata {
namespace {

// Long enough for the longest critical section of the fast layers (a batch of 64 objects into their
// spans, about a microsecond), short enough that a preempted holder costs its waiter little.
constexpr int kSpins = 64;

// Chosen: a thread that was woken has begun to run, where a processor is free.
constexpr std::uint64_t kGivesWayNs = 200'000;

// The number of the fork under way, 0 if there is none; with kAwaited, threads sleep until it ends.
constexpr std::uint32_t kAwaited = std::uint32_t{1} << 31;
constinit std::atomic<std::uint32_t> g_fork{0};
// Only the thread that forks uses it.
constinit std::uint32_t g_last_fork = 0;

#ifndef NDEBUG
// How many locks of each rank this thread holds.
thread_local std::uint16_t t_held[static_cast<int>(LockRank::kLeaf) + 1];
#endif

void forget_ranks() noexcept {
#ifndef NDEBUG
  std::fill(std::begin(t_held), std::end(t_held), 0);
#endif
}

}  // namespace

constinit thread_local std::atomic<std::uint32_t> t_locks_taken{0};

bool Lock::is_held_as(std::uint32_t state) noexcept {
  if (state < kFirstFork) return state != kFree;
  // acquire pairs with the release at a fork's end, or as a later one begins.
  return (g_fork.load(std::memory_order_acquire) & ~kAwaited) == state;
}

/// \returns  whether it was free, and now is in `state`
bool Lock::take_if_free(std::uint32_t state) noexcept {
  // acquire: where it has the number of a fork, that is seen to be under way.
  std::uint32_t seen = state_.load(std::memory_order_acquire);
  return !is_held_as(seen) && state_.compare_exchange_strong(seen, state, std::memory_order_acq_rel,
                                                             std::memory_order_relaxed);
}

/// \returns  whether other threads may still sleep
bool Lock::wait_and_take(std::uint32_t state, std::uint32_t state_after_sleep) noexcept {
  if (take_if_free(state)) return false;  // that of an earlier fork
  waits_.fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < kSpins; ++i) {
    if (take_if_free(state)) return false;
    os::relax_processor();
  }
  while (!take_if_free(state_after_sleep)) sleep();
  return true;
}

void Lock::take_slowly() noexcept { wait_and_take(kHeld, kContended); }

void Lock::sleep() noexcept {
  std::uint32_t seen = state_.load(std::memory_order_relaxed);
  if (seen >= kFirstFork) {
    const std::uint32_t awaited = seen | kAwaited;
    if (g_fork.compare_exchange_strong(seen, awaited, std::memory_order_relaxed) || seen == awaited)
      os::wait_on(os::futex_word(g_fork), awaited);
  } else if (seen == kContended ||
             (seen == kHeld &&
              state_.compare_exchange_strong(seen, kContended, std::memory_order_relaxed))) {
    os::wait_on(os::futex_word(state_), kContended);
  }
}

void Lock::give_way() noexcept {
  if (!has_sleepers()) return;
  unlock();
  // Behind those that sleep already. Who has slept wakes the next one as it releases the lock.
  os::wait_on(os::futex_word(state_), kFree, kGivesWayNs);
  // It may have been woken in place of a thread that sleeps behind it, and nobody else would wake
  // that one.
  wake_waiter();
  lock();
}

void Lock::wake_waiter() noexcept { os::wake_one(os::futex_word(state_)); }

#ifndef NDEBUG
void Lock::note_rank() noexcept {
  // Of the same rank a thread may hold several; LockRank says where it does.
  for (int above = static_cast<int>(rank_) + 1; above <= static_cast<int>(LockRank::kLeaf);
       ++above) {
    if (t_held[above] != 0)
      fatal("internal error, please report: a lock was taken out of rank order");
  }
  ++t_held[static_cast<int>(rank_)];
}

void Lock::forget_rank() noexcept { --t_held[static_cast<int>(rank_)]; }
#endif

void LocksInFork::begin() noexcept {
  Lock::count_taken();
  g_last_fork = std::max((g_last_fork + 1) & ~kAwaited, Lock::kFirstFork);
  g_fork.store(g_last_fork, std::memory_order_release);
}

void LocksInFork::begin_next() noexcept { forget_ranks(); }

void LocksInFork::hold(Lock& lock) noexcept {
  lock.note_rank();
  // Those that sleep still are to wait for the end of the fork instead.
  if (lock.wait_and_take(g_last_fork, g_last_fork)) os::wake_all(os::futex_word(lock.state_));
}

void LocksInFork::end_in_parent() noexcept {
  const std::uint32_t fork = g_fork.exchange(0, std::memory_order_release);
  if ((fork & kAwaited) != 0) os::wake_all(os::futex_word(g_fork));
  forget_ranks();
  Lock::count_released();
}

void LocksInFork::begin_child() noexcept {
  g_fork.store(0, std::memory_order_relaxed);
  forget_ranks();
}

void LocksInFork::end_in_child() noexcept { Lock::count_released(); }

}  // namespace strata
