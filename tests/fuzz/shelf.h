#pragma once

#include <cstddef>
#include <utility>

#include "blocks.h"

/// \file  What the shelf's allocators of equal or classed blocks have in common, as a program.

namespace strata::fuzz {

/// Allocates and frees by the bytes' choice until they are over, and empties the allocator.
/// \param shelf  has allocate(choices, blocks), which adds what it gets to the model and says
///               whether it should have got something; deallocate(block); a `step(choices, blocks)`
///               for all that is its own
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
