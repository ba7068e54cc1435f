#pragma once

#include <cstdint>

/// \file  Where code comes from, as the dynamic loader knows it.

namespace strata::os {

struct CodePlace {
  const char* module;     ///< the file that was loaded
  std::uintptr_t offset;  ///< its address in the file, as for `addr2line -e module`
  const char*
      function;  ///< its name in the dynamic symbol table, as the linker sees it; or nullptr
  std::uintptr_t function_offset;
};

/// \returns  False if no loaded file has code there.
/// \threads  Any; not async-signal-safe: it may wait for a dlopen of another thread.
bool find_code(const void* address, CodePlace& out) noexcept;

/// Whether the process has AddressSanitizer's runtime. Its shadow lies at low addresses from its
/// start on, which may be after ours, and it ends the process if it finds anything there.
bool has_shadow_at_low_addresses() noexcept;

/// Whether this code is part of the program itself, not of a library: then it has no range of
/// its own.
bool is_part_of_the_program() noexcept;

/// Whether this code is a shared library's in a process whose malloc another file defines: the
/// program itself, or a library before this one.
bool is_malloc_of_another_file() noexcept;

/// A function by its name, of the program or a library that it was started with; nullptr if there
/// is none. May allocate through the process's malloc.
void* find_function(const char* name) noexcept;

/// The same in a library that is loaded, or in one that it needs, whoever loaded it. The library
/// stays loaded from then on.
void* find_function_of(const char* library, const char* name) noexcept;

/// Keeps this code's file loaded, whatever a dlclose says. May allocate, and waits for a dlopen of
/// another thread.
void stay_loaded() noexcept;

/// dlopen.
using OpenLibrary = void* (*)(const char* file, int flags);
/// The dlopen that the program would call without ours; nullptr if there is none.
OpenLibrary next_open_library() noexcept;
/// dlopen's flags without RTLD_DEEPBIND, which makes a library prefer its own symbols and those of
/// its dependencies, including the C library, to those of libraries loaded before.
int without_deep_binding(int flags) noexcept;

/// What pthread_atfork calls in glibc.
using RegisterForkHandlers = int (*)(void (*before)(), void (*in_parent)(), void (*in_child)(),
                                     void* file);
/// The C library's own; nullptr if there is none.
RegisterForkHandlers next_register_fork_handlers() noexcept;

}  // namespace strata::os
