#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guard/guards.h"
#include "malloc/detour.h"
#include "profile/sampling.h"

namespace strata {

/// Hands one in `rate` allocations to the guards. At rates below kLeastFreeRate the detour chooses
/// among all allocations with equal probability. From there on the hot path takes no part, and the
/// malloc opens windows (guard_windows.cpp).
/// Free asks the guards themselves (Guards::owns), which have to know how the object is freed.
class GuardWatcher final : public Watcher {
 public:
  // Chosen: from here on the time of guards does not show, wherever allocations are chosen.
  static constexpr std::size_t kLeastFreeRate = std::size_t{1} << 16;

  explicit constexpr GuardWatcher(Guards& guards) noexcept : guards_(guards) {}

  /// Call before the watch, and before there is a second thread.
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
  /// Draws the length of a window in allocations, of which the last is chosen.
  std::int64_t draw_window() noexcept { return sampling_.draw_interval(kWindow); }
  /// Leaves out blocks of 0 bytes: where every access to them is a fault, a guard would see less.
  void leave_empty_blocks() noexcept { leaves_empty_blocks_ = true; }
  Engine::Block allocate(const Allocation& allocation) noexcept override {
    if (leaves_empty_blocks_ && allocation.bytes == 0) return {nullptr, false};
    return {guards_.allocate(allocation.as_said()), true};
  }

  /// Counts a block beyond the size classes, in a program that did not ask for guards; only blocks
  /// that fit a slot count.
  /// \param left  the thread's: how many more blocks it allocates before it counts them here, since
  ///              all threads would write this word with each block; 0 at first. nullptr: it counts
  ///              each
  /// \returns  True if it is to be guarded: the first one, and after n of them one in 16 n, but at
  ///           least one in kBlockInterval.
  bool chooses_block(std::size_t bytes, std::int32_t* left) noexcept {
    if (bytes > GuardPool::kForBlocksOfAllPrograms.slot_bytes) return false;
    if (left != nullptr && --*left >= 0) return false;
    return chooses_counted_block(left);
  }

 private:
  [[gnu::noinline]] bool chooses_counted_block(std::int32_t* left) noexcept {
    std::uint64_t count = 1 + blocks_.load(std::memory_order_relaxed);
    if (left != nullptr) {
      *left = static_cast<std::int32_t>(std::min<std::uint64_t>(count / kPart, kMostUncounted));
      count += static_cast<std::uint64_t>(*left);
    }
    blocks_.store(count, std::memory_order_relaxed);
    if (count < next_block_.load(std::memory_order_relaxed) || !by_windows_) return false;
    const std::uint64_t interval = std::min<std::uint64_t>(16 * count, kBlockInterval);
    next_block_.store(count + 1 + static_cast<std::uint64_t>(sampling_.draw_interval(interval)),
                      std::memory_order_relaxed);
    return true;
  }

  // Chosen: long enough not to favour what immediately follows a slow path; each allocation in it
  // takes 40 instructions more.
  static constexpr std::size_t kWindow = 32;

  // Chosen: the part of the count that each thread may leave uncounted, and the most that it may.
  static constexpr std::uint64_t kPart = 64;
  static constexpr std::uint64_t kMostUncounted = 63;
  // Chosen: a guarded block costs some system calls and a fault for each page that is touched.
  static constexpr std::uint64_t kBlockInterval = 1u << 14;

  Guards& guards_;
  std::size_t rate_ = 0;
  bool by_windows_ = false;
  bool leaves_empty_blocks_ = false;
  Sampling sampling_{0};  // of calls, where a profile has bytes
  // relaxed: threads that count at once may count one, choose two, or none.
  std::atomic<std::uint64_t> blocks_{0};
  std::atomic<std::uint64_t> next_block_{1};
};

}  // namespace strata
