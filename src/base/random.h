#pragma once

#include <cstdint>

namespace strata {

/// Word `index` of the sequence that `seed` begins: any draw can be had by its number.
/// \source  The finalizer of SplitMix64 (Steele, Lea and Flood, 2014): good high and low bits.
constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) noexcept {
  std::uint64_t word = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
  word = (word ^ word >> 27) * 0x94d049bb133111ebu;
  return word ^ word >> 31;
}

}  // namespace strata
