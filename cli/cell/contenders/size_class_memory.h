#pragma once

#include <strata/size_class_allocator.hpp>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "contenders/needs.h"
#include "harness/cell.h"

namespace strata::cell {

/// A SizeClassAllocator, with checks. Its classes are an eighth to a quarter apart, up to the
/// load's largest size. Each class has room for the whole load: unused runs are only address space.
class SizeClassMemory {
 public:
  static constexpr const char* kName = "size-classes";
  static constexpr const char* kSentence =
      "strata::SizeClassAllocator: a few small sizes, for one thread";

  static const char* why_unfit(const Needs& needs) {
    if (const char* const why = needs.why_not_one_thread()) return why;
    if (needs.largest_bytes > kLargest) return "serves small sizes";
    return run_bytes(needs) > SizeClassAllocator::kMaxRunBytes ? "has runs of 2 GiB at most"
                                                               : nullptr;
  }

  explicit SizeClassMemory(const Needs& needs) : classes_(make(needs)) {}

  void* allocate(std::size_t bytes) noexcept { return classes_.try_allocate(bytes); }
  void deallocate(void* p, std::size_t) noexcept { classes_.deallocate(p); }

 private:
  static constexpr std::size_t kLargest = 4096;
  static constexpr std::size_t kBookkeeping = 9;  // bytes per block, in its run

  static std::vector<std::size_t> sizes_for(const Needs& needs) {
    std::vector<std::size_t> sizes;
    for (std::size_t size = 16; size < needs.largest_bytes;) {
      if (size >= needs.smallest_bytes) sizes.push_back(size);
      size += std::max<std::size_t>(16, std::bit_floor(size) / 4);
    }
    sizes.push_back(std::max<std::size_t>(8, (needs.largest_bytes + 7) / 8 * 8));
    return sizes;
  }

  static std::size_t run_bytes(const Needs& needs) {
    const std::size_t largest = std::max<std::size_t>(16, needs.largest_bytes + 7);
    return std::bit_ceil((largest + kBookkeeping) * needs.live_blocks + 4096);
  }

  static SizeClassAllocator make(const Needs& needs) {
    const std::vector<std::size_t> sizes = sizes_for(needs);
    const char* reason = "";
    auto made = SizeClassAllocator::try_create(sizes.data(), sizes.size(), run_bytes(needs),
                                               nullptr, &reason);
    if (!made) report_unfit(reason);
    return std::move(*made);
  }

  SizeClassAllocator classes_;
};

}  // namespace strata::cell
