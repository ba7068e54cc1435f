#pragma once

#include <cstddef>
#include <utility>

#include "blocks.h"

/// \file  A program for the shelf's allocators of equal blocks or of size classes.

namespace strata::fuzz {

/// Allocates and frees as the bytes choose, until they are used up, and then frees every block.
/// \param shelf  has allocate(choices, blocks), which adds the block it gets to the model, and
///               verifies whether it should have got one; deallocate(block); and step(choices,
///               blocks) for everything that only this allocator does
template <typename Shelf>
void exercise(Choices& choices, Shelf&& shelf) {
  Blocks blocks;
  while (!choices.is_over()) {
    const std::uint8_t action = choices.byte();
    if (action < 110) {
      shelf.allocate(choices, blocks);
    } else if (action < 220) {
      if (!blocks.is_empty()) shelf.deallocate(blocks.take(choices));
    } else {
      shelf.step(choices, blocks);
    }
  }
  Choices first(nullptr, 0);
  while (!blocks.is_empty()) shelf.deallocate(blocks.take(first));
}

}  // namespace strata::fuzz
