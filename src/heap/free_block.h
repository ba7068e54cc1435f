#pragma once

#include <strata/coalescing_heap.hpp>

#include <cstddef>
#include <cstdint>

#include "heap/block_tag.h"
#include "heap/size_bins.h"

namespace strata {

/// A block as its heap sees it. The links, and the size in its last word, are valid only while it
/// is free.
struct CoalescingHeap::FreeBlock {
  BlockTag tag;
  std::uint32_t next;      // in the list of its bin; 0 ends it
  std::uint32_t previous;  // anything in the head, but no number beyond the region while in a list

  std::uint32_t granules() const noexcept { return tag.load_size() >> 1; }
  bool has_free_previous() const noexcept { return (tag.load_size() & 1) != 0; }
  BlockState state() const noexcept { return tag.state_in(tag.load_seal(), granules()); }
  void* user() noexcept { return &next; }

  FreeBlock* behind(std::uint32_t granules_of_this) noexcept {
    return reinterpret_cast<FreeBlock*>(reinterpret_cast<char*>(this) +
                                        std::size_t{granules_of_this} * kGranuleBytes);
  }

  /// The last word of the block in front, which holds its size if that is free.
  std::uint32_t& size_of_previous() noexcept {
    return *(reinterpret_cast<std::uint32_t*>(this) - 1);
  }
};

inline CoalescingHeap::FreeBlock* CoalescingHeap::at(std::uint32_t index) const noexcept {
  return reinterpret_cast<FreeBlock*>(base_ + std::size_t{index} * kGranuleBytes);
}

/// The state of the tag at the end of a region: never free, so that nothing merges with it, and not
/// the user's.
constexpr BlockState kEndState = BlockState::kTravelling;

/// Fatal errors for misuse that shows in a free block, and in any tag.
[[noreturn]] void die_of_write_after_free(const BlockTag* tag) noexcept;
[[noreturn]] void die_of_overflow(const BlockTag* tag) noexcept;

constexpr std::uint32_t kMinGranules =
    CoalescingHeap::kMinBlockBytes / CoalescingHeap::kGranuleBytes;

static_assert(kMinGranules == size_bins::kSmallest);

/// Granules for `bytes`, a number below kMaxRegionBytes, and the tag.
constexpr std::size_t tagged_granules(std::size_t bytes) noexcept {
  return (bytes + BlockTag::kBytes + BlockTag::kGranuleBytes - 1) / BlockTag::kGranuleBytes;
}

/// Size of the smallest block that serves `bytes`.
constexpr std::uint32_t granules_for(std::size_t bytes) noexcept {
  const std::size_t granules = tagged_granules(bytes);
  return granules < kMinGranules ? kMinGranules : static_cast<std::uint32_t>(granules);
}

static_assert(granules_for(size_bins::kMaxTabledBytes) < size_bins::kRequests.size());

constexpr std::size_t block_bytes(std::uint32_t granules) noexcept {
  return std::size_t{granules} * BlockTag::kGranuleBytes;
}
constexpr std::size_t user_bytes(std::uint32_t granules) noexcept {
  return block_bytes(granules) - BlockTag::kBytes;
}

}  // namespace strata
