#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace strata {

/// When a region is backed by huge pages.
enum class HugePages : std::uint8_t {
  kNever,
  kAuto,  ///< once the heap is so large that a region more or less does not show in its RSS
  kAlways,
  kSystem,  ///< as the system's settings say: no advice either way
};

/// Decides which regions ask for huge pages. RegionSource owns it. Under kAuto, regions of a large
/// heap do, as long as the kernel provides huge pages quickly. Where a virtual machine's host has
/// to find memory for one first, or the kernel has to move other pages, a huge page takes longer
/// than all the small ones.
/// \threads  One at a time; the owner's lock guards it.
class HugePagePolicy {
 public:
  void configure(HugePages huge_pages) noexcept { huge_pages_ = huge_pages; }

  /// Whether the kernel is advised at all.
  bool is_told() const noexcept { return huge_pages_ != HugePages::kSystem; }

  /// Whether the first touch of such a region is timed.
  bool is_measured() const noexcept { return huge_pages_ == HugePages::kAuto; }

  /// Whether a region that begins now, in a heap of so many, should ask for huge pages.
  bool is_worth_it(std::size_t regions, bool is_above_soft_limit) const noexcept {
    if (!is_measured()) return huge_pages_ == HugePages::kAlways;
    return is_large(regions) && paused_ == 0 && !is_above_soft_limit;
  }
  /// The same, for a region that does begin; counts it.
  bool choose(std::size_t regions, bool is_above_soft_limit) noexcept {
    if (is_worth_it(regions, is_above_soft_limit)) return true;
    if (paused_ != 0) --paused_;
    return false;
  }

  /// Takes the duration of the first touch of a region that asked. After a slow one some regions
  /// get small pages, twice as many each time; each quick one shortens the next pause.
  void note_first_touch(std::uint64_t ns) noexcept {
    if (ns < kHugePageNs) return;
    if (ns > kSlowHugePageNs) {
      paused_ = pause_;
      pause_ = std::min(2 * pause_, kLongestPause);
    } else {
      pause_ = std::max(pause_ - kStep, kFirstPause);
    }
  }

  /// Whether a heap of so many regions may have huge pages.
  static constexpr bool is_large(std::size_t regions) noexcept { return regions >= kFromRegions; }

 private:
  // Chosen: from 32 MiB of heap on, a region that is backed whole before it is full (2 MiB at the
  // most, one at a time) costs below 7% and falling.
  static constexpr std::size_t kFromRegions = 16;
  // Chosen: small pages for a whole region take some 0.3 to 0.9 ms; a huge page takes 0.1 to 0.3 ms
  // where its memory is at hand, and some 5 ms where it is not: what twenty others gain.
  static constexpr std::uint64_t kSlowHugePageNs = 1'000'000;
  // Chosen: a huge page cannot be cleared faster; another thread touched the region first, or the
  // kernel had no huge page for it.
  static constexpr std::uint64_t kHugePageNs = 30'000;
  // Chosen, in regions.
  static constexpr std::uint32_t kFirstPause = 8;
  static constexpr std::uint32_t kLongestPause = 128;
  static constexpr std::uint32_t kStep = 8;

  HugePages huge_pages_ = HugePages::kAuto;
  std::uint32_t pause_ = kFirstPause;  // after the next slow huge page
  std::uint32_t paused_ = 0;           // regions that still get small pages
};

}  // namespace strata
