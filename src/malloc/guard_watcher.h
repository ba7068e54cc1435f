#pragma once

#include <cstddef>
#include <cstdint>

#include "guard/guard_pool.h"
#include "malloc/detour.h"
#include "profile/sampling.h"

namespace strata {

/// Hands one in `rate` allocations to the GuardPool. Rates below kLeastFreeRate choose among all
/// allocations, each with the same chance, by the detour; from there on the hot path goes without,
/// and Malloc opens windows (guard_windows.cpp).
/// A free asks the pool itself (GuardPool::owns), which has to know how the object is freed.
class GuardWatcher final : public Watcher {
 public:
  // Chosen: guards then take no time that shows, wherever the allocations are chosen.
  static constexpr std::size_t kLeastFreeRate = std::size_t{1} << 16;

  explicit constexpr GuardWatcher(GuardPool& pool) noexcept : pool_(pool) {}

  /// Before the watch, and before a second thread.
  void configure(std::size_t rate, std::uint64_t seed) noexcept {
    configure(rate, seed, rate >= kLeastFreeRate);
  }
  void configure(std::size_t rate, std::uint64_t seed, bool by_windows) noexcept {
    rate_ = rate;
    by_windows_ = by_windows;
    sampling_.seed(seed);
  }
  bool opens_windows() const noexcept { return by_windows_; }

  std::int64_t draw_interval() noexcept override { return sampling_.draw_interval(rate_); }
  /// How many allocations a window goes on for until one is chosen.
  std::int64_t draw_window() noexcept { return sampling_.draw_interval(kWindow); }
  Engine::Block allocate(const Allocation& allocation) noexcept override {
    return {pool_.allocate(allocation.as_said()), true};
  }

 private:
  // Chosen: long enough that what follows a slow path at once is not favoured; each allocation in
  // it takes 40 instructions more.
  static constexpr std::size_t kWindow = 32;

  GuardPool& pool_;
  std::size_t rate_ = 0;
  bool by_windows_ = false;
  Sampling sampling_{0};  // of calls, where a profile has bytes
};

}  // namespace strata
