#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::os {

/// A function's entry (FDE) in the unwind table of its file, and where the function begins.
struct TableEntry {
  const void* entry = nullptr;
  std::uintptr_t function = 0;
};

/// Whether this system has what find_table_entry() needs (glibc from 2.35 on).
bool can_find_table_entries() noexcept;

/// Where the file that contains an address was loaded; nullptr if there is none.
/// \pre      can_find_table_entries()
/// \threads  as find_table_entry()
const void* find_file(const void* address) noexcept;

/// The length of that file from there; 0 if there is none. As find_file().
std::size_t find_file_bytes(const void* address) noexcept;

/// Finds the entry of the function that contains an instruction, by the loader's list of files and
/// the file's own index: no unwinder is needed, and none is loaded.
/// \returns  No entry for code without a table, or if the index is of a kind that no linker makes
///           today.
/// \pre      the code stays loaded meanwhile
/// \threads  Any, even in signal handlers; takes no lock.
/// \source   Linux Standard Base, "Exception Frames" and ".eh_frame_hdr"
TableEntry find_table_entry(std::uintptr_t instruction) noexcept;

}  // namespace strata::os
