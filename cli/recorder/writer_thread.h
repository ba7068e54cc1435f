#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/spin_lock.h"

namespace strata::recorder {

/// A hidden thread (system.h) that works in rounds and sleeps between them. Other threads wake it,
/// ask it for something and wait for the answer, or keep it between two rounds while they fork. It
/// ends with the round that wants no further one.
class WriterThread {
 public:
  enum Request : std::uint32_t { kNone = 0, kFlush = 1, kEnd = 2, kNameStacks = 4 };
  static constexpr std::uint64_t kNoFurtherRound = 0;
  static constexpr std::uint64_t kLongestSleepNs = 100'000'000;

  /// Does the work of a round.
  /// \param requests  of all threads since the last round, one bit each
  /// \returns  How long to sleep if nobody wakes the thread; or kNoFurtherRound.
  using Round = std::uint64_t(void* context, std::uint32_t requests) noexcept;

  /// From now on, who asks waits for the thread.
  void announce() noexcept;
  /// Starts the announced thread. Of the program's files it keeps only `file`.
  /// \returns  False if the kernel refuses; it is then no longer announced.
  bool start(Round* round, void* context, int file) noexcept;
  /// False as well if a seccomp filter of the program has killed the thread.
  bool is_running() const noexcept {
    return is_running_.load(std::memory_order_acquire) &&
           number_.load(std::memory_order_relaxed) != 0;
  }
  /// Called in a process that has a copy of this object but not the thread: nobody waits for it.
  void forget() noexcept;

  /// Makes the next round come now.
  void wake() noexcept;
  /// Returns when a round that saw the request has ended; at once if there is no thread.
  void ask(Request request) noexcept;
  /// Between hold() and release() there is no round. The thread lets those who wait for hold() go
  /// first, because the lock is not fair.
  void hold() noexcept;
  void release() noexcept { round_lock_.unlock(); }

  /// Whether the program's own threads have ended without ending the process: by the raw system
  /// call, or killed by a seccomp filter. Called in rounds only.
  bool is_last_thread() const noexcept;

 private:
  static int run(void* self) noexcept;
  bool do_round() noexcept;

  // Written before the thread starts.
  Round* round_ = nullptr;
  void* context_ = nullptr;
  int file_ = -1;
  int process_stat_ = -1;  ///< written and used by the thread only

  std::atomic<bool> is_running_{false};   ///< release: what was requested is done
  std::atomic<std::uint32_t> number_{0};  ///< relaxed: the kernel's; 0 once the thread has ended
  std::atomic<std::uint32_t> bell_{0};    ///< changes when there is work
  /// seq_cst, as the bell: who rings and does not see the thread asleep, and the thread that goes
  /// to sleep and does not see the bell, must not both be right.
  std::atomic<bool> is_asleep_{false};
  std::atomic<std::uint32_t> requests_{kNone};  ///< pending requests, one bit each
  std::atomic<std::uint32_t> asked_{0};         ///< release: requests so far, each bit set before
  std::atomic<std::uint32_t> answered_{0};      ///< release: the number of requests that are done
  SpinLock round_lock_;                         ///< held during a round, and by hold()
  std::atomic<std::uint32_t> holders_waiting_{0};  ///< relaxed: round_lock_ orders the rest
};

}  // namespace strata::recorder
