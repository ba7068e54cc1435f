#pragma once

#include <cstddef>
#include <cstdint>

#include "guard/guard_pool.h"
#include "malloc/detour.h"
#include "profile/sampling.h"

namespace strata {

/// Hands one in `rate` allocations to the GuardPool, each with the same chance.
/// A free asks the pool itself (GuardPool::owns), which has to know how the object is freed.
class GuardWatcher final : public Watcher {
 public:
  explicit constexpr GuardWatcher(GuardPool& pool) noexcept : pool_(pool) {}

  /// Before the watch.
  /// \pre  rate >= 1
  void configure(std::size_t rate, std::uint64_t seed) noexcept {
    rate_ = rate;
    sampling_.seed(seed);
  }

  std::int64_t draw_interval() noexcept override { return sampling_.draw_interval(rate_); }
  Engine::Block allocate(const Allocation& allocation) noexcept override {
    return {pool_.allocate(allocation.as_said()), true};
  }

 private:
  GuardPool& pool_;
  std::size_t rate_ = 1;
  Sampling sampling_{0};  // of calls, where a profile has bytes
};

}  // namespace strata
