#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock.h"
#include "malloc/engine.h"
#include "os/helper_thread.h"

namespace strata {

/// The background thread that returns idle memory to the kernel, even without traffic.
/// MallocInstance owns it. A round every half delay asks each layer for what it did not need since
/// the last round, so memory goes back after half to one delay. The first rounds of a thread follow
/// each other sooner, each after twice the time of the one before: most programs that free so much
/// at once go on to another phase.
///
/// No thread exists until kWakeBytes are idle. It ends when less is idle and nothing went back for
/// kVainRounds: what is idle then is in use, by turns. It also outlives its last return by so many
/// rounds: under a load of bursts, each new thread's first rounds would come too soon.
///
/// If the system refuses a thread, whoever asked for it runs a round every half delay.
/// \threads  notice() and the fork calls: any. Rounds: the scavenger's own thread, or one that
///           asked for a thread that was refused; under round_lock_.
class Scavenger {
 public:
  // Chosen: less is not worth a thread, and programs that stay below keep the C library's fast
  // paths for single-threaded processes.
  static constexpr std::size_t kWakeBytes = std::size_t{8} << 20;

  explicit constexpr Scavenger(Engine& engine) noexcept : engine_(engine) {}

  /// 0: never. Call before the first notice().
  void set_delay_ms(std::size_t delay_ms) noexcept { delay_ms_ = delay_ms; }

  /// Called on slow paths with no lock held, not even the C library's: starts the thread if there
  /// is something to return.
  /// \cost  Six loads.
  void notice() noexcept {
    if (is_due()) start();
  }
  bool is_due() const noexcept {
    return engine_.may_have_idle(kWakeBytes) && !is_running_.load(std::memory_order_relaxed);
  }

  struct Statistics {
    std::uint64_t threads;   ///< threads started
    std::uint64_t rounds;    ///< rounds run
    std::uint64_t returned;  ///< bytes released by rounds, and to make room for others
  };
  Statistics statistics() const noexcept {
    return {threads_.load(std::memory_order_relaxed), rounds_.load(std::memory_order_relaxed),
            returned_.load(std::memory_order_relaxed)};
  }

  void hold_locks_for_fork() noexcept { LocksInFork::hold(round_lock_); }
  /// For code that must not run during a round, or must keep the malloc from ending.
  Lock& round_lock() noexcept STRATA_RETURN_CAPABILITY(round_lock_) { return round_lock_; }
  /// In the child the thread does not exist.
  void reset_after_fork() noexcept { is_running_.store(false, std::memory_order_relaxed); }

 private:
  // Chosen: memory that a thread freed reaches the kernel after at most two rounds, wherever it
  // lay. Twice that, so that a load of bursts keeps its thread for two delays.
  static constexpr int kVainRounds = 4;
  // Chosen: the first interval, as a part of the delay. A load that needs again what it freed
  // faults it in two or three more times in all (docs/decisions/0002).
  static constexpr std::uint64_t kFirstPart = 16;

  // Chosen: the time between two looks at the peak, as a part of the delay, and the least:
  // a look takes a microsecond, the thread's sleep some more.
  static constexpr std::uint64_t kLookPart = 32;
  static constexpr std::uint64_t kLeastLookNs = 10'000'000;
  // Chosen: less waits for more.
  static constexpr std::size_t kLookStep = std::size_t{512} << 10;

  void start() noexcept;
  void run() noexcept;
  bool run_rounds() noexcept;
  bool wait(std::uint64_t ns) noexcept;
  void make_room_for_others() noexcept;
  std::size_t run_round() noexcept STRATA_REQUIRES(round_lock_);

  Engine& engine_;
  // When the peak last rose: the peak, what the heap held, and how much of that the peak had not
  // risen by, since it was not touched. The thread's: a round follows its last use of them, so
  // round_lock_ orders it before the next thread's.
  std::size_t seen_peak_ = 0;
  std::size_t seen_held_ = 0;
  std::size_t untouched_ = 0;
  os::HelperThread thread_{[](void* self) noexcept { static_cast<Scavenger*>(self)->run(); }, this};
  std::size_t delay_ms_ = 0;
  Lock round_lock_{LockRank::kScavenger};  // held during a round; fork waits for its end
  // A thread runs or is being started, or another runs its round. relaxed: it only decides who
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
