#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::recorder {

/// The functions that the program would call without us: those of the next library in the order of
/// the dynamic linker. What a library does not have is nullptr, but for the first four.
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

/// The operators, which a C program does not have.
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
  /// The C++ runtime's, which call malloc and free: then so do we, and spare a way through them.
  bool are_plain;
};

extern Next g_next;
extern NextOperators g_next_operators;

/// Looks them up, once. The linker may allocate meanwhile: from the first memory below.
/// \returns  False while another call of this thread is at it
bool find_next() noexcept;
bool find_next_operators() noexcept;  ///< again and again, until there are some
const char* next_library() noexcept;  ///< the file that malloc comes from

// Chosen: the dynamic linker takes some hundred bytes; this is for libraries that start early.
constexpr std::size_t kFirstMemory = 64 * 1024;
extern char g_first_memory[kFirstMemory];

/// Memory for those who allocate before the next malloc is found; it is never given back.
void* allocate_first(std::size_t bytes, std::size_t alignment) noexcept;
inline bool is_first_memory(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(g_first_memory) <
         kFirstMemory;
}
/// How much may be copied from there.
std::size_t first_bytes_from(const void* p) noexcept;

}  // namespace strata::recorder
