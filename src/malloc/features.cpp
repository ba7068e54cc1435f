#include "malloc/features.h"

#include <atomic>
#include <cstring>

#include "malloc/signal_waiter.h"
#include "malloc/statistics.h"
#include "os/faults.h"
#include "os/output.h"
#include "os/process.h"
#include "os/stack.h"
#include "os/standard_error.h"
#include "os/symbol.h"

namespace strata {
namespace {

/// The malloc whose features these are: handlers of exits, signals and faults take no argument.
constinit MallocInstance* g_featured = nullptr;
// Copies of the options' paths, of the longest possible length.
constinit char g_statistics_path[4096];
constinit char g_profile_path[4096];

template <std::size_t kBytes>
void keep_text(const char*& text, char (&copy)[kBytes]) noexcept {
  const std::size_t length = std::strlen(text);
  if (length == 0 || length >= kBytes) return;
  text = static_cast<const char*>(std::memcpy(copy, text, length + 1));
}

void print() noexcept { print_statistics(*g_featured); }

bool prints_at_exit(const Options& options) noexcept {
  return options.stats == Options::Stats::kExit || options.stats == Options::Stats::kBoth;
}

/// Whether the program uses another malloc. That may be another Strata, linked into it, which
/// writes the same file.
bool serves_nobody() noexcept {
  return g_featured->profiler().profile().sites().count() == 0 && os::is_malloc_of_another_file();
}

void write_profile() noexcept {
  const char* const path = g_featured->options().profile;
  if (*path == '\0') return;
  HeapProfile& profile = g_featured->profiler().profile();
  if (serves_nobody()) return profile.explain_absence(path);
  profile.write(path);
}

void write_profile_on_exit() noexcept {
  if (g_featured->options().leaks == Options::Leaks::kOn && !serves_nobody())
    g_featured->profiler().profile().report_live();
  write_profile();
}

constinit SignalWaiter g_statistics_waiter(print, "statistics were");
constinit SignalWaiter g_profile_waiter(write_profile, "a profile was");

void start_waiter(SignalWaiter& waiter, std::size_t signal, void (*handler)(int)) noexcept {
  waiter.start(static_cast<int>(signal), handler);
  if (waiter.is_missing()) g_featured->ask_for_attention();
}

bool explain_fault(const os::Fault& fault) noexcept {
  return g_featured->guards().explain(fault) || g_featured->empties().explain(fault);
}

enum class Asked : bool { kNo, kYes };

/// From now on explains faults. A program with a fault handler of its own relies on it, or reports
/// faults with it: there ours is installed only if asked for.
void follow_faults(MallocInstance& malloc, Asked asked) noexcept {
  g_featured = &malloc;
  if (asked == Asked::kNo && os::has_fault_handler()) return;
  static std::atomic<bool> follows{false};
  if (!follows.exchange(true, std::memory_order_relaxed)) os::install_fault_handler(explain_fault);
}

void start_guards(MallocInstance& malloc) noexcept {
  if (malloc.options().guard_rate == 0 || malloc.guard_watcher().opens_windows()) return;
  os::prepare_stacks();
  follow_faults(malloc, Asked::kYes);
  malloc.begin_guards(malloc.options().guard_rate, seed_of(malloc.options().random));
}

/// Sampled allocations have no checks. At a rate of 1 that is all of them.
void warn_of_checks_without_effect(MallocInstance& malloc, std::size_t rate) noexcept {
  const bool has_guards =
      malloc.options().guard_rate != 0 && !malloc.guard_watcher().opens_windows();
  if (rate != 1 || !(malloc.has_full_checks() || has_guards)) return;
  os::write_stderr(
      "strata: warning: every allocation is recorded (STRATA_LEAKS, or STRATA_PROFILE_RATE=1), and "
      "none is under full checks or between guard pages\n");
}

void start_profile(MallocInstance& malloc) noexcept {
  const Options& options = malloc.options();
  const bool is_leaks = options.leaks == Options::Leaks::kOn;
  const bool is_written = *options.profile != '\0';
  if (!is_leaks && !is_written) return;
  os::keep_standard_error();
  os::register_exit_handler(write_profile_on_exit);
  // The waiting thread first: it is none of the program's allocations.
  if (options.profile_signal != 0 && is_written)
    start_waiter(g_profile_waiter, options.profile_signal, [](int) { g_profile_waiter.request(); });
  // Leaks are counted, not estimated.
  const std::size_t rate = is_leaks ? 1 : options.profile_rate;
  warn_of_checks_without_effect(malloc, rate);
  malloc.profiler().start(rate, seed_of(options.random));
}

}  // namespace

void keep_texts(Options& options) noexcept {
  keep_text(options.stats_file, g_statistics_path);
  keep_text(options.profile, g_profile_path);
}

void start_statistics_of_options(MallocInstance& malloc) noexcept {
  g_featured = &malloc;
  const Options& options = malloc.options();
  if (options.stats != Options::Stats::kOff) os::note_standard_error();
  if (prints_at_exit(options) && *options.stats_file == '\0') os::keep_standard_error();
  if (options.stats == Options::Stats::kSignal || options.stats == Options::Stats::kBoth)
    start_waiter(g_statistics_waiter, options.stats_signal,
                 [](int) { g_statistics_waiter.request(); });
}

void print_statistics_at_exit(MallocInstance& malloc) noexcept {
  if (prints_at_exit(malloc.options())) print_statistics(malloc);
}

void start_watchers_of_options(MallocInstance& malloc) noexcept {
  g_featured = &malloc;
  start_guards(malloc);
  start_profile(malloc);
}

void begin_guards(MallocInstance& malloc, GuardPool& pool, const GuardPool::Size& size) noexcept {
  // First, so that one that is refused costs no more than that. Accepted loss: another thread's
  // object may be guarded before its stacks and faults are seen to.
  if (!pool.start(size)) return;
  // Stacks take a small program 0.1 ms and some 200 KiB: one guarded block is not worth that.
  if (&pool == &malloc.guards().objects() || malloc.has_full_checks()) os::prepare_walks();
  follow_faults(malloc, Asked::kNo);
}

void begin_empty_blocks(MallocInstance& malloc) noexcept { follow_faults(malloc, Asked::kNo); }

void reset_features_after_fork(MallocInstance& malloc) noexcept {
  g_statistics_waiter.reset_after_fork();
  g_profile_waiter.reset_after_fork();
  if (g_statistics_waiter.is_missing() || g_profile_waiter.is_missing()) malloc.ask_for_attention();
}

void attend_to_features(MallocInstance& malloc) noexcept {
  g_statistics_waiter.notice();
  g_profile_waiter.notice();
  // The system refused a thread: another slow path tries again.
  if (g_statistics_waiter.is_missing() || g_profile_waiter.is_missing()) malloc.ask_for_attention();
}

}  // namespace strata
