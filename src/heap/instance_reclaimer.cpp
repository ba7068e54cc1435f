#include "heap/instance_reclaimer.h"

#include "heap/heap_instance.h"
#include "os/clock.h"
#include "os/wait.h"

namespace strata {

void InstanceReclaimer::wake() noexcept {
  std::uint32_t expected = state_.load(std::memory_order_seq_cst);
  if (expected == kEnding) {  // it goes on
    state_.compare_exchange_strong(expected, kBusy, std::memory_order_seq_cst);
  }
  if (expected != kNone || os::monotonic_ns() < retry_ns_.load(std::memory_order_relaxed)) return;
  if (!state_.compare_exchange_strong(expected, kBusy, std::memory_order_seq_cst)) return;
  // Starting a thread may allocate: what that frees here sees kBusy.
  if (thread_.start()) return;
  bool is_young = false;
  instance_.sweep(false, is_young);
  retry_ns_.store(os::monotonic_ns() + delay_ns(), std::memory_order_relaxed);
  state_.store(kNone, std::memory_order_seq_cst);
}

void InstanceReclaimer::stop() noexcept {
  std::uint32_t state = state_.exchange(kStopping, std::memory_order_seq_cst);
  if (state == kNone || state == kGone) {
    state_.store(kGone, std::memory_order_seq_cst);
    return;
  }
  os::wake_all(os::futex_word(state_));
  while (state_.load(std::memory_order_seq_cst) != kGone)
    os::wait_on(os::futex_word(state_), kStopping);
}

void InstanceReclaimer::run(void* self) noexcept { static_cast<InstanceReclaimer*>(self)->loop(); }

std::uint64_t InstanceReclaimer::delay_ns() const noexcept {
  return std::uint64_t{instance_.options().reclaim_delay_ms} * 1'000'000 + 1;
}

void InstanceReclaimer::loop() noexcept {
  while (os::HelperThread::wait(state_, kBusy, delay_ns()) &&
         state_.load(std::memory_order_seq_cst) != kStopping) {
    bool is_young = false;
    instance_.sweep(false, is_young);
    if (is_young || instance_.has_dirty_heap()) continue;
    std::uint32_t expected = kBusy;
    if (!state_.compare_exchange_strong(expected, kEnding, std::memory_order_seq_cst)) break;
    if (instance_.has_dirty_heap()) wake();
    // The last touch of this object, if nobody wants it to go on or to stop: it may be destroyed.
    expected = kEnding;
    if (state_.compare_exchange_strong(expected, kNone, std::memory_order_seq_cst)) return;
  }
  // The same, for a thread that waits for it. The wake then names an address only, and a stray one
  // wakes no thread.
  const std::uint32_t* at = os::futex_word(state_);
  state_.store(kGone, std::memory_order_seq_cst);
  os::wake_all(at);
}

}  // namespace strata
