#pragma once

#include <algorithm>
#include <cstdint>

#include "recorder/system.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace strata::recorder {

/// A counter that all processors agree on. Where the processor has none, the kernel's clock.
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

  /// Not before what the program did so far: otherwise a processor reads its counter while it still
  /// waits for the word that tells it what to free.
  std::uint64_t count_in_order() const noexcept {
#if defined(__x86_64__)
    if (has_counter_) {
      unsigned processor;
      return __rdtscp(&processor);
    }
#endif
    return monotonic_ns();
  }

  /// A processor may read it while it still waits for what stands before it: too early by less than
  /// kSkewNs, and for half the time of the above.
  std::uint64_t count() const noexcept {
#if defined(__x86_64__)
    if (has_counter_) return __rdtsc();
#endif
    return monotonic_ns();
  }

  // Chosen: far more than a processor has instructions under way for.
  static constexpr std::uint64_t kSkewNs = 5'000;
  std::uint64_t skew() const noexcept {
    constexpr std::uint64_t kMostCountsPerNs = 8;  // where little was measured yet
    return static_cast<std::uint64_t>(static_cast<Wide>(kSkewNs) * kOne /
                                      std::max(ns_per_count_, kOne / kMostCountsPerNs));
  }

  /// Takes the measure of the counter again.
  /// \threads  The writer's only.
  void measure() noexcept {
    if (!has_counter_) return;
    const std::uint64_t counted = count() - first_count_;
    if (counted == 0) return;
    const double ratio =
        static_cast<double>(monotonic_ns() - first_ns_) / static_cast<double>(counted);
    ns_per_count_ = static_cast<std::uint64_t>(ratio * static_cast<double>(kOne));
  }

  /// \returns  A count not before the one given, at which it is not yet `ns`, if it is not by then.
  /// \pre      `ns` is at most 2^23 after `count`
  std::uint64_t count_before(std::uint64_t ns, std::uint64_t count) const noexcept {
    const std::uint64_t now = ns_at(count) + 1;  // which it is at most
    return now >= ns ? count : count + ((ns - now) << kFractionBits) / (ns_per_count_ + 1);
  }

  /// Since prepare().
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
  std::uint64_t ns_per_count_ = kOne;  ///< with kFractionBits of a fraction
};

}  // namespace strata::recorder
