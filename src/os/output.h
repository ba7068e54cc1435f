#pragma once

#include <string_view>

namespace strata::os {

/// Writes all of a text to an open file. A pipe without a reader and a file at its limit are errors
/// here, and no SIGPIPE or SIGXFSZ: what we have to say is not worth the program's life. Where
/// writes do not wait, this does, until the reader takes nothing for so long.
/// \returns  0, or the error; errno is not kept
/// \threads  Not cancelled. Any number at once, signal handlers included.
int write_all(int file, std::string_view text, int patience_ms = 1000) noexcept;

/// Writes all of it to standard error or gives up; never allocates, async-signal-safe.
void write_stderr(std::string_view text) noexcept;

}  // namespace strata::os
