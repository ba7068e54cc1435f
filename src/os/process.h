#pragma once

#include <cstdint>

/// \file  The life of the process: its ID, fork, signals, its end.

namespace strata::os {

std::uint64_t process_id() noexcept;

[[noreturn]] void abort_process() noexcept;

/// Runs the three handlers around every fork().
/// \returns  False if the C library has no room.
bool register_fork_handlers(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept;

/// Calls `handler` when the signal arrives, on the signal stack if there is one; interrupted system
/// calls go on.
/// \returns  False if the system refuses, something else handles the signal already, or it is that
///           of a fault.
bool handle_signal(int signal, void (*handler)(int)) noexcept;
/// Unblocks the signal in the calling thread.
void let_in_signal(int signal) noexcept;

/// Whether prctl() with this operation sets a filter of system calls, or may prepare for one.
bool is_about_filters(int operation) noexcept;
/// prctl(), even if another file defines one.
/// \returns  as prctl(), errno included
int control_process(int operation, const unsigned long (&arguments)[4]) noexcept;

/// Runs `handler` at normal exit.
/// \returns  False if the C library has no room.
bool register_exit_handler(void (*handler)()) noexcept;

}  // namespace strata::os
