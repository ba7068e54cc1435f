#include "malloc/signal_waiter.h"

#include "base/text_writer.h"
#include "os/output.h"
#include "os/process.h"
#include "os/threads.h"
#include "os/wait.h"

namespace strata {

bool SignalWaiter::start(int signal, void (*handler)(int)) noexcept {
  if (!os::handle_signal(signal, handler)) {
    TextWriter line;
    line.text("strata: warning: signal ")
        .decimal(static_cast<std::uint64_t>(signal))
        .text(" cannot be used: the program handles it, or the system does not allow it\n");
    os::write_stderr(line.view());
    return false;
  }
  waiter_.store(kMissing, std::memory_order_relaxed);
  start_thread();
  return true;
}

void SignalWaiter::request() noexcept {
  requests_.fetch_add(1, std::memory_order_release);
  os::wake_all(reinterpret_cast<const std::uint32_t*>(&requests_));
  if (waiter_.load(std::memory_order_relaxed) == kWaiting) return;
  TextWriter line;
  line.text("strata: ")
      .text(what_)
      .text(
          " asked for; this process was forked and has no thread to write "
          "them yet, they follow with one of the next allocations\n");
  os::write_stderr(line.view());
}

void SignalWaiter::reset_after_fork() noexcept {
  if (waiter_.load(std::memory_order_relaxed) == kWaiting)
    waiter_.store(kMissing, std::memory_order_relaxed);
}

void SignalWaiter::start_thread() noexcept {
  std::uint32_t expected = kMissing;
  if (!waiter_.compare_exchange_strong(expected, kWaiting, std::memory_order_relaxed)) return;
  const auto body = [](void* self) noexcept -> void* {
    static_cast<SignalWaiter*>(self)->answer_requests();
    return nullptr;
  };
  if (!os::start_thread(body, this)) waiter_.store(kMissing, std::memory_order_relaxed);
}

void SignalWaiter::answer_requests() noexcept {
  // One answer for all requests that came before it begins.
  for (;;) {
    const std::uint32_t requests = requests_.load(std::memory_order_acquire);
    if (requests == answered_) {
      os::wait_on(reinterpret_cast<const std::uint32_t*>(&requests_), requests);
      continue;
    }
    answered_ = requests;
    action_();
  }
}

}  // namespace strata
