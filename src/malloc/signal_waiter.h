#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "os/helper_thread.h"

namespace strata {

/// Runs an action whenever a signal arrives, even if it interrupts the malloc.
///
/// The handler takes no lock and does nothing itself: it counts the request and wakes a waiting
/// thread. That thread exists from the start, since a handler cannot start one. The child of a fork
/// has none until a slow path of the malloc notices; nor has a process that the system refuses
/// threads. A request before that is kept, and the handler says so in a line. The thread unblocks
/// the signal, for programs that block it in all their threads.
/// \threads  request(): any thread, at any instruction. notice(): any.
class SignalWaiter {
 public:
  /// \param what  what is requested, as the start of a sentence: "statistics were"
  constexpr SignalWaiter(void (*action)(), std::string_view what) noexcept
      : action_(action), what_(what) {}
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  /// Installs the handler, which calls request(), and starts the thread.
  /// \pre      the malloc works
  /// \returns  False, and says so on standard error, if the signal cannot be used.
  bool start(int signal, void (*handler)(int)) noexcept;
  void request() noexcept;
  /// In the child of a fork: the thread does not exist, and the system has not refused one yet.
  void reset_after_fork() noexcept;
  /// Whether the waiting thread is wanted but does not exist: after a fork, or because the system
  /// refused one.
  bool is_missing() const noexcept { return waiter_.load(std::memory_order_relaxed) == kMissing; }
  /// Called with no lock held, not even the C library's: starts the thread if it is missing.
  void notice() noexcept;

 private:
  // The state of the waiting thread.
  static constexpr std::uint32_t kUnwanted = 0;
  static constexpr std::uint32_t kMissing = 1;
  static constexpr std::uint32_t kWaiting = 2;

  void start_thread() noexcept;
  void answer_requests() noexcept;

  os::HelperThread thread_{
      [](void* self) noexcept { static_cast<SignalWaiter*>(self)->answer_requests(); }, this};
  void (*const action_)();
  const std::string_view what_;
  // relaxed: it only decides who starts the thread.
  std::atomic<std::uint32_t> waiter_{kUnwanted};
  // Requests so far. The handler's release pairs with the waiter's acquire, though nothing else
  // passes between the two.
  std::atomic<std::uint32_t> requests_{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a handler may count");
  std::uint32_t answered_ = 0;  // the thread's
  int signal_ = 0;              // as start() leaves it
  // After the system refused a thread: no other try before this time. relaxed: a hint.
  std::atomic<std::uint64_t> retry_ns_{0};
};

}  // namespace strata
