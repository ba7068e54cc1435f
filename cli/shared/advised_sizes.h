#pragma once

#include <algorithm>
#include <cstdint>

/// \file  The sizes that `strata advise` prints for the allocators it suggests. strata-cell uses
/// the same sizes in the trial. They are address space; memory is committed when it is
/// touched.

namespace strata::advised {

/// Adds a quarter, for a run that needs more than the recorded one.
constexpr std::uint64_t with_room(std::uint64_t objects) noexcept { return objects + objects / 4; }

constexpr std::uint64_t whole_pages(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kPage = 64 * 1024;  // as large as an OS page is anywhere
  return (bytes + kPage) / kPage * kPage;
}

/// \param run_bytes  bytes of all objects allocated while any of them is live. The trial adds room
///                   for the alignment of each object: it has no upstream allocator for what does
///                   not fit.
constexpr std::uint64_t arena_bytes(std::uint64_t run_bytes) noexcept {
  return whole_pages(2 * run_bytes);
}

// Limits from the toolkit's headers; cell/replay/routes.h asserts that they agree.
constexpr std::uint64_t kLeastBlockBytes = 8;
constexpr std::uint64_t kLeastHeapBlockBytes = 32;
constexpr std::uint64_t kMostHeapBytes = std::uint64_t{1} << 34;
constexpr std::uint64_t kUsualHeapsArenaBytes = 64 * 1024 * 1024;
constexpr std::uint64_t kUsualLeaves = 8;

constexpr std::uint64_t block_bytes(std::uint64_t bytes) noexcept {
  return std::max(bytes, kLeastBlockBytes);
}
/// Size of the arena that holds the blocks.
constexpr std::uint64_t blocks_arena_bytes(std::uint64_t bytes, std::uint64_t blocks) noexcept {
  return whole_pages((block_bytes(bytes) + 24) * blocks);
}

/// With several threads, adds a word of the bitmap for each.
constexpr std::uint64_t bitmap_blocks(std::uint64_t live, std::uint64_t threads) noexcept {
  return with_room(live) + (threads > 1 ? 64 * threads : 0);
}
constexpr std::uint64_t bitmap_leaves(std::uint64_t threads) noexcept {
  return std::max(kUsualLeaves, threads);
}

/// Twice the live bytes, plus what the heap stores beside small objects.
constexpr std::uint64_t heap_bytes(std::uint64_t live_bytes, std::uint64_t live) noexcept {
  constexpr std::uint64_t kSpare = 1 << 20;
  return std::min(whole_pages(2 * (live_bytes + live * kLeastHeapBlockBytes) + kSpare),
                  kMostHeapBytes);
}

/// A request cannot be larger than an arena.
constexpr std::uint64_t heaps_arena_bytes(std::uint64_t largest) noexcept {
  return std::max(kUsualHeapsArenaBytes, 2 * largest);
}

}  // namespace strata::advised
