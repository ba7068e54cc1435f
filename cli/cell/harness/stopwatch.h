#pragma once

#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace strata::cell {

/// What a clock of the kernel's shows.
inline std::uint64_t clock_ns(clockid_t clock) noexcept {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}
inline double clock_s(clockid_t clock) noexcept {
  return static_cast<double>(clock_ns(clock)) * 1e-9;
}

inline double now_s() noexcept { return clock_s(CLOCK_MONOTONIC); }

/// Seconds that this thread was on a processor: what others take of the machine is not in it.
inline double thread_cpu_s() noexcept { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

/// Times single operations: the processor's time stamp counter where it runs at a constant rate,
/// else the kernel's clock. calibrate() before the first use; after that it only reads.
class Stopwatch {
 public:
  /// Finds the counter's rate and what timing nothing gives.
  /// \cost  Some 20 ms.
  static void calibrate() noexcept;

  /// A moment, in ticks; what came before it in the program has happened.
  static std::uint64_t start() noexcept {
#if defined(__x86_64__)
    if (uses_counter_) {
      _mm_lfence();
      std::uint64_t ticks = __rdtsc();
      _mm_lfence();
      return ticks;
    }
#endif
    return clock_ns(CLOCK_MONOTONIC);
  }
  /// The same; what comes after it has not begun.
  static std::uint64_t stop() noexcept {
#if defined(__x86_64__)
    if (uses_counter_) {
      unsigned ignored = 0;
      std::uint64_t ticks = __rdtscp(&ignored);
      _mm_lfence();
      return ticks;
    }
#endif
    return clock_ns(CLOCK_MONOTONIC);
  }

  static std::uint64_t picoseconds(std::uint64_t ticks) noexcept {
    return static_cast<std::uint64_t>(static_cast<double>(ticks) * ps_per_tick_);
  }

  /// The median of timing nothing.
  static double cost_ns() noexcept { return cost_ns_; }

 private:
  static inline bool uses_counter_ = false;
  static inline double ps_per_tick_ = 1000;
  static inline double cost_ns_ = 0;
};

}  // namespace strata::cell
