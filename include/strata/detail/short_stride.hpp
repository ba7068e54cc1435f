#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::detail {

/// Distance between two blocks, and offsets, below 2^32: one multiplication, whose high half is the
/// quotient and whose low half tells whether there is a remainder. \source  Lemire, Kaser and Kurz,
/// "Faster remainder by direct computation" (2019).
class ShortStride {
 public:
  constexpr ShortStride() noexcept = default;
  explicit constexpr ShortStride(std::uint32_t bytes) noexcept
      : reciprocal_(bytes == 1 ? 0 : ~std::uint64_t{0} / bytes + 1), bytes_(bytes) {}

  constexpr std::size_t bytes() const noexcept { return bytes_; }
  constexpr std::size_t index_of(std::size_t offset) const noexcept {
    const auto product = static_cast<Wide>(reciprocal_) * offset;
    return static_cast<std::uint64_t>(product) < reciprocal_
               ? static_cast<std::size_t>(product >> 64)
               : ~std::size_t{0};
  }
  constexpr std::size_t quotient_of(std::size_t offset) const noexcept {
    return static_cast<std::size_t>((static_cast<Wide>(reciprocal_) * offset) >> 64);
  }

 private:
  __extension__ typedef unsigned __int128 Wide;  // NOLINT: an alias cannot carry the marker

  std::uint64_t reciprocal_ = 0;
  std::uint32_t bytes_ = 1;
};

}  // namespace strata::detail
