// prctl, in the shared library only: a process that is about to set a filter of system calls, or
// gives up new privileges for one, gets its heap before the filter can refuse the system calls for
// that.

#include <strata/malloc.h>

#include <cstdarg>

#include "malloc/process.h"
#include "os/process.h"

extern "C" STRATA_API int prctl(int operation, ...) noexcept {
  std::va_list rest;
  va_start(rest, operation);
  unsigned long arguments[4];
  for (unsigned long& each : arguments) each = va_arg(rest, unsigned long);
  va_end(rest);
  if (strata::os::is_about_filters(operation) && !strata::must_not_wait())
    strata::g_malloc.is_ready();
  return strata::os::control_process(operation, arguments);
}

/// The same, even if another file's comes before it.
extern "C" __attribute__((alias("prctl"), visibility("hidden"))) int strata_own_prctl(int,
                                                                                      ...) noexcept;

namespace strata {

bool learns_of_filters() noexcept {
  auto* own = strata_own_prctl;
  asm("" : "+r"(own));
  return own == prctl;
}

}  // namespace strata
