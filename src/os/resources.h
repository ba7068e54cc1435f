#pragma once

#include <cstddef>

/// \file  What of the machine this process has, and may have.

namespace strata::os {

/// Memory of this process that is in RAM, in bytes, as /proc/self/statm has it; 0 if unreadable.
/// \cost  Three system calls, twice that where main() ended by pthread_exit(); no allocation.
std::size_t resident_bytes() noexcept;

/// Processors this process may run on; at least 1.
/// \cost  one system call.
unsigned processor_count() noexcept;

/// The most address space this process may have (RLIMIT_AS); SIZE_MAX if that is not limited.
/// \cost  one system call.
std::size_t address_space_limit_bytes() noexcept;

/// Of bytes that the kernel has refused to map: whether it would do so whatever this process gave
/// back to it, since they are more than RAM and swap together, than RLIMIT_AS, or than there are
/// addresses. (A kernel that always overcommits maps more than there is; it is asked first.)
/// \cost  three system calls.
bool is_beyond_machine(std::size_t bytes) noexcept;

}  // namespace strata::os
