#pragma once

#include <cstddef>

/// \file  The resources that this process has, and its limits.

namespace strata::os {

/// Memory of this process that is in RAM, in bytes, as /proc/self/statm has it; 0 if unreadable.
/// \cost  Three system calls, twice that where main() ended by pthread_exit(); no allocation.
std::size_t resident_bytes() noexcept;

/// The most memory of this process that was in RAM at any time, in bytes, before an execve(), too.
/// 0 behind a seccomp filter, which might end the process for the question.
/// \cost  two system calls
std::size_t most_resident_bytes() noexcept;

/// Processors this process may run on; at least 1.
/// \cost  one system call.
unsigned processor_count() noexcept;

/// This process's limit of address space (RLIMIT_AS); SIZE_MAX if there is none.
/// \cost  one system call.
std::size_t address_space_limit_bytes() noexcept;

/// After the kernel refused to map so many bytes: whether it would refuse whatever this process
/// gave back, since they are more than RAM and swap together, than RLIMIT_AS, or than there are
/// addresses. (A kernel that always overcommits maps more than there is; it is asked first.)
/// \cost  three system calls.
bool is_beyond_machine(std::size_t bytes) noexcept;

}  // namespace strata::os
