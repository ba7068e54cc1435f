#pragma once

namespace strata {

/// What a pool does when it is asked to free anything but one of its live blocks.
enum class Checks : unsigned char {
  /// A double free, a foreign pointer or a pointer into the middle of a block ends the program with
  /// a sentence of its own, in every build. The default of the whole shelf.
  kAlways,
  /// No check: about a third less time when hot, but a bad free corrupts the pool.
  kNever,
};

}  // namespace strata
