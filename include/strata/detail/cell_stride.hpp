#pragma once

#include <strata/detail/bits.hpp>

#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Distance between two blocks, known at run time, below 2^32, in cells of its largest power of
/// two: 64 bytes are one cell, 48 bytes are three cells of 16. A BlockStack keeps a state per cell,
/// which a rotation finds where RunTimeStride multiplies. The multiplication itself is cheap, but
/// it delays the address of each state's store, and later loads wait (measured in a
/// SizeClassAllocator: 1 ns of 6 a pair). The price is up to a byte of state per eight bytes of
/// block, if the distance is an odd multiple of 8.
///
/// `index_of(p - blocks) < count` tests range, sign and alignment to a cell at once; a cell in
/// which no block starts is never live.
class CellStride {
 public:
  constexpr CellStride() noexcept = default;
  explicit constexpr CellStride(std::uint32_t bytes) noexcept
      : bytes_(bytes), shift_(count_trailing_zeros(bytes)) {}

  constexpr std::size_t bytes() const noexcept { return bytes_; }
  constexpr std::size_t cells() const noexcept { return bytes_ >> shift_; }
  constexpr std::size_t cell_bytes() const noexcept { return std::size_t{1} << shift_; }
  constexpr std::size_t index_of(std::size_t offset) const noexcept {
    return rotate_right(offset, shift_);
  }
  constexpr std::size_t quotient_of(std::size_t offset) const noexcept { return offset >> shift_; }

 private:
  std::uint32_t bytes_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace strata::detail
