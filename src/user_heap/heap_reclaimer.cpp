#include "user_heap/heap_reclaimer.h"

#include <algorithm>

#include "os/clock.h"
#include "os/threads.h"
#include "os/wait.h"
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
      is_running_.exchange(true, std::memory_order_relaxed))
    return;
  if (os::start_thread(thread_main, this)) return;
  retry_ns_.store(now + kMostSleepNs, std::memory_order_relaxed);
  is_running_.store(false, std::memory_order_relaxed);
}

void* HeapReclaimer::thread_main(void* self) noexcept {
  static_cast<HeapReclaimer*>(self)->run();
  return nullptr;
}

void HeapReclaimer::run() noexcept {
  const std::uint32_t never_changes = 0;
  int vain = 0;
  for (;;) {
    const Round round = look_at_all();
    vain = round.returned == 0 ? vain + 1 : 0;
    if (round.idle == 0 || (vain >= kVainRounds && round.idle < kWakeBytes)) break;
    const std::uint64_t now = os::monotonic_ns();
    const std::uint64_t sleep = round.next_ns > now ? round.next_ns - now : kMillisecond;
    os::wait_on(&never_changes, 0, std::clamp(sleep, kMillisecond, kMostSleepNs));
  }
  // Who freed after the last look saw that this runs: its next slow path starts another one.
  is_running_.store(false, std::memory_order_relaxed);
}

/// Gives each heap whose turn it is a round.
HeapReclaimer::Round HeapReclaimer::look_at_all() noexcept {
  Round round{0, 0, ~std::uint64_t{0}};
  const std::uint64_t now = os::monotonic_ns();
  std::size_t number = 0;
  for (;;) {
    UserHeap* heap;
    bool is_due;
    {
      LockGuard guard(table_.lock());
      heap = table_.next_made(number);
      if (heap == nullptr) return round;
      number = std::size_t{heap->number()} + 1;
      if (!heap->reclaims()) continue;
      is_due = now >= heap->reclaim_at_ns;
      if (is_due) heap->reclaim_at_ns = now + heap->reclaim_delay_ms() * kMillisecond / 2;
      round.next_ns = std::min(round.next_ns, heap->reclaim_at_ns);
      if (!heap->round_lock.try_lock()) continue;  // it is being reset
      // From here on it cannot end.
    }
    Engine& engine = heap->malloc_if_made()->engine();
    if (is_due) round.returned += engine.release_unneeded();
    round.idle += engine.idle_bytes();
    heap->round_lock.unlock();
  }
}

}  // namespace strata
