#pragma once

#include <strata/malloc.h>

#include <cstddef>

namespace strata {

/// The malloc as a source for Allocator, make_unique and MemoryResource. Has no state, and does not
/// tell its memory from others'. A program that uses it links the malloc; one that uses other
/// sources does not.
/// \threads  Any number at once.
struct Malloc {
  static void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= alignof(std::max_align_t) ? strata_malloc(bytes)
                                                  : strata_aligned_alloc(alignment, bytes);
  }
  static void deallocate(void* p) noexcept { strata_free(p); }
};

}  // namespace strata
