#pragma once

#include <atomic>
#include <cstdint>

namespace strata::os {

/// A thread that the library starts for itself: detached, with every signal blocked, scheduled as
/// SCHED_OTHER with the nice value of the thread that starts it, and named "strata". It may use the
/// processors of that thread, or of the program's first one if these are more. Behind a seccomp
/// filter it is scheduled as the thread that starts it, on that one's processors and by its name.
///
/// The C library counts it among the program's, and ends the process with the last of all. So once
/// the program's first thread has ended (pthread_exit() in main), helpers look whether any but they
/// are left, and end if not. Exit handlers run in the last one then: it lets in again the signals
/// that its creator did, and has a stack of the usual size, where there is room for one.
/// Accepted: helpers of another copy of this code count as the program's, and the end of the first
/// thread is not seen where it has no exit hook here, or another loaded this code.
class HelperThread {
 public:
  using Body = void (*)(void*) noexcept;

  constexpr HelperThread(Body body, void* argument) noexcept : body_(body), argument_(argument) {}
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// May allocate through the process's malloc.
  /// \pre      no other call of it runs, and the body that the last one started has begun
  /// \returns  False if the system refuses.
  bool start() noexcept;

  /// In a body: sleeps for so long, or until the word is not `expected` any more. Who changes it
  /// calls os::wake_all() for it.
  /// \returns  False if none but helpers are left: the body returns, and must leave everything so
  ///           that no other is started in its place.
  static bool wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::uint64_t ns) noexcept;
  /// In a body: sleeps without an end, and wakes up each second only once the first thread has
  /// ended. Who changes the word calls wake_all(). Else as wait(), but where the system does not
  /// say who is left, it takes that for nobody: it would never end.
  static bool wait_for_change(const std::atomic<std::uint32_t>& word,
                              std::uint32_t expected) noexcept;
  /// Wakes all in wait_for_change(). Handlers of signals may call it.
  static void wake_all() noexcept;

  /// Called from the exit hooks of threads: the calling one ends.
  static void note_end() noexcept;
  /// In the child of a fork there are no helpers, and the calling thread is the first.
  static void reset_after_fork() noexcept;

 private:
  static void* run(void* self) noexcept;

  const Body body_;
  void* const argument_;
  // What the creator blocks. relaxed: the start of a thread orders it.
  std::atomic<std::uint64_t> creators_signals_{0};
};

}  // namespace strata::os
