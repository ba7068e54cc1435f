#include "os/errors.h"

#include <errno.h>

#include <cstring>

namespace strata::os {

void set_errno_no_memory() noexcept { errno = ENOMEM; }
void set_errno_invalid() noexcept { errno = EINVAL; }
int current_errno() noexcept { return errno; }
void set_errno(int error) noexcept { errno = error; }
int error_no_memory() noexcept { return ENOMEM; }
int error_invalid() noexcept { return EINVAL; }
const char* text_of_error(int error) noexcept {
#ifdef __GLIBC__
  // strerror() may load a translation, and so allocate.
  const char* const text = strerrordesc_np(error);
  return text != nullptr ? text : "unknown error";
#else
  return std::strerror(error);
#endif
}

SavedErrno::SavedErrno() noexcept : saved_(errno) {}
SavedErrno::~SavedErrno() { errno = saved_; }

}  // namespace strata::os
