#include "malloc/profile_options.h"

#include <cstring>

#include "malloc/process.h"
#include "malloc/signal_waiter.h"
#include "os/process.h"
#include "os/standard_error.h"

namespace strata {
namespace {

// A copy: the program may change its environment.
constinit char g_path[4096];

void write_profile() noexcept {
  if (g_path[0] != '\0') g_process.profiler.write(g_path);
}

void on_exit() noexcept {
  if (g_process.options.leaks == Options::Leaks::kOn) g_process.profiler.report_live();
  write_profile();
}

constinit SignalWaiter g_profile_waiter(write_profile, "a profile was");

void on_profile_signal(int) noexcept { g_profile_waiter.request(); }

}  // namespace

void start_profile_of_options() noexcept {
  const Options& options = g_process.options;
  const bool is_leaks = options.leaks == Options::Leaks::kOn;
  const std::size_t length = std::strlen(options.profile);
  if (length != 0 && length < sizeof g_path) std::memcpy(g_path, options.profile, length + 1);
  if (!is_leaks && g_path[0] == '\0') return;
  os::keep_standard_error();
  os::register_exit_handler(on_exit);
  // The waiting thread first: it is none of the program's allocations.
  if (options.profile_signal != 0 && g_path[0] != '\0')
    g_profile_waiter.start(static_cast<int>(options.profile_signal), on_profile_signal);
  // Leaks are counted, not estimated.
  g_process.profiler.start(is_leaks ? 1 : options.profile_rate, os::random_seed());
}

void reset_profile_signal_after_fork() noexcept { g_profile_waiter.reset_after_fork(); }
void notice_profile_signal() noexcept { g_profile_waiter.notice(); }

}  // namespace strata
