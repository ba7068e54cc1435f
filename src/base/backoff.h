#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace strata {

/// For how long an expensive attempt is not repeated after it was in vain: kTimes as long as it
/// took, but at least kLeastNs and at most kMostNs. So a program that goes on asking for what it
/// cannot get spends at most a ninth of its time in such attempts, unless one takes seconds.
///
/// The process's SharedLimit has one: its layout is fixed.
/// \threads  Any number at once. relaxed: it is a hint, and orders nothing.
class Backoff {
 public:
  constexpr Backoff() noexcept = default;

  bool is_on(std::uint64_t now_ns) const noexcept {
    return now_ns < until_ns_.load(std::memory_order_relaxed);
  }
  /// \param now_ns   when the attempt ended
  /// \param took_ns  how long it took
  void begin(std::uint64_t now_ns, std::uint64_t took_ns) noexcept {
    until_ns_.store(now_ns + std::clamp(kTimes * took_ns, kLeastNs, kMostNs),
                    std::memory_order_relaxed);
  }

 private:
  // Chosen: long enough that a program which goes on asking pays nothing, and too short to notice.
  static constexpr std::uint64_t kLeastNs = 1'000'000;
  static constexpr std::uint64_t kTimes = 8;
  // Chosen: for a process that was stopped meanwhile; the attempt then seems to have been long.
  static constexpr std::uint64_t kMostNs = 10'000'000'000;

  std::atomic<std::uint64_t> until_ns_{0};
};
static_assert(sizeof(Backoff) == sizeof(std::uint64_t), "SharedLimit's layout is fixed");

}  // namespace strata
