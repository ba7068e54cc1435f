#include "malloc/scavenger.h"

#include <algorithm>

#include "os/clock.h"
#include "os/resources.h"
#include "os/threads.h"

namespace strata {

void Scavenger::start() noexcept {
  if (delay_ms_ == 0 || os::monotonic_ns() < retry_ns_.load(std::memory_order_relaxed)) return;
  if (!engine_.has_idle(kWakeBytes) || is_running_.exchange(true, std::memory_order_relaxed))
    return;
  // Starting a thread allocates: that calls notice() again, which sees that this runs.
  if (thread_.start()) {
    threads_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (round_lock_.try_lock()) {
    run_round();
    round_lock_.unlock();
  }
  retry_ns_.store(os::monotonic_ns() + delay_ms_ * 1'000'000 / 2, std::memory_order_relaxed);
  is_running_.store(false, std::memory_order_relaxed);
}

void Scavenger::run() noexcept {
  do {
    if (!run_rounds()) return;  // and no thread follows: the process ends
    // A thread that freed after the last round saw that this runs and started no other: look once
    // more. notice() has no barrier of its own, so this one is in all threads: the look sees what a
    // thread freed before it, and a thread that frees after it sees that nothing runs.
    is_running_.exchange(false, std::memory_order_seq_cst);
    os::barrier_in_all_threads();
  } while (engine_.idle_bytes() >= kWakeBytes &&
           !is_running_.exchange(true, std::memory_order_relaxed));
}

/// \returns  false if the process ends
bool Scavenger::run_rounds() noexcept {
  const std::uint64_t delay_ns = delay_ms_ * 1'000'000;
  {
    LockGuard guard(round_lock_);
    run_round();  // the first interval begins
  }
  seen_peak_ = 0;
  make_room_for_others();
  std::uint64_t wait_ns = delay_ns / kFirstPart;
  for (int vain = 0; vain < kVainRounds || engine_.idle_bytes() >= kWakeBytes;) {
    if (!wait(wait_ns)) return false;
    wait_ns = std::min(2 * wait_ns, delay_ns / 2);
    LockGuard guard(round_lock_);
    vain = run_round() == 0 ? vain + 1 : 0;
  }
  return true;
}

/// Sleeps until the next round, but for looks at the process's peak.
/// \returns  false if the process ends
bool Scavenger::wait(std::uint64_t ns) noexcept {
  const std::atomic<std::uint32_t> never_changes{0};
  const std::uint64_t step_ns = std::max(delay_ms_ * 1'000'000 / kLookPart, kLeastLookNs);
  while (ns != 0) {
    const std::uint64_t now_ns = std::min(ns, step_ns);
    if (!os::HelperThread::wait(never_changes, 0, now_ns)) return false;
    ns -= now_ns;
    make_room_for_others();
  }
  return true;
}

/// Where the process's peak rises by more than its heap took, as much idle memory goes back: the
/// code of a program's next phase, its own mappings, stacks.
void Scavenger::make_room_for_others() noexcept {
  const std::size_t peak = os::most_resident_bytes();
  const std::size_t held = engine_.limit().held_bytes();
  if (seen_peak_ == 0) {
    seen_peak_ = peak;
    seen_held_ = held;
    untouched_ = held - std::min(held, peak);
  }
  const std::size_t rise = peak - std::min(peak, seen_peak_);
  const std::size_t gone = seen_held_ - std::min(held, seen_held_);
  const std::size_t taken = held - std::min(held, seen_held_);
  const std::size_t untouched = untouched_ - std::min(gone, untouched_) + taken;
  if (rise < kLookStep) return;
  const std::size_t of_heap = std::min(rise, untouched);
  std::size_t returned = 0;
  if (rise != of_heap && engine_.idle_hint() >= kWakeBytes) {
    LockGuard guard(round_lock_);
    returned = engine_.make_room_for_others(rise - of_heap);
    returned_.fetch_add(returned, std::memory_order_relaxed);
  }
  seen_peak_ = peak;
  seen_held_ = held - std::min(held, returned);
  untouched_ = untouched - of_heap;
}

/// \returns  bytes released
std::size_t Scavenger::run_round() noexcept {
  const std::size_t returned = engine_.release_unneeded();
  rounds_.fetch_add(1, std::memory_order_relaxed);
  returned_.fetch_add(returned, std::memory_order_relaxed);
  return returned;
}

}  // namespace strata
