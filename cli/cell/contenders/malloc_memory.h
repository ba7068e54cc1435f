#pragma once

#include <cstddef>
#include <cstdlib>

namespace strata::cell {

/// The malloc of the process: the C library's or a preloaded one.
struct MallocMemory {
  void* allocate(std::size_t bytes) const noexcept { return std::malloc(bytes); }
  void deallocate(void* p, std::size_t) const noexcept { std::free(p); }
  void* reallocate(void* p, std::size_t, std::size_t bytes) const noexcept {
    return std::realloc(p, bytes);
  }
};

}  // namespace strata::cell
