#include "os/helper_thread.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "os/errors.h"
#include "os/file.h"
#include "os/system_call.h"
#include "os/wait.h"

namespace strata::os {
namespace {

// Chosen: how long a process stays after its last thread, at most.
constexpr std::uint64_t kLookNs = 1'000'000'000;
// Chosen: no helper needs half of it.
constexpr std::size_t kSmallStackBytes = std::size_t{256} << 10;

// relaxed, all three: hints, and numbers that the kernel's are compared with. A helper is counted
// only while it certainly runs.
constinit std::atomic<std::uint32_t> g_helpers{0};
constinit std::atomic<bool> g_has_first_ended{false};
constinit std::atomic<pthread_t> g_first{};

[[gnu::constructor]] void note_first() noexcept {
  g_first.store(pthread_self(), std::memory_order_relaxed);
}

/// The kernel keeps a process's first thread until all have ended, and counts it.
bool are_only_helpers_left() noexcept {
  LineReader lines("/proc/self/status");
  bool has_first_ended = false;
  for (std::string_view line; lines.next(line);) {
    constexpr std::string_view kState = "State:\tZ";
    constexpr std::string_view kThreads = "Threads:\t";
    has_first_ended |= line.starts_with(kState);
    if (!line.starts_with(kThreads)) continue;
    std::uint32_t threads = 0;
    for (const char digit : line.substr(kThreads.size()))
      threads = threads * 10 + static_cast<std::uint32_t>(digit - '0');
    return has_first_ended && threads == 1 + g_helpers.load(std::memory_order_relaxed);
  }
  return false;
}

/// With the usual stack, since exit handlers may run on it, or a small one where that has no room.
bool create(pthread_t& thread, void* (*body)(void*), void* argument) noexcept {
  if (pthread_create(&thread, nullptr, body, argument) == 0) return true;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  const bool is_created = pthread_attr_setstacksize(&attributes, kSmallStackBytes) == 0 &&
                          pthread_create(&thread, &attributes, body, argument) == 0;
  pthread_attr_destroy(&attributes);
  return is_created;
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
  g_helpers.fetch_add(1, std::memory_order_relaxed);
  helper.body_(helper.argument_);
  g_helpers.fetch_sub(1, std::memory_order_relaxed);
  if (g_has_first_ended.load(std::memory_order_relaxed))
    system_call::block_signals(SIG_SETMASK, signals);
  return nullptr;
}

bool HelperThread::wait(const std::uint32_t* word, std::uint32_t expected,
                        std::uint64_t timeout_ns) noexcept {
  wait_on(word, expected, timeout_ns == 0 ? kLookNs : std::min(timeout_ns, kLookNs));
  return !g_has_first_ended.load(std::memory_order_relaxed) || !are_only_helpers_left();
}

void HelperThread::note_end() noexcept {
  if (pthread_equal(pthread_self(), g_first.load(std::memory_order_relaxed)))
    g_has_first_ended.store(true, std::memory_order_relaxed);
}

void HelperThread::reset_after_fork() noexcept {
  g_helpers.store(0, std::memory_order_relaxed);
  g_has_first_ended.store(false, std::memory_order_relaxed);
  note_first();
}

}  // namespace strata::os
