#include "override/start.h"

#include "malloc/guard_watcher.h"
#include "malloc/process.h"
#include "malloc/profile_options.h"

namespace strata {

/// The malloc's fork handlers lock it last and unlock it first if they are the first registered:
/// then those of the program may allocate. So it is made ready before any constructor of the
/// program.
[[gnu::constructor(101)]] void start_before_the_program() noexcept {
  deallocate(allocate(1));
  start_guards_of_options();
  start_profile_of_options();
}

}  // namespace strata
