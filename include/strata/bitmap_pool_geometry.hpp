#pragma once

#include <strata/detail/atomic_bitmap.hpp>
#include <strata/detail/bits.hpp>

#include <cstddef>
#include <cstdint>

namespace strata {

/// What a user requests of a pool.
struct BitmapPoolShape {
  std::size_t block_bytes = 64;
  std::size_t capacity = 64;  ///< blocks
  /// A power of two; or 0 for what an array of objects of this size needs: the largest power of two
  /// that divides block_bytes, at most a cache line.
  std::size_t alignment = 0;
  /// The bitmap is split over at least this many words (fewer only if there are fewer blocks), so
  /// that as many threads can each work in a word of their own. Set it to the number of threads if
  /// that is above 8.
  std::size_t min_leaves = 8;
};

/// Everything that follows from a shape: where the bits and the blocks are. Only offsets, no
/// addresses, so that processes which map the pool at different places agree.
///
///   level 2          [ node ]              a node is one word on its own cache line
///   level 1    [ node ]  …  [ node ]       low half: child full? high half: see BitmapTree
///   leaves  [node][node] … [node][node]    one bit per block, 1 = taken
///   blocks  ■■■■  ■■■■   …  ■■■■  ■■■■     bits_per_leaf() for each leaf
///
/// There are as many levels as it takes for the top one to have at most kMaxTopNodes nodes; a pool
/// of fewer than 1024 blocks has leaves only. Nodes are numbered leaves first, then level by level.
struct BitmapPoolGeometry {
  /// Up to this many words are searched one by one: cheaper than a level above them, and as cheap
  /// as a hit. Beyond it, markers pay off (see docs/bitmap-pool.md).
  static constexpr std::size_t kMaxTopNodes = 15;
  /// The low half of a node above the leaves holds its children's markers.
  static constexpr unsigned kFanoutLog2 = detail::kBitsOf<detail::BitWord> == 64 ? 5 : 4;
  static constexpr std::size_t kFanout = std::size_t{1} << kFanoutLog2;
  static constexpr unsigned kMaxLevels = 12;
  static_assert(kFanout * 2 == detail::kBitsOf<detail::BitWord>, "markers fill half a word");
  static_assert(kFanoutLog2 * kMaxLevels + 4 >= detail::kBitsOf<std::size_t> - 4,
                "the levels suffice for every capacity that fits into memory");

  std::size_t block_bytes = 0;
  std::size_t alignment = 1;
  std::size_t stride = 1;      // from one block to the next
  std::size_t capacity = 0;    // 0: a pool that is always exhausted
  std::size_t min_leaves = 0;  // as requested
  unsigned leaf_shift = 0;     // log2(bits_per_leaf)
  detail::BitWord leaf_mask = 0;
  detail::BitWord last_leaf_mask = 0;
  unsigned levels = 0;  // above the leaves
  std::size_t level_nodes[kMaxLevels + 1] = {1};
  std::size_t level_first[kMaxLevels + 1] = {0};
  std::size_t node_count = 1;
  detail::ExactDivider divider{1};

  /// \returns  The geometry of `shape`, or one with capacity 0 if there is none: no bytes or no
  ///           blocks, an alignment that is no power of two, or more bytes than can be addressed.
  static constexpr BitmapPoolGeometry of(const BitmapPoolShape& shape) noexcept;

  constexpr std::size_t leaf_count() const noexcept { return level_nodes[0]; }
  constexpr std::size_t bits_per_leaf() const noexcept { return std::size_t{1} << leaf_shift; }
  constexpr std::size_t top_nodes() const noexcept { return level_nodes[levels]; }

  /// The required alignment of the blocks, which never share a cache line with anything else.
  constexpr std::size_t blocks_alignment() const noexcept {
    return alignment > detail::kCacheLineBytes ? alignment : detail::kCacheLineBytes;
  }
  constexpr std::size_t metadata_bytes() const noexcept {
    return node_count * sizeof(detail::BitmapNode);
  }
  constexpr std::size_t blocks_bytes() const noexcept {
    return detail::round_up(stride * capacity, detail::kCacheLineBytes);
  }

  /// The bits of a leaf that stand for blocks.
  constexpr detail::BitWord usable_bits(std::size_t leaf) const noexcept {
    return leaf + 1 == leaf_count() ? last_leaf_mask : leaf_mask;
  }
  /// The bits of a node above the leaves that stand for children.
  constexpr detail::BitWord child_bits(unsigned level, std::size_t node) const noexcept {
    const std::size_t children = level_nodes[level - 1] - (node << kFanoutLog2);
    return detail::low_bits<detail::BitWord>(
        static_cast<unsigned>(children < kFanout ? children : kFanout));
  }

  /// Upper bounds on the steps of an operation, for any number of threads and any interleaving.
  /// docs/bitmap-pool.md argues them; a test counts against them.
  constexpr std::size_t max_allocate_loads() const noexcept {
    return 1 + (leaf_count() + 1) * (1 + bits_per_leaf()) + (node_count - leaf_count()) +
           2 * (node_count - top_nodes());
  }
  constexpr std::size_t max_allocate_rmws() const noexcept {
    return (leaf_count() + 1) * (1 + bits_per_leaf()) + 3 * (node_count - top_nodes());
  }
  constexpr std::size_t max_deallocate_loads() const noexcept { return levels; }
  constexpr std::size_t max_deallocate_rmws() const noexcept { return 1 + levels; }
};

constexpr BitmapPoolGeometry BitmapPoolGeometry::of(const BitmapPoolShape& shape) noexcept {
  BitmapPoolGeometry g;
  if (shape.block_bytes == 0 || shape.capacity == 0) return g;
  std::size_t alignment = shape.alignment;
  if (alignment == 0) {
    alignment = detail::lowest_set_bit(shape.block_bytes);
    if (alignment > detail::kCacheLineBytes) alignment = detail::kCacheLineBytes;
  }
  if (!detail::is_power_of_two(alignment)) return g;

  // A quarter of the address space for the blocks leaves room for every sum below.
  constexpr std::size_t kMaxBytes = std::size_t{PTRDIFF_MAX} / 2;
  if (alignment > kMaxBytes || shape.block_bytes > kMaxBytes - alignment) return g;
  const std::size_t stride = detail::round_up(shape.block_bytes, alignment);
  if (shape.capacity > kMaxBytes / stride) return g;
  // A node stands for at least one block, and nodes above leaves are fewer than leaves.
  if (shape.capacity > kMaxBytes / (2 * sizeof(detail::BitmapNode))) return g;

  // As few leaves as full words allow, but at least min_leaves if there are blocks for them: bits
  // per leaf is the largest power of two for which that holds.
  const std::size_t wanted = shape.min_leaves == 0 ? 1 : shape.min_leaves;
  std::size_t bits =
      shape.capacity / wanted == 0 ? 1 : detail::floor_power_of_two(shape.capacity / wanted);
  if (bits > detail::kBitsOf<detail::BitWord>) bits = detail::kBitsOf<detail::BitWord>;

  g.block_bytes = shape.block_bytes;
  g.alignment = alignment;
  g.stride = stride;
  g.capacity = shape.capacity;
  g.min_leaves = shape.min_leaves;
  g.divider = detail::ExactDivider(stride);
  g.leaf_shift = detail::log2_floor(bits);
  g.leaf_mask = detail::low_bits<detail::BitWord>(static_cast<unsigned>(bits));
  g.level_nodes[0] = detail::divide_rounding_up(shape.capacity, bits);
  g.last_leaf_mask = detail::low_bits<detail::BitWord>(
      static_cast<unsigned>(shape.capacity - (g.level_nodes[0] - 1) * bits));
  g.node_count = g.level_nodes[0];
  while (g.level_nodes[g.levels] > kMaxTopNodes) {
    ++g.levels;
    g.level_first[g.levels] = g.node_count;
    g.level_nodes[g.levels] = detail::divide_rounding_up(g.level_nodes[g.levels - 1], kFanout);
    g.node_count += g.level_nodes[g.levels];
  }
  return g;
}

}  // namespace strata
