#pragma once

#include <atomic>
#include <cstdint>

namespace strata::os {

/// A thread of the library's own: detached, with every signal blocked, scheduled as SCHED_OTHER
/// with the nice value of the thread that starts it, and named "strata". It may use the processors
/// of that thread, or of the program's first one if these are more. Behind a seccomp filter it
/// keeps the scheduling, the processors and the name of the thread that starts it.
///
/// The C library counts it among the program's threads, and ends the process with the last of all.
/// So once the program's first thread has ended (pthread_exit() in main), helpers check whether any
/// but they are left, and end if not. Exit handlers run in the last one then: it unblocks the
/// signals that its creator did not block, and has a stack of the usual size, if there is room for
/// one.
/// Accepted: helpers of another copy of this code count as the program's, and the end of the first
/// thread is not seen if it has no exit hook here, or if another thread loaded this code.
class HelperThread {
 public:
  using Body = void (*)(void*) noexcept;

  constexpr HelperThread(Body body, void* argument) noexcept : body_(body), argument_(argument) {}
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// May allocate through the process's malloc.
  /// \pre      no other call of it runs, and the body that the last one started is running or done
  /// \returns  False if the system refuses.
  bool start() noexcept;

  /// Called in a body: sleeps for so long, or until the word differs from `expected`. Whoever
  /// changes it has to call os::wake_all() for it.
  /// \returns  False if none but helpers are left: the body returns, and must leave everything so
  ///           that no other is started in its place.
  static bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::uint64_t ns) noexcept;
  /// Called in a body: sleeps without a limit, and wakes up each second only once the first thread
  /// has ended. Whoever changes the word calls wake_all(). Otherwise as wait(), but if the system
  /// does not say who is left, it assumes that nobody is: otherwise it would never end.
  static bool wait_for_change(const std::atomic<std::uint32_t>& word,
                              std::uint32_t expected) noexcept;
  /// Wakes all in wait_for_change(). Signal handlers may call it.
  static void wake_all() noexcept;

  /// Called from the exit hook of a thread that ends.
  static void note_end() noexcept;
  /// In the child of a fork there are no helpers, and the calling thread is the first.
  static void reset_after_fork() noexcept;

 private:
  static void* run(void* self) noexcept;

  const Body body_;
  void* const argument_;
  // The signals that the creator blocks. relaxed: the start of a thread orders it.
  std::atomic<std::uint64_t> creators_signals_{0};
};

}  // namespace strata::os
