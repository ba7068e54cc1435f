#pragma once

#include <strata/coalescing_heap.hpp>

#include <cstddef>
#include <cstdint>

#include "heap/block_tag.h"

namespace strata {

/// A block as its heap sees it. The links, and the size in its last word, mean something only while
/// it is free.
struct CoalescingHeap::FreeBlock {
  BlockTag tag;
  std::uint32_t next;      // in the list of its bin; 0 ends it
  std::uint32_t previous;  // 0 in the head

  std::uint32_t granules() const noexcept { return tag.load_size() >> 1; }
  bool has_free_previous() const noexcept { return (tag.load_size() & 1) != 0; }
  BlockState state() const noexcept { return tag.state_in(tag.load_seal(), granules()); }
  void* user() noexcept { return &next; }

  /// The last word of the block in front, which holds its size if that is free.
  std::uint32_t& size_of_previous() noexcept {
    return *(reinterpret_cast<std::uint32_t*>(this) - 1);
  }
};

inline CoalescingHeap::FreeBlock* CoalescingHeap::at(std::uint32_t index) const noexcept {
  return reinterpret_cast<FreeBlock*>(base_ + std::size_t{index} * kGranuleBytes);
}

constexpr std::uint32_t kMinGranules =
    CoalescingHeap::kMinBlockBytes / CoalescingHeap::kGranuleBytes;

/// Size of the smallest block, tag included, that serves `bytes`, a number below kMaxRegionBytes.
constexpr std::uint32_t granules_for(std::size_t bytes) noexcept {
  const std::size_t granules =
      (bytes + BlockTag::kBytes + BlockTag::kGranuleBytes - 1) / BlockTag::kGranuleBytes;
  return granules < kMinGranules ? kMinGranules : static_cast<std::uint32_t>(granules);
}

/// What the user gets of a block.
constexpr std::size_t user_bytes(std::uint32_t granules) noexcept {
  return std::size_t{granules} * BlockTag::kGranuleBytes - BlockTag::kBytes;
}

}  // namespace strata
