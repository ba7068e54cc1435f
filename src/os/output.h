#pragma once

#include <string_view>

namespace strata::os {

/// Writes all of a text to an open file. A pipe without a reader is an error here, and no
/// SIGPIPE: what we have to say is not worth the program's life.
/// \returns  0, or the error; errno is not kept
/// \threads  Not cancelled. Any number at once, signal handlers included.
int write_all(int file, std::string_view text) noexcept;

/// Writes all of it to standard error or gives up; never allocates, async-signal-safe.
void write_stderr(std::string_view text) noexcept;

}  // namespace strata::os
