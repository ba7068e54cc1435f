#pragma once

#include <signal.h>

namespace strata::os {

/// sigaction() as a system call, for this layer alone: the C library's function lies in a part of
/// that library that a small program needs for nothing else. With a sanitizer, and on processors
/// that this code does not know, calls the C library's.
/// \param now     the action from now on; nullptr: as before
/// \param before  gets the action until now, unless nullptr
/// \returns       false if the system refuses; errno is set
bool exchange_signal_action(int signal, const struct sigaction* now,
                            struct sigaction* before) noexcept;

}  // namespace strata::os
