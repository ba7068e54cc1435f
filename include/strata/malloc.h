#pragma once

/// \file  The malloc's own C interface, for C and C++, in addition to the C library's names or
/// instead of them.
/// \threads  Every function: any number at once. Not async-signal-safe, as malloc is not.

#ifdef __cplusplus
#include <cstddef>
#define STRATA_NOEXCEPT noexcept
extern "C" {
#else
#include <stdbool.h>
#include <stddef.h>
#define STRATA_NOEXCEPT
#endif

#if defined(__GNUC__)
#define STRATA_API __attribute__((visibility("default")))
#define STRATA_MALLOC_LIKE __attribute__((malloc, warn_unused_result))
#else
#define STRATA_API
#define STRATA_MALLOC_LIKE
#endif

/// Allocates `bytes` bytes (0 gives a block of its own, where every access may be a fault), aligned
/// to 16.
/// \returns  The block, contents unspecified; NULL with errno ENOMEM when out of memory or beyond
///           PTRDIFF_MAX.
/// \cost     For up to 1 KiB from the thread's cache 16 instructions; 39 where frees are verified,
///           as they are by default while that is cheap.
STRATA_API STRATA_MALLOC_LIKE void* strata_malloc(size_t bytes) STRATA_NOEXCEPT;

/// Frees a block of any allocating function here; NULL is fine.
/// \errors  A pointer that is no live block is fatal, with a sentence on standard error, where it
///          is seen: at once where frees are verified, as they are by default while that is cheap;
///          under STRATA_CHECKS=basic at once if it is not ours, misaligned, or the thread's latest
///          free of that size, and otherwise when both copies reach their span.
/// \cost    19 instructions for small blocks; 34 where frees are verified.
STRATA_API void strata_free(void* block) STRATA_NOEXCEPT;

/// The same for a block of known size: as malloc, calloc, realloc were asked. The size is not used;
/// a wrong one is fatal under STRATA_CHECKS=frees and full.
STRATA_API void strata_free_sized(void* block, size_t bytes) STRATA_NOEXCEPT;

/// Allocates `count` × `bytes` bytes, all zero.
/// \returns  NULL with ENOMEM if the product overflows, too.
STRATA_API STRATA_MALLOC_LIKE void* strata_calloc(size_t count, size_t bytes) STRATA_NOEXCEPT;

/// Resizes a block, in place where it can; huge blocks are remapped, not copied.
/// \returns  The block, moved or not, its contents kept up to the smaller size; NULL with ENOMEM
///           and the old block untouched when out of memory. bytes == 0 frees it and returns NULL,
///           as the C library does.
STRATA_API void* strata_realloc(void* block, size_t bytes) STRATA_NOEXCEPT;

/// Allocates with the start a multiple of `alignment`, a power of two; `bytes` need not be a
/// multiple.
/// \returns  NULL with errno EINVAL for any other alignment, with ENOMEM when out of memory.
STRATA_API STRATA_MALLOC_LIKE void* strata_aligned_alloc(size_t alignment,
                                                         size_t bytes) STRATA_NOEXCEPT;

/// Bytes that may be used at `block`, at least what was asked for; 0 for NULL.
STRATA_API size_t strata_usable_size(const void* block) STRATA_NOEXCEPT;

/// Releases all idle memory to the kernel now, the caches of all threads included.
/// \returns  1 if anything was released, else 0.
/// \cost     system calls in proportion to what is idle
STRATA_API int strata_release_memory(void) STRATA_NOEXCEPT;

/// Prints statistics as text to standard error, or to the file that STRATA_STATS_FILE names.
/// Allocates nothing.
/// \cost  a visit to every size class and every thread's cache
STRATA_API void strata_stats_print(void) STRATA_NOEXCEPT;

/// Writes statistics as one JSON document, described by docs/stats-schema.json, as snprintf writes:
/// what fits into `size` bytes, with a 0 after it. `buffer` may be NULL if `size` is 0.
/// \returns  Characters of the whole document, the 0 not counted: below `size` if all of it is
///           there. 16 KiB hold it always. Allocates nothing.
/// \cost     some microseconds, and one per thread: fit to be called each second
STRATA_API size_t strata_stats_json(char* buffer, size_t size) STRATA_NOEXCEPT;

/// Writes the options as a JSON array in the same way: of each its name, what it accepts, its
/// default, its value by the environment as it is now, its state (default, set, or invalid and so
/// the default), and what it does.
STRATA_API size_t strata_options_json(char* buffer, size_t size) STRATA_NOEXCEPT;

/// Begins to sample allocations with their stacks, one in `rate` bytes on average (524288 is usual;
/// 1 takes every allocation), or goes on. A profile holds what was sampled at one rate, the latest:
/// with a rate that is new to the process it begins anew, and with one that was used before it goes
/// on from what was sampled at that. Its time counts from the latest change of the rate. The
/// unwinder of the C library is loaded with dlopen, once.
/// \returns  1, or 0 if the rate is 0 or beyond 1 GiB, memory is out, or a signal handler calls
///           that interrupted the malloc.
/// \threads  One at a time with strata_profile_stop().
/// \cost     Meanwhile some 12 instructions an allocation, and some microseconds a sample.
STRATA_API int strata_profile_start(size_t rate) STRATA_NOEXCEPT;

/// Ends sampling. What was sampled stays in the profile; what is freed is still subtracted. Does
/// nothing in a signal handler that interrupted the malloc.
STRATA_API void strata_profile_stop(void) STRATA_NOEXCEPT;

/// Writes the profile in pprof's format: objects and bytes, allocated and live, by stack. `%p` in
/// the path is replaced by the process ID. The file is replaced when all of it is written.
/// \returns  1; or 0 after one sentence on standard error that says why.
STRATA_API int strata_profile_write(const char* path) STRATA_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
