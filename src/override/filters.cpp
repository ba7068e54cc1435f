// prctl, in the shared library alone: a process that is about to set a filter of system calls, or
// gives up new privileges for one, gets its heap before the filter can refuse what that takes.

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
  if (strata::os::leads_to_a_filter(operation) && !strata::must_not_wait())
    strata::g_malloc.is_ready();
  return strata::os::control_process(operation, arguments);
}

namespace strata {

void learns_of_filters() noexcept {}

}  // namespace strata
