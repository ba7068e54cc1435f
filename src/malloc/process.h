#pragma once

#include <cstddef>
#include <cstdint>

#include "malloc/engine.h"
#include "malloc/options.h"
#include "malloc/scavenger.h"
#include "thread_cache/object_bins.h"

/// \file  The malloc of this process: the one global, the one thread-local pointer, and the paths
/// that
///        need to know them. The hot path is inline here; everything else is a call away.

namespace strata {

/// What the process has one of.
struct Process {
  constexpr Process() noexcept : engine(os::kernel_pages()), scavenger(engine) {}

  Engine engine;
  Scavenger scavenger;
  Options options;
};

extern constinit Process g_process;

/// The calling thread's bins: those of its ThreadCache or, before its first malloc, after its last,
/// and under STRATA_CHECKS=full, empty ones that send every call the slow way. One pointer of
/// static TLS, so that the library can be loaded with dlopen.
extern constinit thread_local ObjectBins* t_bins;

/// The slow paths: any size, any state of the thread and of the process.
/// \returns  nullptr with errno ENOMEM when out of memory.
void* allocate_slowly(std::size_t bytes) noexcept;
void deallocate_slowly(void* p) noexcept;

/// malloc. \cost 15 instructions for up to 1 KiB from the thread's bins.
[[gnu::always_inline]] inline void* allocate(std::size_t bytes) noexcept {
  if (bytes <= SizeClassMap::kMaxTableBytes) [[likely]] {
    if (void* object = t_bins->pop(SizeClassMap::class_of_tiny(bytes))) [[likely]]
      return object;
  }
  return allocate_slowly(bytes);
}

/// free. \cost 19 instructions for small objects. One comparison sees a pointer that is misaligned
/// or not ours, one a double free of the bin's latest object.
[[gnu::always_inline]] inline void deallocate(void* p) noexcept {
  if (t_bins->push(g_process.engine.class_of(p), p)) [[likely]]
    return;
  deallocate_slowly(p);
}

/// calloc. \returns nullptr with ENOMEM if the product overflows, too.
void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept;
/// \param alignment  a power of two
void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept;
void* reallocate(void* p, std::size_t bytes) noexcept;
std::size_t usable_bytes(const void* p) noexcept;
/// Everything idle goes back to the kernel, the calling thread's objects included. \returns true if
/// any did
bool release_memory() noexcept;

}  // namespace strata
