#pragma once

#include <strata/bitmap_pool_geometry.hpp>
#include <strata/bitmap_pool_policy.hpp>
#include <strata/detail/bitmap_pool_operations.hpp>
#include <strata/detail/bits.hpp>

#include <cstddef>
#include <cstdint>

namespace strata {

/// `Capacity` blocks of `BlockBytes` bytes inside the object itself, for any number of threads,
/// signal and interrupt handlers at once. Never allocates, and needs neither exceptions nor a
/// hosted library. A static pool is constant-initialised, as all zero (by Clang up to a `Capacity`
/// of 16 million, unless -fconstexpr-steps allows more): no constructor runs, and it takes no byte
/// of the executable. Its functions: detail::bases::BitmapPoolOperations.
///
///     static strata::BitmapPool<sizeof(Message), 256> pool;
///     void* p = pool.allocate();      // nullptr: each was taken at some instant of the call
///     bool ok = pool.deallocate(p);   // false: double free, or not ours
///
/// Bits and blocks never share a cache line. Bits are spread over at least `MinLeaves` lines.
/// Blocks still taken end with the object.
/// \source  The split of a small bitmap over several words, and the sticky start per thread:
///          lib/sbitmap.c of Linux. Measurements and reasons: docs/bitmap-pool.md.
template <std::size_t BlockBytes = 64, std::size_t Capacity = 64, std::size_t Alignment = 0,
          std::size_t MinLeaves = 8, class Policy = BitmapPoolPolicy>
class BitmapPool : public detail::bases::BitmapPoolOperations<
                       BitmapPool<BlockBytes, Capacity, Alignment, MinLeaves, Policy>, Policy> {
  static_assert(BlockBytes > 0 && Capacity > 0, "a pool has blocks, and blocks have bytes");
  static_assert(Alignment == 0 || detail::is_power_of_two(Alignment),
                "the alignment is a power of two, or 0 for the natural one");

 public:
  static constexpr BitmapPoolGeometry kGeometry =
      BitmapPoolGeometry::of({BlockBytes, Capacity, Alignment, MinLeaves});
  static_assert(kGeometry.capacity == Capacity, "the pool is larger than the address space");

  constexpr BitmapPool() noexcept = default;
  BitmapPool(const BitmapPool&) = delete;
  BitmapPool& operator=(const BitmapPool&) = delete;

 private:
  friend class detail::bases::BitmapPoolOperations<BitmapPool, Policy>;

  /// Bytes that construction does not touch: a pool on the stack initialises only its bits.
  union Blocks {
    constexpr Blocks() noexcept : untouched{} {}
    char untouched;
    unsigned char bytes[kGeometry.blocks_bytes()];
  };

  static constexpr const BitmapPoolGeometry& geometry() noexcept { return kGeometry; }
  static constexpr std::uint32_t process() noexcept { return 0; }
  // Operations that only read are const, but read non-const atomics.
  detail::BitmapNode* nodes() const noexcept { return const_cast<detail::BitmapNode*>(nodes_); }
  unsigned char* blocks() const noexcept { return const_cast<unsigned char*>(blocks_.bytes); }

  detail::BitmapNode nodes_[kGeometry.node_count];
  alignas(kGeometry.blocks_alignment()) Blocks blocks_;
};

}  // namespace strata
