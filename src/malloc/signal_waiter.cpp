#include "malloc/signal_waiter.h"

#include "base/text_writer.h"
#include "os/clock.h"
#include "os/helper_thread.h"
#include "os/output.h"
#include "os/process.h"

namespace strata {
namespace {

constexpr std::uint64_t kRetryNs = 1'000'000'000;
// The signals that users are advised to take: SIGUSR2, or else SIGUSR1.
constexpr int kUsual = 12;
constexpr int kOther = 10;

}  // namespace

bool SignalWaiter::start(int signal, void (*handler)(int)) noexcept {
  if (!os::handle_signal(signal, handler)) {
    TextWriter line;
    line.text("strata: warning: signal ")
        .decimal(static_cast<std::uint64_t>(signal))
        .text(
            " cannot be used: it is that of a fault, the program handles it, or the system keeps "
            "it; choose another, such as ")
        .decimal(signal == kUsual ? kOther : kUsual)
        .text("\n");
    os::write_stderr(line.view());
    return false;
  }
  signal_ = signal;
  waiter_.store(kMissing, std::memory_order_relaxed);
  start_thread();
  return true;
}

void SignalWaiter::request() noexcept {
  requests_.fetch_add(1, std::memory_order_release);
  os::HelperThread::wake_all();
  if (waiter_.load(std::memory_order_relaxed) == kWaiting) return;
  TextWriter line;
  line.text("strata: ")
      .text(what_)
      .text(
          " asked for; this process (forked, or refused threads) has no thread to write them yet: "
          "they follow with one of the next allocations\n");
  os::write_stderr(line.view());
}

void SignalWaiter::reset_after_fork() noexcept {
  retry_ns_.store(0, std::memory_order_relaxed);
  if (waiter_.load(std::memory_order_relaxed) == kWaiting)
    waiter_.store(kMissing, std::memory_order_relaxed);
}

void SignalWaiter::start_thread() noexcept {
  std::uint32_t expected = kMissing;
  if (!waiter_.compare_exchange_strong(expected, kWaiting, std::memory_order_relaxed)) return;
  if (thread_.start()) return;
  if (retry_ns_.exchange(os::monotonic_ns() + kRetryNs, std::memory_order_relaxed) == 0) {
    TextWriter line;
    line.text("strata: warning: the system refuses the thread that waits for signal ")
        .decimal(static_cast<std::uint64_t>(signal_))
        .text("; it is tried again each second\n");
    os::write_stderr(line.view());
  }
  waiter_.store(kMissing, std::memory_order_relaxed);
}

void SignalWaiter::notice() noexcept {
  if (is_missing() && os::monotonic_ns() >= retry_ns_.load(std::memory_order_relaxed))
    start_thread();
}

void SignalWaiter::answer_requests() noexcept {
  os::let_in_signal(signal_);
  while (os::HelperThread::wait_for_change(requests_, answered_)) {
    const std::uint32_t requests = requests_.load(std::memory_order_acquire);
    if (requests == answered_) continue;
    // One answer for all requests that came before it begins.
    answered_ = requests;
    action_();
  }
}

}  // namespace strata
