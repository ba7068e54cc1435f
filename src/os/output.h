#pragma once

#include <string_view>

namespace strata::os {

/// Writes all of a text to an open file. A pipe without a reader and a file at its limit are errors
/// here, without SIGPIPE or SIGXFSZ: our message is not worth the program's life. If writes do not
/// block, this does, until the reader has taken nothing for so long.
/// \returns  0, or the error; errno is not kept
/// \threads  Not cancelled. Any number at once, signal handlers included.
int write_all(int file, std::string_view text, int patience_ms = 1000) noexcept;

/// Writes all of it to standard error or gives up; never allocates, async-signal-safe.
void write_stderr(std::string_view text) noexcept;

}  // namespace strata::os
