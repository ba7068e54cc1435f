#pragma once

#include <algorithm>
#include <cstdint>

#include "recorder/system.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace strata::recorder {

/// The processor's time stamp counter if it is consistent across processors, else the kernel's
/// clock.
class Clock {
 public:
  void prepare() noexcept {
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kInvariant = 1u << 8;
    has_counter_ = __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
#endif
    first_ns_ = monotonic_ns();
    first_count_ = count();
    ns_per_count_ = has_counter_ ? 0 : kOne;
  }

  /// Reads the counter after all earlier instructions. Otherwise the processor could read it while
  /// it still waits for the pointer to be freed.
  std::uint64_t count_in_order() const noexcept {
#if defined(__x86_64__)
    if (has_counter_) {
      unsigned processor;
      return __rdtscp(&processor);
    }
#endif
    return monotonic_ns();
  }

  /// Reads the counter without waiting for earlier instructions: less than kSkewNs early, in half
  /// the time of count_in_order().
  std::uint64_t count() const noexcept {
#if defined(__x86_64__)
    if (has_counter_) return __rdtsc();
#endif
    return monotonic_ns();
  }

  // Chosen: far longer than instructions stay in flight.
  static constexpr std::uint64_t kSkewNs = 5'000;
  std::uint64_t skew() const noexcept {
    // An upper bound, until the rate has been measured.
    constexpr std::uint64_t kMostCountsPerNs = 8;
    return static_cast<std::uint64_t>(static_cast<Wide>(kSkewNs) * kOne /
                                      std::max(ns_per_count_, kOne / kMostCountsPerNs));
  }

  /// Measures the counter's rate again.
  /// \threads  Only the writer.
  void measure() noexcept {
    if (!has_counter_) return;
    const std::uint64_t counted = count() - first_count_;
    if (counted == 0) return;
    const double ratio =
        static_cast<double>(monotonic_ns() - first_ns_) / static_cast<double>(counted);
    ns_per_count_ = static_cast<std::uint64_t>(ratio * static_cast<double>(kOne));
  }

  /// \returns  A count >= `count` whose time is still before `ns`; `count` if there is none.
  /// \pre      `ns` is at most 2^23 after `count`
  std::uint64_t count_before(std::uint64_t ns, std::uint64_t count) const noexcept {
    const std::uint64_t now = ns_at(count) + 1;  // an upper bound of the time
    return now >= ns ? count : count + ((ns - now) << kFractionBits) / (ns_per_count_ + 1);
  }

  /// Nanoseconds since prepare().
  std::uint64_t ns_at(std::uint64_t count) const noexcept {
    if (count <= first_count_) return 0;
    return static_cast<std::uint64_t>(static_cast<Wide>(count - first_count_) * ns_per_count_ >>
                                      kFractionBits);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  static constexpr unsigned kFractionBits = 40;
  static constexpr std::uint64_t kOne = std::uint64_t{1} << kFractionBits;

  bool has_counter_ = false;
  std::uint64_t first_count_ = 0;
  std::uint64_t first_ns_ = 0;
  std::uint64_t ns_per_count_ = kOne;  ///< fixed point, with kFractionBits fraction bits
};

}  // namespace strata::recorder
