#pragma once

#include <atomic>
#include <cstdint>

namespace strata {

class HeapInstance;

/// The background thread of one instance. It exists from the first free that leaves something to
/// return, sleeps a delay between passes, and rests, without waking up at all, while nothing was
/// freed since the last one.
///
///   kNone ──first dirty heap──▶ kBusy ──nothing young, nothing dirty──▶ kResting
///                                 ▲──────────────a heap turns dirty─────────┘
///   any ──stop()──▶ kStopping ──▶ kGone
class HeapReclaimer {
 public:
  explicit HeapReclaimer(HeapInstance& instance) noexcept : instance_(instance) {}

  /// Sees to it that a pass follows.
  /// \cost  one load while the thread is busy already.
  void wake() noexcept;

  /// Returns when the thread is gone; there is none afterwards.
  void stop() noexcept;

  bool is_running() const noexcept {
    const std::uint32_t state = state_.load(std::memory_order_relaxed);
    return state == kBusy || state == kResting;
  }

 private:
  enum : std::uint32_t { kNone, kBusy, kResting, kStopping, kGone };

  static void* run(void* self) noexcept;
  void loop() noexcept;
  void wait_while(std::uint32_t state, std::uint64_t timeout_ns) noexcept;

  HeapInstance& instance_;

  /// Also the word that the thread sleeps on. seq_cst wherever it changes or decides: a thread that
  /// sets its heap dirty and then reads kBusy, and the reclaimer that sets kResting and then reads
  /// the heaps clean, must not both be right.
  std::atomic<std::uint32_t> state_{kNone};
};

}  // namespace strata
