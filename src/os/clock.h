#pragma once

#include <cstdint>

/// \file  Time, of four clocks. All are the kernel's, whoever else has a clock_gettime: one that
/// allocates would be called by what it calls. Where a filter refuses the call, it is asked after
/// all.

namespace strata::os {

/// Nanoseconds since an arbitrary start; never goes back.
/// \cost  a system call
std::uint64_t monotonic_ns() noexcept;

/// Nanoseconds since the beginning of 1970; as right as the machine's clock.
/// \cost  a system call
std::uint64_t wall_clock_ns() noexcept;

/// Nanoseconds that the threads of this process have had a processor.
/// \cost  a system call
std::uint64_t process_cpu_ns() noexcept;

/// Nanoseconds that this thread has had a processor.
/// \cost  a system call
std::uint64_t thread_cpu_ns() noexcept;

}  // namespace strata::os
