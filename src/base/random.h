#pragma once

#include <cstdint>

namespace strata {

/// Scrambles a word: different words give different ones, and neither high nor low bits show how
/// near two words were.
/// \source  The finalizer of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
///          generators" (2014)
constexpr std::uint64_t scrambled(std::uint64_t word) noexcept {
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
  word = (word ^ word >> 27) * 0x94d049bb133111ebu;
  return word ^ word >> 31;
}

/// Word `index` of the sequence of `seed`: any draw is available by its number.
constexpr std::uint64_t random_word(std::uint64_t seed, std::uint64_t index) noexcept {
  return scrambled(seed + (index + 1) * 0x9e3779b97f4a7c15u);
}

}  // namespace strata
