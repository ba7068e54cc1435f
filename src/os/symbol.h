#pragma once

#include <cstddef>
#include <cstdint>

/// \file  Where code comes from, as the dynamic loader knows it.

namespace strata::os {

struct CodePlace {
  const char* module;     ///< the file that was loaded
  std::uintptr_t offset;  ///< from where it was loaded; as `addr2line -e module` takes it
  const char*
      function;  ///< its name in the dynamic symbol table, as the linker sees it; or nullptr
  std::uintptr_t function_offset;
};

/// \returns  False if no loaded file has code there.
/// \threads  Any; not async-signal-safe: it may wait for a dlopen of another thread.
bool find_code(const void* address, CodePlace& out) noexcept;

}  // namespace strata::os
