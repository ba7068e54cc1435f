#pragma once

#include <strata/coalescing_heap.hpp>

#include <algorithm>
#include <cstddef>

#include "contenders/needs.h"

namespace strata::cell {

/// A CoalescingHeap in its own region, twice the size of the load's live blocks.
class CoalescingHeapMemory {
 public:
  static constexpr const char* kName = "coalescing-heap";
  static constexpr const char* kSentence =
      "strata::CoalescingHeap: any size in one region, for one thread";

  static const char* why_unfit(const Needs& needs) { return needs.why_not_one_thread(); }

  explicit CoalescingHeapMemory(const Needs& needs) : CoalescingHeapMemory(region_bytes(needs)) {}
  explicit CoalescingHeapMemory(std::size_t region_bytes) : heap_(region_bytes) {}

  void* allocate(std::size_t bytes) noexcept { return heap_.allocate(bytes); }
  void deallocate(void* p, std::size_t) noexcept { heap_.deallocate(p); }
  void* reallocate(void* p, std::size_t, std::size_t bytes) noexcept {
    return heap_.reallocate(p, bytes);
  }

 private:
  static std::size_t region_bytes(const Needs& needs) {
    std::size_t tags = needs.live_blocks * CoalescingHeap::kMinBlockBytes;
    return std::min(2 * (needs.bytes() + tags) + (1 << 20), CoalescingHeap::kMaxRegionBytes);
  }

  CoalescingHeap heap_;
};

}  // namespace strata::cell
