#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"
#include "malloc/engine.h"
#include "os/helper_thread.h"

namespace strata {

/// Returns idle memory to the kernel without needing traffic. A round every half delay asks each
/// layer for what it did not need since the round before, so memory goes back after half to one
/// delay. The first rounds of a thread follow each other sooner, each twice as long after the one
/// before: most programs that free so much at once go on to another phase.
///
/// No thread exists until kWakeBytes are idle, and it ends when less are and nothing went back for
/// kVainRounds: what is idle then is in use, by turns. It outlives the last of what it returned by
/// these, too: to a load of bursts, each new thread's first rounds would come too soon.
///
/// Where the system refuses threads, a round every half delay is run by who asked for one.
/// \threads  notice() and the fork calls: any; rounds: the scavenger's own thread, or who asked for
///           one that was refused; under round_lock_.
class Scavenger {
 public:
  // Chosen: less than this is not worth a thread, and programs that stay below keep the C library's
  // fast paths for single-threaded processes.
  static constexpr std::size_t kWakeBytes = std::size_t{8} << 20;

  explicit constexpr Scavenger(Engine& engine) noexcept : engine_(engine) {}

  /// 0: never. Before the first notice().
  void set_delay_ms(std::size_t delay_ms) noexcept { delay_ms_ = delay_ms; }

  /// Called on slow paths with no lock held, the C library's neither: starts the thread if there is
  /// something to return.
  /// \cost  Six loads.
  void notice() noexcept {
    if (is_due()) start();
  }
  bool is_due() const noexcept {
    return engine_.may_have_idle(kWakeBytes) && !is_running_.load(std::memory_order_relaxed);
  }

  struct Statistics {
    std::uint64_t threads;   ///< how often one was started
    std::uint64_t rounds;    ///< how often it looked
    std::uint64_t returned;  ///< bytes that its rounds released
  };
  Statistics statistics() const noexcept {
    return {threads_.load(std::memory_order_relaxed), rounds_.load(std::memory_order_relaxed),
            returned_.load(std::memory_order_relaxed)};
  }

  void hold_locks_for_fork() noexcept { LocksInFork::hold(round_lock_); }
  /// For what must not run during a round, or must not end.
  Lock& round_lock() noexcept STRATA_RETURN_CAPABILITY(round_lock_) { return round_lock_; }
  /// In the child the thread does not exist.
  void reset_after_fork() noexcept { is_running_.store(false, std::memory_order_relaxed); }

 private:
  // Chosen: what a thread freed reaches the kernel after at most two rounds, wherever it lay. Twice
  // that, so that a load of bursts keeps its thread for two delays.
  static constexpr int kVainRounds = 4;
  // Chosen: the first interval, as a part of the delay. A load that needs again what it freed has
  // it faulted in two or three times more in all (docs/decisions/0002).
  static constexpr std::uint64_t kFirstPart = 16;

  void start() noexcept;
  void run() noexcept;
  bool run_rounds() noexcept;
  std::size_t run_round() noexcept STRATA_REQUIRES(round_lock_);

  Engine& engine_;
  os::HelperThread thread_{[](void* self) noexcept { static_cast<Scavenger*>(self)->run(); }, this};
  std::size_t delay_ms_ = 0;
  Lock round_lock_{LockRank::kScavenger};  // held during a round; fork waits for its end
  // A thread runs or is being started, or its round is run by another. relaxed: it decides only who
  // starts a thread; the engine's locks order everything else.
  std::atomic<bool> is_running_{false};
  // After the system refused a thread: no other try, and no round, before this time. relaxed: a
  // hint.
  std::atomic<std::uint64_t> retry_ns_{0};
  // relaxed: figures.
  std::atomic<std::uint64_t> threads_{0};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> returned_{0};
};

}  // namespace strata
