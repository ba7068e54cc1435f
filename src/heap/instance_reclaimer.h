#pragma once

#include <atomic>
#include <cstdint>

#include "os/helper_thread.h"

namespace strata {

class HeapInstance;

/// The background thread of one HeapInstance. It starts with a free that leaves something to
/// return, sleeps a delay between passes, and ends after a pass if nothing was freed since the pass
/// before.
///
/// If the system refuses a thread, whoever asked for one runs a pass every delay, in a call that
/// frees.
///
///   kNone ──a heap is dirty──▶ kBusy ──nothing young, nothing dirty──▶ kEnding ──▶ kNone
///                                ▲──────────────a heap is dirty───────────┘
///   kBusy ──no thread, and its pass is run──▶ kNone
///   kBusy ──the process ends──▶ kGone
///   any ──stop()──▶ kStopping ──▶ kGone
class InstanceReclaimer {
 public:
  explicit InstanceReclaimer(HeapInstance& instance) noexcept : instance_(instance) {}

  /// Called when a heap is dirty: ensures that a pass follows. No lock may be held, since it may
  /// start a thread or run the pass.
  /// \cost  one load while the thread is busy already; one more system call if it is refused.
  void wake() noexcept;

  /// Stops the thread, and returns when it is gone; none starts afterwards.
  void stop() noexcept;

  bool is_running() const noexcept {
    const std::uint32_t state = state_.load(std::memory_order_relaxed);
    return state == kBusy || state == kEnding;
  }

 private:
  enum : std::uint32_t { kNone, kBusy, kEnding, kStopping, kGone };

  static void run(void* self) noexcept;
  void loop() noexcept;
  std::uint64_t delay_ns() const noexcept;

  HeapInstance& instance_;
  os::HelperThread thread_{run, this};

  /// Also the word on which the thread sleeps. seq_cst wherever it changes or decides: a thread
  /// that marks its heap dirty and then reads kBusy, and the reclaimer that sets kEnding and then
  /// reads the heaps as clean, must not both be right.
  std::atomic<std::uint32_t> state_{kNone};
  // After the system refused a thread: no other try, and no pass, before this time. relaxed: a
  // hint.
  std::atomic<std::uint64_t> retry_ns_{0};
};

}  // namespace strata
