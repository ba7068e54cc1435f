#include "base/lock.h"

#include "base/fatal.h"
#include "os/wait.h"

namespace strata {
namespace {

// Long enough for the longest critical section of the fast layers (a batch of 64 objects into their
// spans, about a microsecond), short enough that a preempted holder costs its waiter little.
constexpr int kSpins = 64;

#ifndef NDEBUG
// How many locks of each rank this thread holds.
thread_local std::uint16_t t_held[static_cast<int>(LockRank::kLeaf) + 1];
#endif

}  // namespace

constinit thread_local std::atomic<std::uint32_t> t_locks_taken{0};

void Lock::lock_slowly() noexcept {
  waits_.fetch_add(1, std::memory_order_relaxed);
  for (int i = 0; i < kSpins; ++i) {
    std::uint32_t expected = kFree;
    if (state_.load(std::memory_order_relaxed) == kFree &&
        state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return;
    }
    os::relax_processor();
  }
  while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
    os::wait_on(os::futex_word(state_), kContended);
  }
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

}  // namespace strata
