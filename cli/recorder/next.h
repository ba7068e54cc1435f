#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::recorder {

/// The functions that the program would call without the recorder: those of the next library in the
/// dynamic linker's search order. Missing ones are nullptr, except that the first four always
/// exist.
struct Next {
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void* (*reallocarray)(void*, std::size_t, std::size_t);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  void (*free_sized)(void*, std::size_t);
  void (*free_aligned_sized)(void*, std::size_t, std::size_t);
};

/// The operators new and delete, which a C program lacks.
struct NextOperators {
  void* (*make)(std::size_t);
  void* (*make_array)(std::size_t);
  void* (*make_nothrow)(std::size_t, const void*);
  void* (*make_array_nothrow)(std::size_t, const void*);
  void* (*make_aligned)(std::size_t, std::size_t);
  void* (*make_array_aligned)(std::size_t, std::size_t);
  void* (*make_aligned_nothrow)(std::size_t, std::size_t, const void*);
  void* (*make_array_aligned_nothrow)(std::size_t, std::size_t, const void*);
  void (*drop)(void*);
  void (*drop_array)(void*);
  void (*drop_sized)(void*, std::size_t);
  void (*drop_array_sized)(void*, std::size_t);
  void (*drop_aligned)(void*, std::size_t);
  void (*drop_array_aligned)(void*, std::size_t);
  void (*drop_sized_aligned)(void*, std::size_t, std::size_t);
  void (*drop_array_sized_aligned)(void*, std::size_t, std::size_t);
  /// True for the C++ runtime's operators: they only call malloc and free, so we call those
  /// directly.
  bool are_plain;
};

extern Next g_next;
extern NextOperators g_next_operators;

/// Looks the functions up, once. If the dynamic linker allocates meanwhile, it gets first memory
/// (below).
/// \returns  False during a lookup by the same thread
bool find_next() noexcept;
bool find_next_operators() noexcept;  ///< tries again until it finds some
const char* next_library() noexcept;  ///< the file that provides malloc

// Chosen: the dynamic linker needs some hundred bytes; the rest is for libraries that start early.
constexpr std::size_t kFirstMemory = 64 * 1024;
extern char g_first_memory[kFirstMemory];

/// Allocates before the next malloc has been found. This memory is never freed.
void* allocate_first(std::size_t bytes, std::size_t alignment) noexcept;
inline bool is_first_memory(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(g_first_memory) <
         kFirstMemory;
}
/// How many bytes can be copied from `p` without leaving the first memory.
std::size_t first_bytes_from(const void* p) noexcept;

}  // namespace strata::recorder
