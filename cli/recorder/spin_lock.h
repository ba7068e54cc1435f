#pragma once

#include <atomic>
#include <cstdint>

#include "os/wait.h"

namespace strata::recorder {

/// A lock for a few instructions; also held across fork. It keeps no per-thread count of locks, so
/// it needs no thread-local variable.
class SpinLock {
 public:
  void lock() noexcept {
    lock_while([] { return true; });
  }
  /// Waits only while the condition is true; after that the caller goes on without the lock.
  template <typename Condition>
  void lock_while(Condition condition) noexcept {
    // acquire pairs with unlock()'s release.
    for (unsigned tries = 1; held_.exchange(1, std::memory_order_acquire) != 0 && condition();
         ++tries) {
      os::relax_processor();
      if (tries % 64 == 0) os::wait_on(&word_, 0, kPauseNs);
    }
  }
  void unlock() noexcept { held_.store(0, std::memory_order_release); }

 private:
  static constexpr std::uint64_t kPauseNs = 50'000;
  std::atomic<std::uint32_t> held_{0};
  std::uint32_t word_ = 0;  // never changes: waiting on it is a pause
};

}  // namespace strata::recorder
