#include "malloc/statistics_signal.h"

#include "malloc/process.h"
#include "malloc/signal_waiter.h"
#include "malloc/statistics.h"

namespace strata {
namespace {

constinit SignalWaiter g_statistics_waiter(print_statistics, "statistics were");

void on_statistics_signal(int) noexcept { g_statistics_waiter.request(); }

}  // namespace

void start_statistics_signal() noexcept {
  const Options& options = g_process.options;
  if (options.stats != Options::Stats::kSignal && options.stats != Options::Stats::kBoth) return;
  g_statistics_waiter.start(static_cast<int>(options.stats_signal), on_statistics_signal);
}

void reset_statistics_signal_after_fork() noexcept { g_statistics_waiter.reset_after_fork(); }
void notice_statistics_signal() noexcept { g_statistics_waiter.notice(); }

}  // namespace strata
