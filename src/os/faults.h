#pragma once

#include <cstdint>

/// \file  Accesses that the processor refuses: SIGSEGV, reported to the owner of the protected
///        memory.

namespace strata::os {

struct Fault {
  enum class Access : unsigned char { kUnknown, kRead, kWrite };

  const void* address;  ///< what was accessed
  Access access;
  std::uintptr_t code;    ///< the instruction; 0 if unknown
  std::uintptr_t sp = 0;  ///< its stack pointer and frame pointer; likewise
  std::uintptr_t fp = 0;
};

/// Whether the program, or anything in it but ourselves, handles SIGSEGV.
bool has_fault_handler() noexcept;

/// From now on calls `is_ours` for each fault, on the stack of the thread that made it, or on its
/// alternate one if it has one. If it returns true, the process dies of the signal, at the
/// instruction that made the fault. If it returns false, the handler from before this call takes
/// the signal, as if it alone had been installed.
/// A program that installs a handler later replaces this one, and works as it did without it; if
/// its handler passes faults on to the one before, they arrive here.
/// A second owner of memory is asked after the first; there is no room for a third.
/// \threads  Any number at once.
/// \returns  False if the system refuses.
bool install_fault_handler(bool (*is_ours)(const Fault&)) noexcept;

}  // namespace strata::os
