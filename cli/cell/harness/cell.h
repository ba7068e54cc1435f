#pragma once

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/scenario.h"
#include "harness/stopwatch.h"
#include "harness/worker.h"
#include "shared/board.h"
#include "shared/cell_plan.h"

namespace strata::cell {

inline constexpr std::size_t kMaxMetrics = 32;

/// The cell that this process runs: one scenario, one contender, one value for every option. A
/// scenario reads its options from it and reports its results to it.
///
/// The life of the process:
///
///   read options, draw the operations     not measured
///   begin_load()                          rests until `strata` has sampled the process
///   the load
///   end_load()                            rests; the load's blocks are still live
///   free everything, check
///   finish()                              rests for the settle time; then writes the findings
///
/// run_batches() (harness/batches.h) does all this for a load that repeats itself.
class Cell {
 public:
  /// \param entered_s  when main() began
  /// \errors  std::invalid_argument, with a sentence, for an invalid plan. `strata` sends none; a
  ///          person who starts strata-cell by hand might.
  Cell(CellPlan plan, double entered_s);
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  void run() { load_.run(*this); }

  // Options that every scenario takes.
  int threads() const noexcept { return plan_.threads; }
  /// The same number as a size: a load has a lane per thread.
  std::size_t lanes() const noexcept { return static_cast<std::size_t>(plan_.threads); }
  /// A load ends after this many operations of all threads together; 0: --seconds ends it.
  std::uint64_t ops() const noexcept { return plan_.ops; }
  /// The number of uncounted batches that each thread runs first.
  int warmup() const noexcept { return plan_.warmup; }
  std::uint64_t seed() const noexcept { return plan_.seed; }
  /// The share of operations that are timed individually, 0 to 1.
  double sample_rate() const noexcept { return plan_.sample_rate; }
  /// The contender inside this process; empty if it is the malloc.
  const std::string& contender() const noexcept { return plan_.contender; }

  // Options of this scenario; std::logic_error for one that it does not declare.
  std::uint64_t count(const std::string& option) const;
  double real(const std::string& option) const;
  bool flag(const std::string& option) const;
  const std::string& text(const std::string& option) const;

  /// Adds a kind of operation whose latency is measured, besides kAlloc and kFree. Call it before
  /// any thread runs.
  LatencyKind add_latency(const std::string& name);

  /// Runs body(worker) on `count` threads, which start together, and waits for them. The caller is
  /// one of them, because some allocators are fastest in a single-threaded process. An exception in
  /// a body ends the process with its sentence.
  template <typename Body>
  void run_threads(int count, Body body) {
    if (count == 1) return body(worker(0));
    worker(count - 1);
    std::barrier gate(count);
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&gate, &body, &mine = worker(i)] {
        gate.arrive_and_wait();
        body(mine);
      });
    }
  }

  /// \param thread  from 0 to below the largest number of threads so far; scenarios without threads
  ///                use worker(0)
  Worker& worker(int thread);

  /// Rests until `strata` has sampled the process, then starts the clock.
  void begin_load();
  /// Starts the clock in this process, a copy of the one that began the load.
  void start_clock() noexcept { began_s_ = now_s(); }
  /// Makes this process, a copy, run one worker's part of the load. Only the first copy is watched
  /// from outside. No operation is timed: nobody would collect the latencies.
  void continue_as_copy(int worker) noexcept;
  /// True once the seconds, or this share of them, have passed. Never true if only --ops bounds the
  /// load.
  /// \threads  Any.
  /// \cost     Reads the clock: call it once per many operations.
  bool is_over(double share = 1) const noexcept {
    return plan_.seconds > 0 && now_s() >= began_s_ + share * plan_.seconds;
  }
  /// Rests while the load's blocks are still live.
  void end_load();
  /// Rests for the settle time, then writes the findings.
  /// \pre  all blocks allocated through probes were freed through probes
  void finish();

  /// The live bytes of a load that counts them, updated in steps of any size.
  std::atomic<std::uint64_t>& live_bytes() noexcept { return board_->live_bytes; }

  /// Reports a number of this run; its name, a literal, ends in its unit (docs/results.md). Never
  /// allocates from the contender, which may refuse.
  /// \errors  std::logic_error if there are more than kMaxMetrics.
  void metric(const char* name, double value);

 private:
  void rest(Phase phase);
  void tell_findings();

  const Load& load_;
  CellPlan plan_;
  double entered_s_;
  Board own_board_{};
  Board* board_;  // own_board_: nobody watches
  std::vector<std::string> latency_names_ = {"alloc", "free"};
  std::deque<Worker> workers_;
  std::array<std::pair<const char*, double>, kMaxMetrics> metrics_{};
  std::size_t metrics_count_ = 0;
  double began_s_ = 0;
};

/// Ends the process because a sum of the scenario is wrong (such as sent + dropped != produced).
/// The whole run is discarded.
/// \threads  Any.
[[noreturn]] void fail_wrong_work(const std::string& sentence);

/// Ends the process because the contender cannot do what the options ask, as in "has blocks of one
/// size". `strata` leaves the cell out; this is not a failure. Call it before begin_load().
[[noreturn]] void report_unfit(const std::string& sentence);

}  // namespace strata::cell
