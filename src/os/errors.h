#pragma once

/// \file  errno, for those above os.

namespace strata::os {

/// Sets the calling thread's errno to ENOMEM, for the C API.
void set_errno_no_memory() noexcept;
void set_errno_invalid() noexcept;
int current_errno() noexcept;
void set_errno(int error) noexcept;
int error_no_memory() noexcept;  ///< the value of ENOMEM, for posix_memalign
int error_invalid() noexcept;    ///< the value of EINVAL
/// What an error means, in the C library's words.
const char* text_of_error(int error) noexcept;

/// Restores the caller's errno: a call that succeeds, or reports another way, must not change it.
class SavedErrno {
 public:
  SavedErrno() noexcept;
  ~SavedErrno();
  SavedErrno(const SavedErrno&) = delete;
  SavedErrno& operator=(const SavedErrno&) = delete;

 private:
  const int saved_;
};

}  // namespace strata::os
