// The C library's allocation functions, and Strata's own names for them.
//
// Each standard name is an alias of the strata_ function with the same meaning, so that the hot
// path has no call in it. Semantics are glibc's where the standard leaves a choice.

#include <strata/detail/bits.hpp>
#include <strata/malloc.h>

#include <cstring>

#include "malloc/process.h"
#include "os/clock.h"
#include "os/errors.h"

#if defined(__clang__)  // which has no copy, and does not warn without
#define STRATA_ALIAS(function) __attribute__((alias(#function), visibility("default")))
#else
#define STRATA_ALIAS(function) \
  __attribute__((alias(#function), visibility("default"), copy(function)))
#endif

extern "C" {

void* strata_malloc(std::size_t bytes) noexcept { return strata::allocate(bytes); }

void strata_free(void* block) noexcept { strata::deallocate(block); }

void strata_free_sized(void* block, std::size_t bytes) noexcept {
  strata::deallocate(block, strata::FreeCall::By::kFree, bytes);
}

void* strata_calloc(std::size_t count, std::size_t bytes) noexcept {
  return strata::allocate_zeroed(count, bytes);
}

void* strata_realloc(void* block, std::size_t bytes) noexcept {
  return strata::reallocate(block, bytes);
}

void* strata_aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  if (!strata::detail::is_power_of_two(alignment)) {
    strata::os::set_errno_invalid();
    return nullptr;
  }
  return strata::allocate_aligned(alignment, bytes);
}

std::size_t strata_usable_size(const void* block) noexcept { return strata::usable_bytes(block); }

int strata_profile_start(std::size_t rate) noexcept {
  if (strata::must_not_wait() || !strata::g_malloc.is_ready()) return 0;
  return strata::g_malloc.profiler().start(rate, strata::os::monotonic_ns()) ? 1 : 0;
}

void strata_profile_stop() noexcept {
  if (!strata::must_not_wait()) strata::g_malloc.profiler().stop();
}

int strata_profile_write(const char* path) noexcept {
  if (strata::must_not_wait()) return 0;
  return strata::g_malloc.profiler().profile().write(path) ? 1 : 0;
}

// The C library's names.

STRATA_API void* malloc(std::size_t bytes) noexcept STRATA_ALIAS(strata_malloc);
STRATA_API void free(void* block) noexcept STRATA_ALIAS(strata_free);
STRATA_API void* calloc(std::size_t count, std::size_t bytes) noexcept STRATA_ALIAS(strata_calloc);
STRATA_API void* realloc(void* block, std::size_t bytes) noexcept STRATA_ALIAS(strata_realloc);
STRATA_API void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept
    STRATA_ALIAS(strata_aligned_alloc);
STRATA_API std::size_t malloc_usable_size(void* block) noexcept;

/// As in glibc: an alignment that is no power of two is rounded up to one, if there is one.
STRATA_API void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  if (alignment > std::size_t{1} << 63) {
    strata::os::set_errno_invalid();
    return nullptr;
  }
  return strata::allocate_aligned(std::bit_ceil(alignment), bytes);
}

/// The address that memalign has here, even if another file defines it (c_library_names.cpp).
__attribute__((alias("memalign"),
               visibility("hidden"))) void* strata_own_memalign(std::size_t, std::size_t) noexcept;

std::size_t malloc_usable_size(void* block) noexcept { return strata::usable_bytes(block); }

// Names that others with a malloc of their own (a program, valgrind) may leave out: each goes by
// the name of the function that they do define.

/// The address that free has here, even if another file defines it.
__attribute__((alias("strata_free"), visibility("hidden"))) void strata_own_free(void*) noexcept;

/// Two names of one definition: Clang would assume, before the program is linked, that they differ.
static bool is_free_ours() noexcept {
  void (*own)(void*) = strata_own_free;
  asm("" : "+r"(own));
  return own == free;
}

STRATA_API void free_sized(void* block, std::size_t bytes) noexcept {
  if (!is_free_ours()) return free(block);
  strata::deallocate(block, strata::FreeCall::By::kFree, bytes);
}

STRATA_API void free_aligned_sized(void* block, std::size_t alignment, std::size_t bytes) noexcept {
  if (!is_free_ours()) return free(block);
  strata::deallocate(block, strata::FreeCall::By::kFree, bytes, alignment);
}

STRATA_API void* reallocarray(void* block, std::size_t count, std::size_t bytes) noexcept {
  std::size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) {
    strata::os::set_errno_no_memory();
    return nullptr;
  }
  return realloc(block, total);
}

STRATA_API void* valloc(std::size_t bytes) noexcept {
  return memalign(strata::os::page_bytes(), bytes);
}

STRATA_API void* pvalloc(std::size_t bytes) noexcept {
  const std::size_t page = strata::os::page_bytes();
  std::size_t rounded;
  if (__builtin_add_overflow(bytes, page - 1, &rounded)) {
    strata::os::set_errno_no_memory();
    return nullptr;
  }
  rounded &= ~(page - 1);
  return memalign(page, rounded != 0 ? rounded : page);
}

STRATA_API int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) noexcept {
  // A power of two from there on is a multiple of it.
  if (!strata::detail::is_power_of_two(alignment) || alignment < sizeof(void*))
    return strata::os::error_invalid();
  void* block = strata::allocate_aligned(alignment, bytes);
  if (block == nullptr) return strata::os::error_no_memory();
  *out = block;
  return 0;
}

}  // extern "C"
