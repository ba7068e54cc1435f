#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "span/kept_ranges.h"

namespace strata {

/// Freed mappings whose memory went back to the kernel but whose addresses did not: the process has
/// no mappings left to cut them out, as at vm.max_map_count. HugeHeap owns them. They wait, in a
/// queue linked through their own first bytes, to be unmapped or reused, so each holds a page (a
/// huge one where that was advised). Accepted: bookkeeping elsewhere might need a new mapping
/// exactly when there is none.
/// \threads  One at a time, under its owner's lock.
class StuckRanges {
 public:
  using Range = KeptRanges::Range;

  constexpr StuckRanges() noexcept = default;

  std::size_t bytes() const noexcept { return bytes_; }

  /// \pre  the range's first bytes are writable
  void add(Range range) noexcept {
    Stuck* const added = new (reinterpret_cast<void*>(range.address)) Stuck{nullptr, range.bytes};
    (last_ != nullptr ? last_->next : first_) = added;
    last_ = added;
    bytes_ += range.bytes;
  }
  /// Takes the range that waited longest.
  /// \returns  {} if there is none
  Range take() noexcept { return first_ != nullptr ? take_after(nullptr) : Range{}; }
  /// Takes the front of one of the first kMostLooks ranges that holds an aligned block; the rest
  /// goes on waiting.
  /// \returns  {} if there is none
  Range take_fitting(std::size_t bytes, std::size_t alignment) noexcept {
    Stuck* before = nullptr;
    Stuck* range = first_;
    for (int looks = 0; range != nullptr && looks < kMostLooks; ++looks) {
      const auto address = reinterpret_cast<std::uintptr_t>(range);
      if (range->bytes >= bytes && address % alignment == 0) {
        const std::size_t rest = take_after(before).bytes - bytes;
        if (rest != 0) add({address + bytes, rest});
        return {address, bytes};
      }
      before = range;
      range = range->next;
    }
    return {};
  }

 private:
  struct Stuck {
    Stuck* next;
    std::size_t bytes;
  };
  // Chosen: each look is a cache miss.
  static constexpr int kMostLooks = 64;

  Range take_after(Stuck* before) noexcept {
    Stuck* const taken = before != nullptr ? before->next : first_;
    (before != nullptr ? before->next : first_) = taken->next;
    if (last_ == taken) last_ = before;
    bytes_ -= taken->bytes;
    return {reinterpret_cast<std::uintptr_t>(taken), taken->bytes};
  }

  Stuck* first_ = nullptr;
  Stuck* last_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace strata
