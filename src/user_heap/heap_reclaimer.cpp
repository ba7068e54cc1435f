#include "user_heap/heap_reclaimer.h"

#include <algorithm>

#include "os/clock.h"
#include "os/threads.h"
#include "user_heap/heap_table.h"
#include "user_heap/user_heap.h"

namespace strata {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
// Chosen: a heap with a long delay may come while all others have longer ones.
constexpr std::uint64_t kMostSleepNs = 1000 * kMillisecond;

}  // namespace

void HeapReclaimer::notice(UserHeap& heap) noexcept {
  if (!heap.reclaims() || is_running_.load(std::memory_order_relaxed) ||
      heap.malloc_if_made()->engine().idle_hint() < kWakeBytes)
    return;
  const std::uint64_t now = os::monotonic_ns();
  if (now < retry_ns_.load(std::memory_order_relaxed) ||
      !heap.malloc_if_made()->engine().has_idle(kWakeBytes) ||
      is_running_.exchange(true, std::memory_order_relaxed))
    return;
  if (thread_.start()) return;
  retry_ns_.store(now + time_to_sleep(look_at_all(), now), std::memory_order_relaxed);
  is_running_.store(false, std::memory_order_relaxed);
}

void HeapReclaimer::run() noexcept {
  do {
    if (!run_rounds()) return;  // and no thread follows: the process ends
    // A thread that freed after the last look saw that this runs and started no other: look once
    // more. The barrier: as the malloc's scavenger.
    is_running_.exchange(false, std::memory_order_seq_cst);
    os::barrier_in_all_threads();
  } while (idle_bytes() >= kWakeBytes && !is_running_.exchange(true, std::memory_order_relaxed));
}

/// \returns  false if the process ends
bool HeapReclaimer::run_rounds() noexcept {
  const std::atomic<std::uint32_t> never_changes{0};
  for (int vain = 0;;) {
    const Round round = look_at_all();
    vain = round.returned == 0 ? vain + 1 : 0;
    if (round.idle == 0 || (vain >= kVainRounds && round.idle < kWakeBytes)) return true;
    const std::uint64_t sleep = time_to_sleep(round, os::monotonic_ns());
    if (!os::HelperThread::wait(never_changes, 0, sleep)) return false;
  }
}

/// How long to sleep after this round, until the next heap's turn.
std::uint64_t HeapReclaimer::time_to_sleep(const Round& round, std::uint64_t now) noexcept {
  const std::uint64_t sleep = round.next_ns > now ? round.next_ns - now : kMillisecond;
  return std::clamp(sleep, kMillisecond, kMostSleepNs);
}

/// Gives each heap whose turn it is a round.
HeapReclaimer::Round HeapReclaimer::look_at_all() noexcept {
  Round round{0, 0, ~std::uint64_t{0}};
  const std::uint64_t now = os::monotonic_ns();
  std::size_t number = 0;
  for (;;) {
    MallocInstance* malloc;
    {
      LockGuard guard(table_.lock());
      UserHeap* const heap = table_.next_made(number);
      if (heap == nullptr) return round;
      number = std::size_t{heap->number()} + 1;
      if (!heap->reclaims()) continue;
      malloc = heap->malloc_if_made();
      // What this round returns is still counted: only the next one can be the last.
      round.idle += malloc->engine().idle_bytes();
      if (now < heap->reclaim_at_ns) {
        round.next_ns = std::min(round.next_ns, heap->reclaim_at_ns);
        continue;
      }
      if (!malloc->round_lock().try_lock()) {
        round.next_ns = now;  // it is being reset or counted: soon again
        continue;
      }
      // From here on it cannot end.
      heap->reclaim_at_ns = now + heap->reclaim_delay_ms() * kMillisecond / 2;
      round.next_ns = std::min(round.next_ns, heap->reclaim_at_ns);
    }
    round.returned += malloc->engine().release_unneeded();
    malloc->round_lock().unlock();
  }
}

std::size_t HeapReclaimer::idle_bytes() noexcept {
  std::size_t bytes = 0;
  LockGuard guard(table_.lock());
  table_.for_each_made([&](UserHeap& heap) {
    if (heap.reclaims()) bytes += heap.malloc_if_made()->engine().idle_bytes();
  });
  return bytes;
}

}  // namespace strata
