#pragma once

#include <strata/block_allocator.hpp>

#include <algorithm>
#include <optional>
#include <string>

#include "contenders/needs.h"
#include "harness/own_memory.h"

namespace strata::cell {

/// A BlockAllocator in its own buffer, with checks, and exactly the blocks that the load needs.
class BlockAllocatorMemory {
 public:
  static constexpr const char* kName = "block-allocator";
  static constexpr const char* kSentence =
      "strata::BlockAllocator: blocks of one size, for one thread";

  static std::optional<std::string> why_unfit(const Needs& needs) {
    if (needs.smallest_bytes != needs.largest_bytes) return "has blocks of one size";
    if (needs.threads > 1) return "serves one thread";
    return std::nullopt;
  }

  explicit BlockAllocatorMemory(const Needs& needs)
      : memory_(BlockAllocator::buffer_bytes(block_bytes(needs), needs.live_blocks)),
        blocks_(memory_.data(), memory_.size(), block_bytes(needs)) {}

  void* allocate(std::size_t) noexcept { return blocks_.allocate(); }
  void deallocate(void* p, std::size_t) noexcept { blocks_.deallocate(p); }

 private:
  static std::size_t block_bytes(const Needs& needs) {
    return std::max(needs.largest_bytes, BlockAllocator::kMinBlockBytes);
  }

  OwnMemory<std::byte, Owner::kContender> memory_;
  BlockAllocator blocks_;
};

}  // namespace strata::cell
