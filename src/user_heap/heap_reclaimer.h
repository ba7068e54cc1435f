#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/helper_thread.h"

namespace strata {

class HeapTable;
class UserHeap;

/// One thread that returns idle memory for all heaps that want it: every half of a heap's delay,
/// what its layers did not need since the round before. HeapTable owns it.
///
/// No thread exists until some heap has kWakeBytes idle. It ends when no heap has idle memory, or
/// nothing went back for kVainRounds in a row. If the system refuses a thread, whoever asked for it
/// runs the round.
/// \threads  notice(): any.
class HeapReclaimer {
 public:
  // Chosen: a thousand heaps that keep less may keep a thousand times this.
  static constexpr std::size_t kWakeBytes = std::size_t{1} << 20;

  explicit constexpr HeapReclaimer(HeapTable& table) noexcept : table_(table) {}

  /// Called on the heap's slow paths, with no lock held.
  /// \cost  six loads
  void notice(UserHeap& heap) noexcept;
  /// In the child of a fork the thread does not exist.
  void reset_after_fork() noexcept { is_running_.store(false, std::memory_order_relaxed); }

 private:
  // Chosen: as with the malloc's scavenger.
  static constexpr int kVainRounds = 4;

  struct Round {
    std::size_t returned;
    std::size_t idle;       ///< as the round began
    std::uint64_t next_ns;  ///< when the next heap's turn comes
  };

  void run() noexcept;
  bool run_rounds() noexcept;
  Round look_at_all() noexcept;
  static std::uint64_t time_to_sleep(const Round& round, std::uint64_t now) noexcept;
  std::size_t idle_bytes() noexcept;

  HeapTable& table_;
  os::HelperThread thread_{[](void* self) noexcept { static_cast<HeapReclaimer*>(self)->run(); },
                           this};
  // relaxed: it only decides who starts a thread; the heaps' locks order everything else.
  std::atomic<bool> is_running_{false};
  // After the system refused a thread: no other try, and no look, before this time. relaxed: a
  // hint.
  std::atomic<std::uint64_t> retry_ns_{0};
};

}  // namespace strata
