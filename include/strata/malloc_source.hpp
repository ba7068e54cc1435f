#pragma once

#include <strata/malloc.h>

#include <cstddef>

namespace strata {

/// The malloc as a source for Allocator, make_unique and MemoryResource. Stateless; cannot tell its
/// own memory from foreign memory. Only a program that uses it must link the malloc.
/// \threads  Any number at once.
struct Malloc {
  static void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return alignment <= alignof(std::max_align_t) ? strata_malloc(bytes)
                                                  : strata_aligned_alloc(alignment, bytes);
  }
  static void deallocate(void* p) noexcept { strata_free(p); }
};

}  // namespace strata
