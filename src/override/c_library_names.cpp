// The C library's own names for its allocation functions, in the shared library only: wrappers of
// malloc use them, and so do programs linked with an older C library, beside free(). They mean the
// functions here, even if another file defines the usual names. No static executable has them.

#include <strata/detail/bits.hpp>
#include <strata/malloc.h>

#include <cstddef>
#include <cstdint>

#include "malloc/process.h"
#include "os/page_source.h"

extern "C" {

/// The memalign defined here (c_api.cpp).
[[gnu::visibility("hidden")]] void* strata_own_memalign(std::size_t alignment,
                                                        std::size_t bytes) noexcept;

STRATA_API void* __libc_malloc(std::size_t bytes) noexcept { return strata::allocate(bytes); }
STRATA_API void __libc_free(void* block) noexcept { strata::deallocate(block); }
STRATA_API void cfree(void* block) noexcept { strata::deallocate(block); }
STRATA_API void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept {
  return strata::allocate_zeroed(count, bytes);
}
STRATA_API void* __libc_realloc(void* block, std::size_t bytes) noexcept {
  return strata::reallocate(block, bytes);
}
STRATA_API void* __libc_memalign(std::size_t alignment, std::size_t bytes) noexcept {
  return strata_own_memalign(alignment, bytes);
}
STRATA_API void* __libc_valloc(std::size_t bytes) noexcept {
  return strata_own_memalign(strata::os::page_bytes(), bytes);
}
STRATA_API void* __libc_pvalloc(std::size_t bytes) noexcept {
  const std::size_t page = strata::os::page_bytes();
  const std::size_t rounded = bytes == 0 ? page : strata::detail::round_up(bytes, page);
  return strata_own_memalign(page, rounded != 0 ? rounded : SIZE_MAX);
}

}  // extern "C"
