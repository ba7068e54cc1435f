#include "malloc/scavenger.h"

#include "os/process.h"

namespace strata {

void Scavenger::start() noexcept {
  if (delay_ms_ == 0 || os::monotonic_ns() < retry_ns_.load(std::memory_order_relaxed)) return;
  std::uint32_t expected = kAsleep;
  if (!state_.compare_exchange_strong(expected, kRunning, std::memory_order_relaxed)) return;
  // Starting a thread allocates: that calls notice() again, which sees kRunning.
  if (os::start_thread(thread_main, this)) return;
  retry_ns_.store(os::monotonic_ns() + delay_ms_ * 1'000'000, std::memory_order_relaxed);
  state_.store(kAsleep, std::memory_order_relaxed);
}

void* Scavenger::thread_main(void* self) noexcept {
  static_cast<Scavenger*>(self)->run();
  return nullptr;
}

void Scavenger::run() noexcept {
  const std::uint32_t never_changes = 0;
  for (;;) {
    os::wait_on(&never_changes, 0, delay_ms_ * 500'000);
    {
      LockGuard guard(round_lock_);
      engine_.release_unneeded();
    }
    if (engine_.idle_bytes() == 0 && !engine_.registry().has_parked()) break;
  }
  state_.store(kAsleep, std::memory_order_relaxed);
}

}  // namespace strata
