#pragma once

#include <cstddef>
#include <cstdint>

/// \file  Bits and alignment, as constant expressions. Language only: usable without a hosted
/// library, without exceptions, and before main.

namespace strata::detail {

/// Bits in an unsigned integer type.
template <class Unsigned>
inline constexpr unsigned kBitsOf = sizeof(Unsigned) * 8;

template <class Unsigned>
constexpr bool is_power_of_two(Unsigned x) noexcept {
  return x != 0 && (x & (x - 1)) == 0;
}

/// Position of the lowest set bit; `x` is not 0.
template <class Unsigned>
constexpr unsigned count_trailing_zeros(Unsigned x) noexcept {
  if constexpr (sizeof(Unsigned) <= sizeof(unsigned)) {
    return static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(x)));
  } else {
    return static_cast<unsigned>(__builtin_ctzll(x));
  }
}

/// Zeros above the highest set bit; `x` is not 0.
template <class Unsigned>
constexpr unsigned count_leading_zeros(Unsigned x) noexcept {
  if constexpr (sizeof(Unsigned) <= sizeof(unsigned)) {
    return static_cast<unsigned>(__builtin_clz(static_cast<unsigned>(x))) -
           (kBitsOf<unsigned> - kBitsOf<Unsigned>);
  } else {
    return static_cast<unsigned>(__builtin_clzll(x));
  }
}

/// Number of set bits. Without a popcount instruction this is a handful of adds, not a table.
template <class Unsigned>
constexpr unsigned popcount(Unsigned x) noexcept {
  std::uint64_t v = x;
  v -= (v >> 1) & 0x5555555555555555u;
  v = (v & 0x3333333333333333u) + ((v >> 2) & 0x3333333333333333u);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<unsigned>((v * 0x0101010101010101u) >> 56);
}

/// floor(log2(x)); `x` is not 0.
template <class Unsigned>
constexpr unsigned log2_floor(Unsigned x) noexcept {
  // The compiler would not recognise a difference as one instruction.
  return (kBitsOf<Unsigned> - 1) ^ count_leading_zeros(x);
}

/// ceil(log2(x)); `x` is not 0.
template <class Unsigned>
constexpr unsigned log2_ceil(Unsigned x) noexcept {
  return x == 1 ? 0 : log2_floor(static_cast<Unsigned>(x - 1)) + 1;
}

/// The largest power of two that is not above `x`; `x` is not 0.
template <class Unsigned>
constexpr Unsigned floor_power_of_two(Unsigned x) noexcept {
  return static_cast<Unsigned>(Unsigned{1} << log2_floor(x));
}

/// The largest power of two that divides `x`; `x` is not 0.
template <class Unsigned>
constexpr Unsigned lowest_set_bit(Unsigned x) noexcept {
  return static_cast<Unsigned>(x & (~x + 1));
}

/// A word whose `count` lowest bits are set; 0 <= count <= kBitsOf<Unsigned>.
template <class Unsigned>
constexpr Unsigned low_bits(unsigned count) noexcept {
  return count == 0 ? Unsigned{0}
                    : static_cast<Unsigned>(static_cast<Unsigned>(~Unsigned{0}) >>
                                            (kBitsOf<Unsigned> - count));
}

template <class Unsigned>
constexpr Unsigned rotate_right(Unsigned x, unsigned count) noexcept {
  constexpr unsigned kMask = kBitsOf<Unsigned> - 1;
  return static_cast<Unsigned>((x >> (count & kMask)) | (x << ((0u - count) & kMask)));
}

/// The bits of `x` in reverse order: 0, 1, 2, 3 … become starts that halve the gaps between them,
/// however many there are.
/// \source  J. G. van der Corput's sequence (1935).
constexpr std::uint32_t reverse_bits(std::uint32_t x) noexcept {
  x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
  x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
  x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(x);
}

/// `x` rounded up or down to a multiple of `alignment`, a power of two. round_up wraps to 0 at the
/// end of the address space; callers that take sizes from outside check first.
template <class Unsigned>
constexpr Unsigned round_up(Unsigned x, Unsigned alignment) noexcept {
  return static_cast<Unsigned>((x + (alignment - 1)) & ~(alignment - 1));
}

template <class Unsigned>
constexpr Unsigned round_down(Unsigned x, Unsigned alignment) noexcept {
  return static_cast<Unsigned>(x & ~(alignment - 1));
}

template <class Unsigned>
constexpr Unsigned divide_rounding_up(Unsigned x, Unsigned divisor) noexcept {
  return static_cast<Unsigned>(x / divisor + (x % divisor != 0));
}

inline bool is_aligned(const void* p, std::size_t alignment) noexcept {
  return (reinterpret_cast<std::uintptr_t>(p) & (alignment - 1)) == 0;
}

/// Divides by a constant known only at run time and checks, in one multiplication, that nothing
/// remains: quotient(i * divisor) == i, and every other word maps to no such i. So
/// `quotient(x) < n` is true exactly if x is one of 0, d, 2d … (n-1)d, provided n * d does not
/// overflow. That one comparison refuses words below, above, between, or 2^32 divisors away.
///
/// Why: with d = odd * 2^k, x -> rotate_right(x * inverse(odd), k) is a bijection of the words (as
/// multiplication by an odd number and rotation are), and it maps i * d to i. No other x maps to
/// the same i.
/// \source  Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (1994),
///          section 9; H. S. Warren, "Hacker's Delight", 10-17.
class ExactDivider {
 public:
  constexpr explicit ExactDivider(std::uintptr_t divisor) noexcept
      : inverse_(inverse_of_odd(divisor >> count_trailing_zeros(divisor))),
        shift_(count_trailing_zeros(divisor)) {}

  constexpr std::uintptr_t quotient(std::uintptr_t x) const noexcept {
    return rotate_right(x * inverse_, shift_);
  }

 private:
  /// Newton's iteration on integers: each step doubles the number of correct low bits, 3 at first.
  static constexpr std::uintptr_t inverse_of_odd(std::uintptr_t odd) noexcept {
    std::uintptr_t x = odd;
    for (unsigned right_bits = 3; right_bits < kBitsOf<std::uintptr_t>; right_bits *= 2) {
      x *= 2 - odd * x;
    }
    return x;
  }

  std::uintptr_t inverse_;
  unsigned shift_;
};

}  // namespace strata::detail
