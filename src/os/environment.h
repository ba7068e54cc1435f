#pragma once

#include <cstddef>
#include <cstdint>

/// \file  What the kernel gave the process at its start.

namespace strata::os {

/// The value of NAME in the environment, or nullptr. The pointer stays valid until setenv.
const char* environment_variable(const char* name) noexcept;

/// Entry `index` of the environment as "NAME=value", nullptr after the last. Until the C library
/// has started, that of the process's start.
const char* environment_entry(std::size_t index) noexcept;

/// Whether the C library has an environment, even an empty one: glibc has none before the first
/// constructor, while the program's preinit array runs.
bool has_environment() noexcept;

/// Whether the program runs with rights that the user who started it lacks (set-user-ID and the
/// like): then the environment cannot be trusted.
/// \cost  a read of what the kernel left at the start
bool has_foreign_rights() noexcept;

/// The kernel's 16 random bytes of the process's start, reduced to one word: differs from run to
/// run.
std::uint64_t random_seed() noexcept;

}  // namespace strata::os
