#include "harness/stopwatch.h"

#include <algorithm>
#include <array>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace strata::cell {
namespace {

constexpr std::uint64_t kCalibrationNs = 20'000'000;
constexpr std::size_t kLaps = 1001;

/// Whether the counter's rate is constant, whatever the core's frequency.
[[maybe_unused]] bool has_invariant_counter() noexcept {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kPowerManagement = 0x80000007;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

void Stopwatch::calibrate() noexcept {
  uses_counter_ = has_invariant_counter();
  ps_per_tick_ = 1000;
  if (uses_counter_) {
    const std::uint64_t from_ns = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t from = start();
    std::uint64_t to_ns = from_ns;
    while (to_ns - from_ns < kCalibrationNs) to_ns = clock_ns(CLOCK_MONOTONIC);
    const std::uint64_t to = stop();
    ps_per_tick_ = 1000 * static_cast<double>(to_ns - from_ns) / static_cast<double>(to - from);
  }
  std::array<std::uint64_t, kLaps> laps;
  for (std::uint64_t& lap : laps) {
    const std::uint64_t started = start();
    lap = stop() - started;
  }
  std::nth_element(laps.begin(), laps.begin() + kLaps / 2, laps.end());
  cost_ns_ = static_cast<double>(picoseconds(laps[kLaps / 2])) / 1000;
}

}  // namespace strata::cell
