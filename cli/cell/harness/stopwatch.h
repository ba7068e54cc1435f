#pragma once

#include <cstdint>
#include <ctime>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace strata::cell {

/// The time of a kernel clock.
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

/// CPU time of this thread in seconds; excludes other programs' use of the machine.
inline double thread_cpu_s() noexcept { return clock_s(CLOCK_THREAD_CPUTIME_ID); }

/// Times single operations, by the time stamp counter if its rate is constant, else by the kernel's
/// clock. Call calibrate() before the first use; afterwards the state is read-only.
class Stopwatch {
 public:
  /// Measures the counter's rate and the cost of timing itself.
  /// \cost  Some 20 ms.
  static void calibrate() noexcept;

  /// Reads the clock, in ticks, after all earlier code has run.
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
  /// Reads the clock before any later code runs.
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

  /// The median time that an empty operation takes.
  static double cost_ns() noexcept { return cost_ns_; }

 private:
  static inline bool uses_counter_ = false;
  static inline double ps_per_tick_ = 1000;
  static inline double cost_ns_ = 0;
};

}  // namespace strata::cell
