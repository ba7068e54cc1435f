#pragma once

/// \file  errno, for those above os.

namespace strata::os {

/// Sets the calling thread's errno to ENOMEM or EINVAL: the C API's way to say why.
void set_errno_no_memory() noexcept;
void set_errno_invalid() noexcept;
int current_errno() noexcept;  ///< kept by callers that try something and answer another way
void set_errno(int error) noexcept;
int error_no_memory() noexcept;  ///< the value of ENOMEM, for posix_memalign
int error_invalid() noexcept;    ///< the value of EINVAL

}  // namespace strata::os
