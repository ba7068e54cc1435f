#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

/// \file  Arithmetic on sizes and addresses that the toolkit's headers share. Language only.

namespace strata::detail {

/// One cache line on every machine we build for; bookkeeping and blocks never share one.
inline constexpr std::size_t kCacheLineBytes = 64;

constexpr bool is_power_of_two(std::size_t n) noexcept { return n != 0 && (n & (n - 1)) == 0; }

/// \returns  The next multiple of `alignment`, a power of two; wraps to 0 behind the last one.
constexpr std::size_t round_up(std::size_t n, std::size_t alignment) noexcept {
  return (n + alignment - 1) & ~(alignment - 1);
}

/// The smallest power of two that is at least n, for n up to half the address space.
constexpr std::size_t round_up_to_power_of_two(std::size_t n) noexcept {
  std::size_t power = 1;
  while (power < n) power <<= 1;
  return power;
}

/// The largest power of two that divides n, n > 0.
constexpr std::size_t largest_power_of_two_in(std::size_t n) noexcept { return n & (0 - n); }

constexpr unsigned trailing_zeros(std::size_t n) noexcept {
  return static_cast<unsigned>(__builtin_ctzll(n));
}

constexpr std::size_t rotate_right(std::size_t n, unsigned by) noexcept {
  constexpr unsigned kBits = std::numeric_limits<std::size_t>::digits;
  return (n >> by) | (n << ((kBits - by) & (kBits - 1)));
}

/// The number that undoes multiplication by `odd` modulo 2^bits.
/// \source  Newton's iteration on 2-adic numbers: each step doubles the correct low bits; an odd
/// number is its own inverse modulo 8, so five steps reach 96.
constexpr std::size_t inverse_of_odd(std::size_t odd) noexcept {
  std::size_t x = odd;
  for (int step = 0; step < 5; ++step) x *= 2 - odd * x;
  return x;
}

/// Tells the compiler which way a branch goes; C++17 has no attribute for it.
constexpr bool likely(bool condition) noexcept { return __builtin_expect(condition, true); }
constexpr bool unlikely(bool condition) noexcept { return __builtin_expect(condition, false); }

/// Tells the compiler what it cannot see; undefined if it is not so.
constexpr void assume(bool condition) noexcept {
  if (!condition) __builtin_unreachable();
}

inline std::size_t address_of(const void* p) noexcept { return reinterpret_cast<std::size_t>(p); }

}  // namespace strata::detail
