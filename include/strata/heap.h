#pragma once

/// \file  strata::Heap (strata/heap.hpp) for C, in the archive strata::heap: heaps of one's own
/// beside the process's malloc, each with limits, statistics and a name.
///
/// A block may be freed by any thread, but only into its heap; what strata/heap.hpp says of misuse,
/// cost, fork and memory holds here, too. A heap may not be NULL.
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

/// A heap; known by its address.
typedef struct strata_heap strata_heap;

/// When a heap's 2 MiB regions ask the kernel for huge pages.
enum {
  STRATA_HEAP_HUGE_PAGES_AUTO = 0,    ///< once one region more does not matter
  STRATA_HEAP_HUGE_PAGES_ALWAYS = 1,  ///< at their first touch
  STRATA_HEAP_HUGE_PAGES_NEVER = 2
};

/// Where a heap's blocks lie, if not where the kernel maps them, as Heap::PageSource in
/// strata/heap.hpp, which says when each is called and what it may not do.
typedef struct strata_page_source {
  void* context;  ///< passed to each call
  /// \returns  `bytes` bytes aligned to `alignment`, all zero; NULL: the allocation is refused
  void* (*map)(void* context, size_t bytes, size_t alignment);
  /// Takes back a range as map gave it.
  void (*unmap)(void* context, void* address, size_t bytes);
  /// Gives up the memory of some OS pages that stay mapped; NULL: it stays.
  /// \returns  whether they read as zero from now on
  bool (*purge)(void* context, void* address, size_t bytes);
} strata_page_source;

/// All zero, as {0} makes them, they are the usual ones.
typedef struct strata_heap_options {
  const char* name;           ///< for sentences and statistics: 31 bytes of it; NULL: none
  size_t soft_limit_bytes;    ///< above it everything idle goes back at once; 0: none
  size_t hard_limit_bytes;    ///< what would pass it is refused; 0: none. STRATA_HARD_LIMIT is
                              ///< about all heaps and the malloc together
  uint32_t reclaim_delay_ms;  ///< what was idle for so long goes back; 0: 1000
  bool keeps_idle_memory;     ///< it stays until strata_heap_release_memory() instead
  bool checks_fully;          ///< as STRATA_CHECKS=full: every block is watched
  bool checks_frees;          ///< as STRATA_CHECKS=frees, where checks_fully is false
  uint32_t guard_rate;        ///< as STRATA_GUARD_RATE: one in so many blocks is guarded; 0: none
  uint8_t huge_pages;         ///< STRATA_HEAP_HUGE_PAGES_…
  const strata_page_source* pages;  ///< copied; NULL: the kernel
} strata_heap_options;

/// In bytes. At rest: mapped == live + cached + free + metadata + returned, and
/// held == mapped - returned.
typedef struct strata_heap_statistics {
  size_t mapped;
  size_t live;      ///< owned by the program, rounded up to size classes or pages
  size_t cached;    ///< free, in thread caches and transfer caches
  size_t free;      ///< free otherwise, and holding memory
  size_t metadata;  ///< bookkeeping
  size_t returned;  ///< address space without memory
  size_t held;      ///< what the limits are about
  size_t peak;      ///< the largest held
  size_t soft_limit;
  size_t hard_limit;
  uint64_t refusals;  ///< by the hard limit, the heap's or the process's
  size_t threads;     ///< with a cache
} strata_heap_statistics;

/// Makes a heap.
/// \param options  NULL: the usual ones
/// \param reason   If not NULL, gets NULL or, on failure, a sentence in static memory.
/// \returns  NULL if the options contradict themselves, huge_pages is none of its values, pages
///           lacks map or unmap, there is no memory for it, or 32767 heaps live.
/// \cost     Microseconds. Memory is taken at the first allocation.
strata_heap* strata_heap_create(const strata_heap_options* options,
                                const char** reason) STRATA_HEAP_NOEXCEPT;

/// Gives everything back, blocks in use included; NULL is fine.
/// \threads  No thread may be inside a call about this heap, or call again.
void strata_heap_destroy(strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// Allocates `bytes` bytes (0 gives a block of its own), aligned to 16.
/// \returns  The block, contents unspecified; NULL with errno ENOMEM when out of memory, by the
///           limit's word or the kernel's, and beyond PTRDIFF_MAX.
/// \cost     one instruction more than Heap::allocate()
STRATA_HEAP_MALLOC_LIKE void* strata_heap_malloc(strata_heap* heap,
                                                 size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Allocates `count` × `bytes` bytes, all zero.
/// \returns  NULL with ENOMEM if the product overflows, too.
STRATA_HEAP_MALLOC_LIKE void* strata_heap_calloc(strata_heap* heap, size_t count,
                                                 size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Allocates with the start a multiple of `alignment`, a power of two.
/// \returns  NULL with errno EINVAL for any other alignment, with ENOMEM when out of memory.
STRATA_HEAP_MALLOC_LIKE void* strata_heap_aligned_alloc(strata_heap* heap, size_t alignment,
                                                        size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Resizes a block, in place where it can; NULL allocates, bytes == 0 frees and returns NULL.
/// \returns  The block, moved or not, its contents kept up to the smaller size; NULL with ENOMEM
///           and the old block untouched when out of memory.
void* strata_heap_realloc(strata_heap* heap, void* block, size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Frees a block; NULL is fine.
/// \errors  What is no live block of this heap is fatal, with a sentence on standard error, where
///          it is seen.
void strata_heap_free(strata_heap* heap, void* block) STRATA_HEAP_NOEXCEPT;

/// The same for a block of known size: as malloc, calloc or realloc was asked, not aligned_alloc.
/// Checks of frees and full checks compare it.
void strata_heap_free_sized(strata_heap* heap, void* block, size_t bytes) STRATA_HEAP_NOEXCEPT;

/// The size class of a request, to be found once: 0 beyond 160 KiB, which has none.
size_t strata_heap_size_class(size_t bytes) STRATA_HEAP_NOEXCEPT;

/// Allocates the largest size of a class that strata_heap_size_class() gave; NULL for class 0.
/// \cost  as Heap::allocate_raw() and Heap::deallocate_raw(), with an instruction more each
STRATA_HEAP_MALLOC_LIKE void* strata_heap_malloc_raw(strata_heap* heap,
                                                     size_t size_class) STRATA_HEAP_NOEXCEPT;

/// Frees a block that strata_heap_malloc_raw() gave for this class; not NULL. Checks of frees and
/// full checks compare the class.
void strata_heap_free_raw(strata_heap* heap, void* block, size_t size_class) STRATA_HEAP_NOEXCEPT;

/// \returns  Bytes that may be used at `block`, at least what was asked for; 0 for NULL.
size_t strata_heap_usable_size(const strata_heap* heap, const void* block) STRATA_HEAP_NOEXCEPT;

/// Makes at least `bytes` bytes usable at `block` where it stands.
/// \returns  False, and nothing changes, if it would have to move; under full checks for any other
///           size, under checks of frees for less than half of what is usable.
bool strata_heap_resize_in_place(strata_heap* heap, void* block, size_t bytes) STRATA_HEAP_NOEXCEPT;

/// \returns  What a request of `bytes` makes usable, in any heap; 0 if that is beyond PTRDIFF_MAX.
size_t strata_heap_good_size(size_t bytes) STRATA_HEAP_NOEXCEPT;

/// True if the address lies in memory of this heap, wherever in it.
bool strata_heap_owns(const strata_heap* heap, const void* address) STRATA_HEAP_NOEXCEPT;

/// Frees every block at once; the memory of those up to 1 MiB stays with the heap.
/// \threads  No other thread may be inside a call about this heap.
void strata_heap_reset(strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// Returns everything idle to the kernel.
/// \returns  true if anything was
bool strata_heap_release_memory(strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// \returns  As it was given, or "".
const char* strata_heap_name(const strata_heap* heap) STRATA_HEAP_NOEXCEPT;

/// Fills in *statistics.
/// \cost  a visit to every size class and every thread's cache, each under its lock
void strata_heap_statistics_of(const strata_heap* heap,
                               strata_heap_statistics* statistics) STRATA_HEAP_NOEXCEPT;

/// Writes all figures as one JSON document, described by docs/stats-schema.json, or as text for a
/// person, as snprintf writes: what fits into `size` bytes, with a 0 after it. `buffer` may be NULL
/// if `size` is 0. 16 KiB hold either.
/// \returns  Characters of the whole, the 0 not counted: below `size` if all of it is there.
size_t strata_heap_stats_json(const strata_heap* heap, char* buffer,
                              size_t size) STRATA_HEAP_NOEXCEPT;
size_t strata_heap_stats_text(const strata_heap* heap, char* buffer,
                              size_t size) STRATA_HEAP_NOEXCEPT;

/// A profile of all heaps, as Heap::start_profile() and its neighbours in strata/heap.hpp.
/// \param rate  mean bytes between samples; 1 takes everything
/// \returns     false if the rate is 0 or above 1 GiB, or there is no memory for it
/// \threads     start and stop: one at a time
bool strata_heap_profile_start(size_t rate) STRATA_HEAP_NOEXCEPT;
void strata_heap_profile_stop(void) STRATA_HEAP_NOEXCEPT;
/// \param path  %p stands for the number of the process
/// \returns     false after one sentence on standard error that says why
bool strata_heap_profile_write(const char* path) STRATA_HEAP_NOEXCEPT;

#ifdef __cplusplus
}  // extern "C"
#endif
