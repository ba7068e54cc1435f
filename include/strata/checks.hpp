#pragma once

namespace strata {

/// What a pool does with a pointer that is not one of its live blocks.
enum class Checks : unsigned char {
  /// Every double free, foreign pointer and pointer into the middle of a block ends the program
  /// with a sentence of its own, in every build. The default of the whole shelf.
  kAlways,
  /// Nothing is looked at: about a third less time hot, and a bad free corrupts the pool.
  kNever,
};

}  // namespace strata
