#include "malloc/fork.h"

#include <atomic>

#include "base/lock.h"
#include "malloc/malloc_instance.h"
#include "os/process.h"
#include "os/stream_list.h"

namespace strata {
namespace {

// The parties, the latest first. release after one is complete, acquire before it is called
constinit std::atomic<ForkParty*> g_first{nullptr};
// Guarded by the lock of the list of streams; where the C library has none, by its own lock for
// these handlers.
constinit ForkParty* g_forking = nullptr;
/// The thread's unfinished calls of fork() that took no lock.
constinit thread_local std::uint16_t t_unlocked_forks = 0;

/// A signal handler that forks (to let a debugger look at what it interrupted) may interrupt the
/// malloc, or a fork() that holds its locks. Then the child gets the locks as they are, and does
/// without them as its parent does. Such forks end before what they interrupted goes on.
///
/// The lock of the list of streams comes first: fork() waits for it after this
/// (docs/decisions/0012).
void before_fork() noexcept {
  if (must_not_wait()) {
    ++t_unlocked_forks;
    return;
  }
  os::hold_stream_list();
  LocksInFork::begin();
  // One that joins meanwhile has no part in this fork.
  g_forking = g_first.load(std::memory_order_acquire);
  for (ForkParty* party = g_forking; party != nullptr; party = party->next_party) {
    LocksInFork::begin_next();
    party->before_fork();
  }
}

/// \returns  true if this is the end of a fork() that took no lock
bool ends_unlocked_fork() noexcept {
  if (t_unlocked_forks == 0) return false;
  --t_unlocked_forks;
  return true;
}

void after_fork_in_parent() noexcept {
  if (ends_unlocked_fork()) return;
  LocksInFork::end_in_parent();
  os::let_go_of_stream_list();
}

/// Calls the earliest party first.
void go_on_in_child(ForkParty* party) noexcept {
  if (party == nullptr) return;
  go_on_in_child(party->next_party);
  party->after_fork_in_child();
}

void after_fork_in_child() noexcept {
  if (ends_unlocked_fork()) return;
  LocksInFork::begin_child();
  go_on_in_child(g_forking);
  LocksInFork::end_in_child();
  os::reset_stream_list_in_child();
}

}  // namespace

bool take_part_in_forks(ForkParty& party) noexcept {
  party.next_party = g_first.load(std::memory_order_relaxed);
  g_first.store(&party, std::memory_order_release);
  if (party.next_party != nullptr) return true;
  return os::register_fork_handlers(before_fork, after_fork_in_parent, after_fork_in_child);
}

void MallocInstance::hold_locks_for_fork() noexcept {
  scavenger_.hold_locks_for_fork();
  profiler_.hold_locks_for_fork();
  guards_.hold_locks_for_fork();
  LocksInFork::hold(empties_.lock());
  checked_.hold_locks_for_fork();
  engine_.hold_locks_for_fork();
}

void MallocInstance::reset_after_fork(ThreadState& thread) noexcept {
  if (engine_.registry().live_threads() > 1) has_lost_threads_ = true;
  engine_.keep_only(thread.cache);
  const GuardPool::Statistics guarded = guards_.statistics();
  engine_.limit().recount(engine_.count_held() + guarded.live_bytes + guarded.waiting_bytes);
  scavenger_.reset_after_fork();
  verified_.store(0, std::memory_order_relaxed);  // as the child's CPU time begins at 0
}

}  // namespace strata
