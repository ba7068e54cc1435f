#include "os/helper_thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "os/clock.h"
#include "os/errors.h"
#include "os/file.h"
#include "os/system_call.h"
#include "os/text_parts.h"
#include "os/wait.h"

namespace strata::os {
namespace {

// Chosen: how long a process stays after its last thread, at most.
constexpr std::uint64_t kLookNs = 1'000'000'000;
// Chosen: no helper needs half of it.
constexpr std::size_t kSmallStackBytes = std::size_t{256} << 10;

// Bodies so far, which the kernel's number of threads is compared with: from after the thread's
// beginning until before its end. relaxed: a lock of the kernel's orders them with its number.
constinit std::atomic<std::uint32_t> g_begun{0};
constinit std::atomic<std::uint32_t> g_ended{0};
// wait_for_change() sleeps on this: it changes with each reason to wake up.
constinit std::atomic<std::uint32_t> g_wakes{0};
// relaxed, both: hints. wake_all() publishes the first.
constinit std::atomic<bool> g_has_first_ended{false};
constinit std::atomic<pthread_t> g_first{};

[[gnu::constructor]] void note_first() noexcept {
  g_first.store(pthread_self(), std::memory_order_relaxed);
}

enum class Left { kOnlyHelpers, kOthers, kUnknown };

/// Who is left of the process, once its first thread has ended: the kernel keeps that thread until
/// all have ended, and counts it.
///
/// The kernel's number is of a moment between two reads of ours. If no body began between them, at
/// least as many helpers lived at that moment as run at the second read.
Left who_is_left() noexcept {
  const std::uint32_t begun = g_begun.load(std::memory_order_relaxed);
  constexpr const char* kStatus = "/proc/self/status";
  LineReader lines(kStatus);
  bool has_first_ended = false;
  for (std::string_view line; lines.next(line);) {
    constexpr std::string_view kState = "State:\tZ";
    constexpr std::string_view kThreads = "Threads:\t";
    has_first_ended |= begins_with(line, kState);
    if (!begins_with(line, kThreads)) continue;
    std::uint32_t threads = 0;
    line.remove_prefix(kThreads.size());
    is_number(line, threads);
    const std::uint32_t helpers = begun - g_ended.load(std::memory_order_relaxed);
    return has_first_ended && begun == g_begun.load(std::memory_order_relaxed) &&
                   threads == 1 + helpers
               ? Left::kOnlyHelpers
               : Left::kOthers;
  }
  // Without a descriptor left, or without memory, the file cannot be read for a while.
  const bool is_there = syscall(SYS_faccessat, AT_FDCWD, kStatus, F_OK) == 0;
  return is_there ? Left::kOthers : Left::kUnknown;
}

/// Creates a thread with the usual stack, since exit handlers may run on it, or a small one if
/// there is no room for that.
bool create(pthread_t& thread, void* (*body)(void*), void* argument) noexcept {
  if (pthread_create(&thread, nullptr, body, argument) == 0) return true;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const bool is_created = pthread_attr_setstacksize(&attributes, kSmallStackBytes) == 0 &&
                          pthread_create(&thread, &attributes, body, argument) == 0;
  pthread_attr_destroy(&attributes);
  return is_created;
}

/// Sheds the inherited scheduling. The creator may be any of the program's threads: one that runs
/// in real time, only when nothing else does, or alone on a processor. If the system refuses, it
/// stays so.
void run_in_the_background() noexcept {
  // A filter may end the process for a call that few programs make.
  if (system_call::are_filtered()) return;
  system_call::control_process(PR_SET_NAME, {reinterpret_cast<unsigned long>("strata"), 0, 0, 0});
  if (syscall(SYS_sched_getscheduler, 0) != SCHED_OTHER) {
    const sched_param ordinary{};
    syscall(SYS_sched_setscheduler, 0, long{SCHED_OTHER}, &ordinary);
  }
  system_call::Processors own;
  system_call::Processors of_first;
  system_call::processors_of(0, own);
  system_call::processors_of(system_call::process_id(), of_first);
  if (of_first.count() > own.count()) system_call::run_on(of_first);
}

}  // namespace

bool HelperThread::start() noexcept {
  const SavedErrno saved;
  const auto before = system_call::block_signals(SIG_SETMASK, system_call::kAllSignals);
  creators_signals_.store(before, std::memory_order_relaxed);
  pthread_t thread;
  const bool is_started = create(thread, run, this);
  if (is_started) pthread_detach(thread);
  system_call::block_signals(SIG_SETMASK, before);
  return is_started;
}

/// The object may be gone when the body returns.
void* HelperThread::run(void* self) noexcept {
  const auto& helper = *static_cast<HelperThread*>(self);
  const std::uint64_t signals = helper.creators_signals_.load(std::memory_order_relaxed);
  g_begun.fetch_add(1, std::memory_order_relaxed);
  run_in_the_background();
  helper.body_(helper.argument_);
  g_ended.fetch_add(1, std::memory_order_relaxed);
  if (g_has_first_ended.load(std::memory_order_relaxed))
    system_call::block_signals(SIG_SETMASK, signals);
  return nullptr;
}

bool HelperThread::wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                        std::uint64_t ns) noexcept {
  const std::uint64_t end = monotonic_ns() + ns;
  for (std::uint64_t now = end - ns; now < end; now = monotonic_ns()) {
    if (word.load(std::memory_order_relaxed) != expected) break;
    wait_on(futex_word(word), expected, std::min(end - now, kLookNs));
    if (g_has_first_ended.load(std::memory_order_relaxed) && who_is_left() == Left::kOnlyHelpers)
      return false;
  }
  return true;
}

bool HelperThread::wait_for_change(const std::atomic<std::uint32_t>& word,
                                   std::uint32_t expected) noexcept {
  // Before the looks at what may have changed. acquire: pairs with wake_all().
  const std::uint32_t wakes = g_wakes.load(std::memory_order_acquire);
  if (word.load(std::memory_order_relaxed) == expected)
    wait_on(futex_word(g_wakes), wakes,
            g_has_first_ended.load(std::memory_order_relaxed) ? kLookNs : 0);
  // Where nobody knows, the process must end all the same.
  return !g_has_first_ended.load(std::memory_order_relaxed) || who_is_left() == Left::kOthers;
}

void HelperThread::wake_all() noexcept {
  g_wakes.fetch_add(1, std::memory_order_release);
  os::wake_all(futex_word(g_wakes));
}

void HelperThread::note_end() noexcept {
  if (!pthread_equal(pthread_self(), g_first.load(std::memory_order_relaxed))) return;
  g_has_first_ended.store(true, std::memory_order_relaxed);
  wake_all();
}

void HelperThread::reset_after_fork() noexcept {
  g_begun.store(0, std::memory_order_relaxed);
  g_ended.store(0, std::memory_order_relaxed);
  g_has_first_ended.store(false, std::memory_order_relaxed);
  note_first();
}

}  // namespace strata::os
