// The function that pthread_atfork calls, in the shared library only: the malloc's fork handlers
// are registered before the first ones of another file, or with the second thread. A program with
// neither does without them, and without the pages of the C library that registering touches.

#include <strata/malloc.h>

#include "malloc/process.h"
#include "os/symbol.h"

#ifdef __GLIBC__

/// The C library links a part of pthread_atfork into every file, which passes the file's handle
/// here.
extern "C" STRATA_API int __register_atfork(void (*before)(), void (*in_parent)(),
                                            void (*in_child)(), void* file) noexcept {
  strata::follow_forks();  // comes here itself, with the malloc's handlers
  const strata::os::RegisterForkHandlers next = strata::os::next_register_fork_handlers();
  constexpr int kNoMemory = 12;  // ENOMEM
  return next != nullptr ? next(before, in_parent, in_child, file) : kNoMemory;
}

/// The same, even if another file's comes before it.
extern "C" __attribute__((alias("__register_atfork"), visibility("hidden"))) int
strata_own_register_atfork(void (*)(), void (*)(), void (*)(), void*) noexcept;

namespace strata {

bool learns_of_forks() noexcept {
  auto* own = strata_own_register_atfork;
  asm("" : "+r"(own));
  return own == __register_atfork;
}

}  // namespace strata

#endif
