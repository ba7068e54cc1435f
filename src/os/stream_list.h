#pragma once

/// \file  The C library's list of its open streams, whose lock comes before every lock of a malloc:
///        fflush(nullptr) holds it and waits for a stream, and the holder of that stream may
///        allocate.

namespace strata::os {

/// Does what fork() does before it copies the process: takes the lock, unless the process has one
/// thread or the C library does not offer it (musl). fork() takes it once more by itself.
/// \threads  one fork at a time gets through
void hold_stream_list() noexcept;
void let_go_of_stream_list() noexcept;  ///< in the parent
void reset_stream_list_in_child() noexcept;

}  // namespace strata::os
