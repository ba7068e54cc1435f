#pragma once

#include <atomic>
#include <cstring>

#include "malloc/malloc_instance.h"

/// \file  The malloc of this process: its globals, the calling thread's state, and functions that
///        use both. process.cpp has its start, fork, and how it learns that a thread ends.

namespace strata {

extern constinit PageMap g_page_map;
extern constinit MallocInstance g_malloc;

/// The calling thread's bins: those of its ThreadCache. Before the heap first serves the thread,
/// after its last call, and under STRATA_CHECKS=full, they are empty ones that send every call to
/// the slow path.
extern constinit thread_local ThreadState t_thread;

/// Registers the malloc's fork handlers, if they are not registered. Handlers registered after them
/// find it unlocked.
/// \pre  no lock of ours is held
void follow_forks() noexcept;

/// Exists only in the shared library. Whether it learns in time that fork handlers matter: it calls
/// follow_forks() before any file registers its own. A process with one thread needs none, since it
/// does not fork while it holds a lock. glibc makes the vector of each new thread's thread-local
/// storage by calloc(), after it has noted that there will be two threads.
///
/// This and the following are declared hidden where they are defined, and not here: in a
/// position-independent program, gold gives a hidden, undefined symbol an address.
[[gnu::weak]] bool learns_of_forks() noexcept;

/// Exists only in the shared library. Whether it can start the malloc before the program sets a
/// filter of system calls, which might refuse what the start takes.
[[gnu::weak]] bool learns_of_filters() noexcept;

/// The malloc's first chunk of bookkeeping; only in the shared library, whose variables lie apart
/// from the program's. A small heap needs no more, and no system call for it.
[[gnu::weak]] extern char g_first_chunk[MetadataArena::kChunkBytes];

/// Where the C library notes whether this is the only thread, while that matters here; otherwise a
/// character that is not 0.
extern constinit std::atomic<const char*> g_alone;

/// The slow paths. A hot path has one call of them, without an argument for the malloc or the
/// thread.
void* allocate_slowly(std::size_t bytes) noexcept;
void* allocate_slowly(std::size_t bytes, Allocation::By by) noexcept;
void* allocate_aligned_slowly(std::size_t alignment, std::size_t bytes, Allocation::By by) noexcept;
void* allocate_zeroed_slowly(std::size_t count, std::size_t bytes) noexcept;
void deallocate_slowly(void* p, const void* caller) noexcept;
void deallocate_slowly(void* p, FreeCall::By by, std::size_t bytes, std::size_t alignment) noexcept;

/// Pops from the thread's bins; nullptr sends the caller to the slow paths.
[[gnu::always_inline]] inline void* try_allocate(std::size_t bytes) noexcept {
  return HotPath::pop_or_verify(t_thread, g_page_map, bytes);
}
[[gnu::always_inline]] inline void* try_allocate_aligned(std::size_t alignment,
                                                         std::size_t bytes) noexcept {
  void* const object = HotPath::pop_aligned(t_thread, alignment, bytes);
  if (object == nullptr) [[unlikely]]
    return nullptr;
  void* const address = FreeObject(object).address();
  if (address == nullptr) __builtin_unreachable();
  return address;
}

[[gnu::always_inline]] inline void* allocate(std::size_t bytes) noexcept {
  if (void* const object = try_allocate(bytes)) [[likely]]
    return object;
  return allocate_slowly(bytes);
}
/// The same for operator new.
[[gnu::always_inline]] inline void* allocate(std::size_t bytes, Allocation::By by) noexcept {
  if (void* const object = try_allocate(bytes)) [[likely]]
    return object;
  return allocate_slowly(bytes, by);
}
/// Names as caller the one that called the function into which this is inlined.
[[gnu::always_inline]] inline void deallocate(void* p) noexcept {
  if (HotPath::push_or_verify(t_thread, g_page_map, p)) [[likely]]
    return;
  if (p != nullptr)
    deallocate_slowly(p, __builtin_extract_return_addr(__builtin_return_address(0)));
}
/// The same for a call that gives the object's size or alignment.
[[gnu::always_inline]] inline void deallocate(void* p, FreeCall::By by, std::size_t bytes,
                                              std::size_t alignment = FreeCall::kUnsaid) noexcept {
  if (HotPath::push(t_thread, g_page_map, p)) [[likely]]
    return;
  if (p != nullptr) deallocate_slowly(p, by, bytes, alignment);
}
[[gnu::always_inline]] inline void* allocate_zeroed(std::size_t count, std::size_t bytes) noexcept {
  std::size_t total;
  if (*g_alone.load(std::memory_order_relaxed) != 0 &&
      !__builtin_mul_overflow(count, bytes, &total)) [[likely]] {
    if (void* const object = try_allocate(total)) [[likely]]
      return std::memset(object, 0, total);
  }
  return allocate_zeroed_slowly(count, bytes);
}
[[gnu::always_inline]] inline void* allocate_aligned(
    std::size_t alignment, std::size_t bytes,
    Allocation::By by = Allocation::By::kMalloc) noexcept {
  if (void* const object = try_allocate_aligned(alignment, bytes)) [[likely]]
    return object;
  return allocate_aligned_slowly(alignment, bytes, by);
}
inline void* reallocate(void* p, std::size_t bytes) noexcept {
  return g_malloc.reallocate(t_thread, g_page_map, p, bytes);
}
inline std::size_t usable_bytes(const void* p) noexcept {
  return g_malloc.usable_bytes(g_page_map, p);
}
inline bool release_memory() noexcept { return g_malloc.release_memory(t_thread); }

}  // namespace strata

/// What the malloc and the user's heaps may hold together, by the options; nullptr if there is no
/// limit. Starts the malloc. For heaps, which may be linked from another copy of this code: the
/// number is the version of SharedLimit's layout.
extern "C" [[gnu::visibility("default")]] strata::SharedLimit* strata_shared_limit_1() noexcept;
