#pragma once

#include <cstddef>
#include <cstdint>

#include "guard/allocation.h"
#include "guard/guard_pool.h"
#include "malloc/checked_heap.h"
#include "malloc/detour.h"
#include "malloc/engine.h"
#include "malloc/guard_watcher.h"
#include "malloc/options.h"
#include "malloc/profiler.h"
#include "malloc/scavenger.h"
#include "malloc/spare_memory.h"
#include "thread_cache/object_bins.h"

/// \file  The malloc of this process: the one global, the one thread-local pointer, and the paths
/// that need to know them. The hot path is inline here; everything else is a call away.

namespace strata {

/// Bins that are empty for ever: what malloc pops from while a watcher looks at allocations, and
/// before a thread's first malloc.
extern constinit ObjectBins g_empty_bins;

/// What the process has one of.
struct Process {
  constexpr Process() noexcept
      : engine(os::kernel_pages()),
        checked(engine),
        guards(os::kernel_pages(), engine.metadata(), engine.limit()),
        guard_watcher(guards),
        detour(engine, g_empty_bins),
        profiler(engine, detour),
        scavenger(engine) {}

  Engine engine;
  CheckedHeap checked;  ///< what serves every call under STRATA_CHECKS=full
  GuardPool guards;
  GuardWatcher guard_watcher;
  Detour detour;
  Profiler profiler;
  Scavenger scavenger;
  Options options;
};

extern constinit Process g_process;

/// Serves calls that must not wait; nothing of it is set before its first use, so that it takes no
/// room in the file.
extern constinit SpareMemory g_spare;

/// Whether a call must not wait for a lock: a signal handler interrupted the malloc in its own
/// thread, or the process has died with locks held. Then allocations are served from spare memory,
/// a block of the heap that is freed is lost, and what needs to look at the heap says no.
bool must_not_wait() noexcept;

/// The calling thread's bins: those of its ThreadCache or, before its first malloc, after its last,
/// and under STRATA_CHECKS=full, empty ones that send every call the slow way.
extern constinit thread_local ThreadState t_thread;

/// The slow paths: any size, any state of the thread and of the process, on the detour or not.
/// \returns  nullptr with errno ENOMEM when out of memory.
void* allocate_slowly(std::size_t bytes) noexcept;
void deallocate_slowly(void* p) noexcept;
void deallocate_slowly(void* p, FreeCall::By by, std::size_t bytes, std::size_t alignment) noexcept;

/// malloc.
/// \cost  15 instructions for up to 1 KiB from the thread's bins.
[[gnu::always_inline]] inline void* allocate(std::size_t bytes) noexcept {
  if (bytes <= SizeClassMap::kMaxTableBytes) [[likely]] {
    if (void* object = t_thread.for_malloc().pop(SizeClassMap::class_of_tiny(bytes))) [[likely]]
      return object;
  }
  return allocate_slowly(bytes);
}

/// free.
/// \cost  19 instructions for small objects. One comparison sees a pointer that is misaligned or
///        not ours, one a double free of the bin's latest object.
[[gnu::always_inline]] inline void deallocate(void* p) noexcept {
  if (t_thread.free_bins->push(g_process.engine.class_of(p), p)) [[likely]]
    return;
  deallocate_slowly(p);
}

/// The same where the program says more than free does: operator delete, free_sized. What it says
/// is verified where something knows better, and not used.
[[gnu::always_inline]] inline void deallocate(void* p, FreeCall::By by,
                                              std::size_t bytes = FreeCall::kUnsaid,
                                              std::size_t alignment = FreeCall::kUnsaid) noexcept {
  if (t_thread.free_bins->push(g_process.engine.class_of(p), p)) [[likely]]
    return;
  deallocate_slowly(p, by, bytes, alignment);
}

/// calloc.
/// \returns  nullptr with ENOMEM if the product overflows, too.
void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
/// \param alignment  a power of two
void* allocate_aligned(std::size_t alignment, std::size_t bytes,
                       bool by_aligned_new = false) noexcept;
void* reallocate(void* p, std::size_t bytes) noexcept;
std::size_t usable_bytes(const void* p) noexcept;
/// Everything idle goes back to the kernel, the calling thread's objects included.
/// \returns  true if any did
bool release_memory() noexcept;

}  // namespace strata
