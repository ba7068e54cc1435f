#pragma once

#include <atomic>
#include <cstdint>

#include "os/helper_thread.h"

namespace strata {

class HeapInstance;

/// The background thread of one instance. It exists from a free that leaves something to return,
/// sleeps a delay between passes, and ends after a pass if nothing was freed since the pass before.
///
/// Where the system refuses threads, a pass every delay is run by who asked for one, in a call that
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

  /// A heap is dirty: sees to it that a pass follows. With no lock held, for it may start a thread
  /// or run the pass.
  /// \cost  one load while the thread is busy already; a system call more where it is refused.
  void wake() noexcept;

  /// Returns when the thread is gone; there is none afterwards.
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

  /// Also the word that the thread sleeps on. seq_cst wherever it changes or decides: a thread that
  /// sets its heap dirty and then reads kBusy, and the reclaimer that sets kEnding and then reads
  /// the heaps clean, must not both be right.
  std::atomic<std::uint32_t> state_{kNone};
  // After the system refused a thread: no other try, and no pass, before this time. relaxed: a
  // hint.
  std::atomic<std::uint64_t> retry_ns_{0};
};

}  // namespace strata
