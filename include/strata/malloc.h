#pragma once

/// \file  The malloc under names of its own, for C and C++, beside the C library's names or instead
/// of them.
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

/// Allocates `bytes` bytes, aligned to 16. 0 bytes give a distinct block, where every access may
/// fault.
/// \returns  The block, contents unspecified; NULL with errno ENOMEM when out of memory or beyond
///           PTRDIFF_MAX.
/// \cost     16 instructions for up to 1 KiB from the thread's cache; 39 while frees are verified,
///           by default as long as that is cheap.
STRATA_API STRATA_MALLOC_LIKE void* strata_malloc(size_t bytes) STRATA_NOEXCEPT;

/// Frees a block from any allocating function here; ignores NULL.
/// \errors  Freeing anything but a live block ends the program with a sentence on standard error
///          when it is detected: at once while frees are verified (by default as long as that is
///          cheap); under STRATA_CHECKS=basic at once if the pointer is foreign, misaligned or this
///          thread's latest free of that size, otherwise when both copies reach their span.
/// \cost    19 instructions for small blocks; 34 while frees are verified.
STRATA_API void strata_free(void* block) STRATA_NOEXCEPT;

/// Frees a block of known size: the one passed to malloc, calloc or realloc. Used only under
/// STRATA_CHECKS=frees and full, where a wrong size is fatal.
STRATA_API void strata_free_sized(void* block, size_t bytes) STRATA_NOEXCEPT;

/// Allocates `count` × `bytes` bytes, all zero.
/// \returns  The block; NULL with ENOMEM also if the product overflows.
STRATA_API STRATA_MALLOC_LIKE void* strata_calloc(size_t count, size_t bytes) STRATA_NOEXCEPT;

/// Resizes a block, in place if possible; huge blocks are remapped, not copied.
/// \returns  The block, moved or not, with its contents up to the smaller size; NULL with ENOMEM,
///           and the old block untouched, when out of memory. bytes == 0 frees the block and
///           returns NULL, as the C library does.
STRATA_API void* strata_realloc(void* block, size_t bytes) STRATA_NOEXCEPT;

/// Allocates `bytes` bytes at a multiple of `alignment`, a power of two; `bytes` may be any number.
/// \returns  The block; NULL with errno EINVAL for any other alignment, ENOMEM when out of memory.
STRATA_API STRATA_MALLOC_LIKE void* strata_aligned_alloc(size_t alignment,
                                                         size_t bytes) STRATA_NOEXCEPT;

/// The usable bytes of `block`, at least the size requested; 0 for NULL.
STRATA_API size_t strata_usable_size(const void* block) STRATA_NOEXCEPT;

/// Returns all idle memory to the kernel now, including all threads' caches.
/// \returns  1 if any memory was returned, else 0.
/// \cost     system calls in proportion to the idle memory
STRATA_API int strata_release_memory(void) STRATA_NOEXCEPT;

/// Prints statistics as text to standard error, or to the file that STRATA_STATS_FILE names.
/// Allocates nothing.
/// \cost  a visit to every size class and every thread's cache
STRATA_API void strata_stats_print(void) STRATA_NOEXCEPT;

/// Writes statistics as one JSON document, described by docs/stats-schema.json. Like snprintf, it
/// writes what fits into `size` bytes, the final 0 included. `buffer` may be NULL if `size` is 0.
/// \returns  The length of the whole document without the 0: below `size` if all of it was written.
///           16 KiB always suffice. Allocates nothing.
/// \cost     some microseconds, and one per thread: cheap enough for every second
STRATA_API size_t strata_stats_json(char* buffer, size_t size) STRATA_NOEXCEPT;

/// Writes the options as a JSON array in the same way: for each its name, accepted values, default,
/// value in the current environment, state (default, set, or invalid and so the default), and what
/// it does. Names in the environment that are no options follow, each with its text, the state
/// unknown, and nothing else.
STRATA_API size_t strata_options_json(char* buffer, size_t size) STRATA_NOEXCEPT;

/// Starts or resumes sampling allocations with their stacks, one per `rate` bytes on average
/// (524288 is usual; 1 takes every allocation). A profile holds the samples of one rate, the
/// latest: a rate that is new to the process starts an empty profile, one used before continues
/// from its samples. The profile's duration counts from the latest change of rate. Loads the C
/// library's unwinder with dlopen, once.
/// \returns  1; 0 if the rate is 0 or above 1 GiB, memory is out, or the caller is a signal handler
///           that interrupted the malloc.
/// \threads  One at a time with strata_profile_stop().
/// \cost     While on, some 12 instructions per allocation and some microseconds per sample.
STRATA_API int strata_profile_start(size_t rate) STRATA_NOEXCEPT;

/// Stops sampling. The samples stay in the profile; later frees are still subtracted. Does nothing
/// in a signal handler that interrupted the malloc.
STRATA_API void strata_profile_stop(void) STRATA_NOEXCEPT;

/// Writes the profile in pprof's format: objects and bytes, allocated and live, by stack. `%p` in
/// the path is replaced by the process ID. The file is replaced once all of it is written.
/// \returns  1; or 0 after one sentence on standard error that says why, or without one in a signal
///           handler that interrupted the malloc.
STRATA_API int strata_profile_write(const char* path) STRATA_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
