#pragma once

#include <signal.h>

namespace strata::os {

/// sigaction(), for this layer alone, as a system call of its own: the C library's lies in a part
/// of that library which a small program needs for nothing else. With a sanitizer, and on
/// processors that it does not know, it is the C library's.
/// \param now     the action from now on; nullptr: as before
/// \param before  gets the action until now, unless nullptr
/// \returns       false if the system refuses; errno is set
bool exchange_signal_action(int signal, const struct sigaction* now,
                            struct sigaction* before) noexcept;

}  // namespace strata::os
