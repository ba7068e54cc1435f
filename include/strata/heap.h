#pragma once

/// \file  strata::Heap (strata/heap.hpp) for C, in the archive strata::heap: heaps of one's own
/// beside the process's malloc, each with limits, statistics and a name.
///
/// Any thread may free a block, but only into the heap that it came from. What strata/heap.hpp says
/// about misuse, cost, fork and memory holds here, too. A heap must not be NULL.
/// \threads  Every function: any number at once, unless said otherwise.

#ifdef __cplusplus
#include <cstddef>
#include <cstdint>
#define STRATA_HEAP_NOEXCEPT noexcept
extern "C" {
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#define STRATA_HEAP_NOEXCEPT
#endif

#if defined(__GNUC__)
#define STRATA_HEAP_MALLOC_LIKE __attribute__((malloc, warn_unused_result))
#else
#define STRATA_HEAP_MALLOC_LIKE
#endif

/// A heap, identified by its address.
typedef struct strata_heap strata_heap;

/// When a heap's 2 MiB regions ask the kernel for huge pages.
enum {
  STRATA_HEAP_HUGE_PAGES_AUTO = 0,    ///< once one more region does not matter
  STRATA_HEAP_HUGE_PAGES_ALWAYS = 1,  ///< at their first touch
  STRATA_HEAP_HUGE_PAGES_NEVER = 2
};

/// Memory for a heap's blocks instead of the kernel's, as Heap::PageSource in strata/heap.hpp,
/// which says when each function is called and what it must not do.
typedef struct strata_page_source {
  void* context;  ///< passed to each call
  /// \returns  `bytes` bytes aligned to `alignment`, all zero; NULL refuses the allocation
  void* (*map)(void* context, size_t bytes, size_t alignment);
  /// Takes back a range exactly as map returned it.
  void (*unmap)(void* context, void* address, size_t bytes);
  /// Releases the memory of some OS pages, which stay mapped; NULL: nothing is released.
  /// \returns  true if the pages read as zero from now on
  bool (*purge)(void* context, void* address, size_t bytes);
} strata_page_source;

/// All zero, as in {0}, they are the defaults.
typedef struct strata_heap_options {
  const char* name;                 ///< for messages and statistics, cut to 31 bytes; NULL: none
  size_t soft_limit_bytes;          ///< above it all idle memory is returned at once; 0: none
  size_t hard_limit_bytes;          ///< allocations beyond it fail; 0: none. STRATA_HARD_LIMIT
                                    ///< limits all heaps and the malloc together
  uint32_t reclaim_delay_ms;        ///< memory idle for this long is returned; 0: 1000
  bool keeps_idle_memory;           ///< until strata_heap_release_memory()
  bool checks_fully;                ///< as STRATA_CHECKS=full: every block is watched
  bool checks_frees;                ///< as STRATA_CHECKS=frees, where checks_fully is false
  uint32_t guard_rate;              ///< as STRATA_GUARD_RATE: one in this many is guarded; 0: none
  uint8_t huge_pages;               ///< STRATA_HEAP_HUGE_PAGES_…
  const strata_page_source* pages;  ///< copied; NULL: the kernel
} strata_heap_options;

/// In bytes. At rest: mapped == live + cached + free + metadata + returned, and
/// held == mapped - returned.
typedef struct strata_heap_statistics {
  size_t mapped;
  size_t live;      ///< owned by the program, rounded up to size classes or pages
  size_t cached;    ///< free, in thread caches and transfer caches
  size_t free;      ///< other free memory, not yet returned
  size_t metadata;  ///< bookkeeping
  size_t returned;  ///< address space without memory
  size_t held;      ///< what the limits count
  size_t peak;      ///< the largest held
  size_t soft_limit;
  size_t hard_limit;
  uint64_t refusals;  ///< by the hard limit, the heap's or the process's
  size_t threads;     ///< with a cache
} strata_heap_statistics;

/// Makes a heap.
/// \param options  NULL: the defaults
/// \param reason   If not NULL, set to NULL or, on failure, a sentence in static memory.
/// \returns  The heap; NULL if the options contradict each other, huge_pages is none of its values,
///           pages lacks map or unmap, there is no memory for it, 32767 heaps exist, or the process
///           has no key of the C library (pthread_key_create) left.
/// \cost     Microseconds. Memory is taken at the first allocation.
strata_heap* strata_heap_create(const strata_heap_options* options,
                                const char** reason) STRATA_HEAP_NOEXCEPT;

/// Destroys a heap with all its memory, live blocks included; ignores NULL.
/// \threads  No thread may be using this heap, or use it again.
void strata_heap_destroy(strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// Allocates `bytes` bytes (0 gives a distinct block), aligned to 16.
/// \returns  The block, contents unspecified; NULL with errno ENOMEM if a limit or the kernel
///           refuses, or `bytes` is above PTRDIFF_MAX.
/// \cost     one instruction more than Heap::allocate()
STRATA_HEAP_MALLOC_LIKE void* strata_heap_malloc(strata_heap* heap,
                                                 size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Allocates `count` × `bytes` bytes, all zero.
/// \returns  The block; NULL with ENOMEM also if the product overflows.
STRATA_HEAP_MALLOC_LIKE void* strata_heap_calloc(strata_heap* heap, size_t count,
                                                 size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Allocates `bytes` bytes at a multiple of `alignment`, a power of two.
/// \returns  The block; NULL with errno EINVAL for any other alignment, ENOMEM when out of memory.
STRATA_HEAP_MALLOC_LIKE void* strata_heap_aligned_alloc(strata_heap* heap, size_t alignment,
                                                        size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Resizes a block, in place if possible; NULL allocates, bytes == 0 frees and returns NULL.
/// \returns  The block, moved or not, with its contents up to the smaller size; NULL with ENOMEM,
///           and the old block untouched, when out of memory.
void* strata_heap_realloc(strata_heap* heap, void* block, size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Frees a block; ignores NULL.
/// \errors  Freeing anything but a live block of this heap ends the program with a sentence on
///          standard error when it is detected.
void strata_heap_free(strata_heap* heap, void* block) STRATA_HEAP_NOEXCEPT;

/// Frees a block of known size: the one passed to malloc, calloc or realloc; not for blocks of
/// aligned_alloc. checks_frees and checks_fully verify it.
void strata_heap_free_sized(strata_heap* heap, void* block, size_t bytes) STRATA_HEAP_NOEXCEPT;

/// The size class of a request, to look up once and reuse; 0, for no class, above 160 KiB.
size_t strata_heap_size_class(size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Allocates the largest size of a class from strata_heap_size_class(); NULL for class 0.
/// \cost  as Heap::allocate_raw() and Heap::deallocate_raw(), with an instruction more each
STRATA_HEAP_MALLOC_LIKE void* strata_heap_malloc_raw(strata_heap* heap,
                                                     size_t size_class) STRATA_HEAP_NOEXCEPT;

/// Frees a block that strata_heap_malloc_raw() returned for this class; not NULL. checks_frees and
/// checks_fully verify the class.
void strata_heap_free_raw(strata_heap* heap, void* block, size_t size_class) STRATA_HEAP_NOEXCEPT;

/// \returns  The usable bytes of `block`, at least the size requested; 0 for NULL.
size_t strata_heap_usable_size(const strata_heap* heap, const void* block) STRATA_HEAP_NOEXCEPT;

/// Resizes a block without moving it, to at least `bytes` usable bytes.
/// \returns  False, with nothing changed, if it would have to move; under full checks for any other
///           size, under checks of frees for less than half of the usable bytes.
bool strata_heap_resize_in_place(strata_heap* heap, void* block, size_t bytes) STRATA_HEAP_NOEXCEPT;

/// \returns  The usable bytes of a request of `bytes`, in any heap; 0 if above PTRDIFF_MAX.
size_t strata_heap_good_size(size_t bytes) STRATA_HEAP_NOEXCEPT;

/// True if the address lies anywhere in this heap's memory.
bool strata_heap_owns(const strata_heap* heap, const void* address) STRATA_HEAP_NOEXCEPT;

/// Frees every block at once; the memory of those up to 1 MiB stays with the heap.
/// \threads  No other thread may be using this heap.
void strata_heap_reset(strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// Returns all idle memory to the kernel.
/// \returns  true if there was any
bool strata_heap_release_memory(strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// \returns  The heap's name, or "".
const char* strata_heap_name(const strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// Fills in *statistics.
/// \cost  a visit to every size class and every thread's cache, each under its lock
void strata_heap_statistics_of(const strata_heap* heap,
                               strata_heap_statistics* statistics) STRATA_HEAP_NOEXCEPT;

/// Writes all figures as one JSON document, described by docs/stats-schema.json, or as readable
/// text. Like snprintf, it writes what fits into `size` bytes, the final 0 included. `buffer` may
/// be NULL if `size` is 0. 16 KiB suffice for either.
/// \returns  The length of the whole without the 0: below `size` if all of it was written.
size_t strata_heap_stats_json(const strata_heap* heap, char* buffer,
                              size_t size) STRATA_HEAP_NOEXCEPT;
size_t strata_heap_stats_text(const strata_heap* heap, char* buffer,
                              size_t size) STRATA_HEAP_NOEXCEPT;

/// A profile of all heaps: see Heap::start_profile() and what follows it in strata/heap.hpp.
/// \param rate  mean bytes between samples; 1 samples everything
/// \returns     false if the rate is 0 or above 1 GiB, or there is no memory for it
/// \threads     start and stop: one at a time
bool strata_heap_profile_start(size_t rate) STRATA_HEAP_NOEXCEPT;
void strata_heap_profile_stop(void) STRATA_HEAP_NOEXCEPT;
/// \param path  %p stands for the process ID
/// \returns     false after one sentence on standard error that says why, or without one in a
///              signal handler that interrupted the malloc or a heap
bool strata_heap_profile_write(const char* path) STRATA_HEAP_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
