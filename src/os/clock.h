#pragma once

#include <cstdint>

/// \file  Four clocks. All are the kernel's, even if another file defines clock_gettime: one that
///        allocates would be called by the malloc that it calls. Where a filter refuses the system
///        call, that function is called after all.

namespace strata::os {

/// Nanoseconds since an arbitrary start; monotonic.
/// \cost  a system call
std::uint64_t monotonic_ns() noexcept;

/// Nanoseconds since the beginning of 1970, as accurate as the machine's clock.
/// \cost  a system call
std::uint64_t wall_clock_ns() noexcept;

/// CPU time of this process's threads, in nanoseconds.
/// \cost  a system call
std::uint64_t process_cpu_ns() noexcept;

/// CPU time of this thread, in nanoseconds.
/// \cost  a system call
std::uint64_t thread_cpu_ns() noexcept;

}  // namespace strata::os
