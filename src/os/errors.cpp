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
const char* text_of_error(int error) noexcept { return std::strerror(error); }

SavedErrno::SavedErrno() noexcept : saved_(errno) {}
SavedErrno::~SavedErrno() { errno = saved_; }

}  // namespace strata::os
