#include "heap/heap_reclaimer.h"

#include "heap/heap_instance.h"
#include "os/clock.h"
#include "os/threads.h"
#include "os/wait.h"

namespace strata {
namespace {

const std::uint32_t* word(const std::atomic<std::uint32_t>& state) noexcept {
  return reinterpret_cast<const std::uint32_t*>(&state);
}

}  // namespace

void HeapReclaimer::wake() noexcept {
  std::uint32_t expected = state_.load(std::memory_order_seq_cst);
  if (expected == kResting) {
    if (state_.compare_exchange_strong(expected, kBusy, std::memory_order_seq_cst)) {
      os::wake_all(word(state_));
    }
  } else if (expected == kNone) {
    if (!state_.compare_exchange_strong(expected, kBusy, std::memory_order_seq_cst)) return;
    // Refused, it is tried again by the next heap that turns dirty.
    if (!os::start_thread(run, this)) state_.store(kNone, std::memory_order_seq_cst);
  }
}

void HeapReclaimer::stop() noexcept {
  std::uint32_t state = state_.exchange(kStopping, std::memory_order_seq_cst);
  if (state == kNone) {
    state_.store(kGone, std::memory_order_seq_cst);
    return;
  }
  os::wake_all(word(state_));
  while (state_.load(std::memory_order_seq_cst) != kGone) os::wait_on(word(state_), kStopping);
}

void* HeapReclaimer::run(void* self) noexcept {
  static_cast<HeapReclaimer*>(self)->loop();
  return nullptr;
}

void HeapReclaimer::wait_while(std::uint32_t state, std::uint64_t timeout_ns) noexcept {
  const std::uint64_t start = os::monotonic_ns();
  while (state_.load(std::memory_order_seq_cst) == state) {
    const std::uint64_t waited = os::monotonic_ns() - start;
    if (timeout_ns != 0 && waited >= timeout_ns) return;
    os::wait_on(word(state_), state, timeout_ns != 0 ? timeout_ns - waited : 0);
  }
}

void HeapReclaimer::loop() noexcept {
  const std::uint64_t delay_ns =
      std::uint64_t{instance_.options().reclaim_delay_ms} * 1'000'000 + 1;
  while (true) {
    wait_while(kBusy, delay_ns);
    if (state_.load(std::memory_order_seq_cst) == kStopping) break;
    bool is_young = false;
    instance_.sweep(false, is_young);
    if (is_young || instance_.has_dirty_heap()) continue;
    std::uint32_t expected = kBusy;
    if (!state_.compare_exchange_strong(expected, kResting, std::memory_order_seq_cst)) break;
    if (instance_.has_dirty_heap()) {
      expected = kResting;
      state_.compare_exchange_strong(expected, kBusy, std::memory_order_seq_cst);
    }
    wait_while(kResting, 0);
  }
  // The last touch of this object: a thread that waits for it may destroy it at once. The wake then
  // names an address only, and a stray one wakes no thread.
  const std::uint32_t* at = word(state_);
  state_.store(kGone, std::memory_order_seq_cst);
  os::wake_all(at);
}

}  // namespace strata
