#pragma once

#include <algorithm>
#include <cstdint>

/// \file  How large the code that `strata advise` prints makes what it advises: strata-cell makes
/// the same for the trial. Sizes are address space; memory is used as it is touched.

namespace strata::advised {

/// For a run that needs more than the recorded one.
constexpr std::uint64_t with_room(std::uint64_t objects) noexcept { return objects + objects / 4; }

constexpr std::uint64_t whole_pages(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kPage = 64 * 1024;  // as large as an OS page is anywhere
  return (bytes + kPage) / kPage * kPage;
}

/// \param run_bytes  of all objects that begin while any of them lives; the trial adds to each what
///                   its alignment may take, since it has no upstream for what does not fit
constexpr std::uint64_t arena_bytes(std::uint64_t run_bytes) noexcept {
  return whole_pages(2 * run_bytes);
}

// What the toolkit's headers say (cell/replay/routes.h compares).
constexpr std::uint64_t kLeastBlockBytes = 8;
constexpr std::uint64_t kLeastHeapBlockBytes = 32;
constexpr std::uint64_t kMostHeapBytes = std::uint64_t{1} << 34;
constexpr std::uint64_t kUsualHeapsArenaBytes = 64 * 1024 * 1024;
constexpr std::uint64_t kUsualLeaves = 8;

constexpr std::uint64_t block_bytes(std::uint64_t bytes) noexcept {
  return std::max(bytes, kLeastBlockBytes);
}
/// Of the arena that the blocks lie in.
constexpr std::uint64_t blocks_arena_bytes(std::uint64_t bytes, std::uint64_t blocks) noexcept {
  return whole_pages((block_bytes(bytes) + 24) * blocks);
}

/// A word of the bitmap to spare for each thread, where there are several.
constexpr std::uint64_t bitmap_blocks(std::uint64_t live, std::uint64_t threads) noexcept {
  return with_room(live) + (threads > 1 ? 64 * threads : 0);
}
constexpr std::uint64_t bitmap_leaves(std::uint64_t threads) noexcept {
  return std::max(kUsualLeaves, threads);
}

/// Twice what lives at once, with what the heap keeps beside small objects.
constexpr std::uint64_t heap_bytes(std::uint64_t live_bytes, std::uint64_t live) noexcept {
  constexpr std::uint64_t kSpare = 1 << 20;
  return std::min(whole_pages(2 * (live_bytes + live * kLeastHeapBlockBytes) + kSpare),
                  kMostHeapBytes);
}

/// No request may be larger than an arena.
constexpr std::uint64_t heaps_arena_bytes(std::uint64_t largest) noexcept {
  return std::max(kUsualHeapsArenaBytes, 2 * largest);
}

}  // namespace strata::advised
