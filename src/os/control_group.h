#pragma once

#include <cstddef>

/// \file  How much memory the kernel lets this process have.

namespace strata::os {

/// The smallest memory limit of the control groups that this process is in, its own and those above
/// it, version 2 (memory.max) or 1 (memory.limit_in_bytes); the machine's memory if none is
/// smaller. Of version 2, groups that no mount shows to this process do not count.
/// \param root  a prefix for every path that is opened, for tests: "" is the real system.
/// \returns  Bytes; 0 if nothing can be read.
/// \threads  One at a time.
/// \cost     some twenty system calls; no allocation; fits the smallest stack of a thread
/// \source   cgroups(7), proc_pid_mountinfo(5), the kernel's
///           Documentation/admin-guide/cgroup-v2.rst
std::size_t allowed_memory_bytes(const char* root = "") noexcept;

}  // namespace strata::os
