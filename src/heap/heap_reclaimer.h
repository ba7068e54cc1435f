#pragma once

#include <atomic>
#include <cstdint>

#include "os/helper_thread.h"

namespace strata {

class HeapInstance;

/// The background thread of one instance. It exists from a free that leaves something to return,
/// sleeps a delay between passes, and ends after one since whose predecessor nothing was freed.
///
///   kNone ──a heap turns dirty──▶ kBusy ──nothing young, nothing dirty──▶ kEnding ──▶ kNone
///                                   ▲─────────────a heap turns dirty─────────┘
///   any ──stop(), or the process ends──▶ kStopping ──▶ kGone
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
    return state == kBusy || state == kEnding;
  }

 private:
  enum : std::uint32_t { kNone, kBusy, kEnding, kStopping, kGone };

  static void run(void* self) noexcept;
  void loop() noexcept;
  bool sleep(std::uint64_t ns) noexcept;

  HeapInstance& instance_;
  os::HelperThread thread_{run, this};

  /// Also the word that the thread sleeps on. seq_cst wherever it changes or decides: a thread that
  /// sets its heap dirty and then reads kBusy, and the reclaimer that sets kEnding and then reads
  /// the heaps clean, must not both be right.
  std::atomic<std::uint32_t> state_{kNone};
};

}  // namespace strata
