#include "malloc/guard_watcher.h"

#include "malloc/process.h"
#include "os/faults.h"
#include "os/process.h"
#include "os/stack.h"

namespace strata {

void start_guards_of_options() noexcept {
  const std::size_t rate = g_process.options.guard_rate;
  if (rate == 0 || !g_process.guards.start()) return;
  os::prepare_stacks();
  os::install_fault_handler([](const os::Fault& fault) { return g_process.guards.explain(fault); });
  g_process.guard_watcher.configure(rate, os::random_seed());
  g_process.detour.begin(Detour::kByCalls, g_process.guard_watcher);
}

}  // namespace strata
