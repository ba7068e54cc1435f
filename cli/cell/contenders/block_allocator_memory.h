#pragma once

#include <strata/block_allocator.hpp>

#include <algorithm>

#include "contenders/needs.h"
#include "harness/own_memory.h"

namespace strata::cell {

/// A BlockAllocator in its own buffer, with checks, and exactly the blocks that the load needs.
class BlockAllocatorMemory {
 public:
  static constexpr const char* kName = "block-allocator";
  static constexpr const char* kSentence =
      "strata::BlockAllocator: blocks of one size, for one thread";

  static const char* why_unfit(const Needs& needs) { return needs.why_not_one_size_and_thread(); }

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
