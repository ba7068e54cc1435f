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

/// The most metrics that a scenario may have.
inline constexpr std::size_t kMaxMetrics = 32;

/// The cell of the matrix that this process is: one scenario under one contender with one value for
/// every option. A scenario asks it what to do and gives it the results.
///
/// In the order of a process's life:
///
///   read options, draw the operations     nothing is counted yet
///   begin_load()                          rests until the process was looked at from outside
///   the load
///   end_load()                            rests; the blocks of the load still live
///   free everything, check
///   finish()                              rests for the settle time; then the findings
///
/// run_batches() (harness/batches.h) does all of this for a load that repeats itself.
class Cell {
 public:
  /// `entered_s` is when main() began.
  /// \errors  std::invalid_argument with a sentence for a plan that no load can follow: `strata`
  ///          asks for nothing wrong, a person might.
  Cell(CellPlan plan, double entered_s);
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;

  /// Runs the scenario.
  void run() { load_.run(*this); }

  // What every scenario takes.
  int threads() const noexcept { return plan_.threads; }
  /// Operations of all threads together after which a load ends; 0: none, --seconds decides.
  std::uint64_t ops() const noexcept { return plan_.ops; }
  /// Batches of each thread that are run and not counted.
  int warmup() const noexcept { return plan_.warmup; }
  std::uint64_t seed() const noexcept { return plan_.seed; }
  /// The share of the operations that is timed one by one, 0 to 1.
  double sample_rate() const noexcept { return plan_.sample_rate; }
  /// The contender in this process; empty if it is the malloc.
  const std::string& contender() const noexcept { return plan_.contender; }

  // What only this scenario takes, as declared; asking for another is std::logic_error.
  std::uint64_t count(const std::string& option) const;
  double real(const std::string& option) const;
  bool flag(const std::string& option) const;
  const std::string& text(const std::string& option) const;

  /// A kind of operation whose latency is measured, besides kAlloc and kFree; before any thread
  /// runs.
  LatencyKind add_latency(const std::string& name);

  /// Runs body(worker) on `count` threads, which start together, and waits for them; one is the
  /// caller, because a process with a single thread is what some allocators are fastest in. An
  /// exception in a body ends the process with its sentence.
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

  /// Of thread 0 to the largest number of threads so far. Scenarios without threads use worker(0).
  Worker& worker(int thread);

  /// Rests until the process was looked at; then the seconds run.
  void begin_load();
  /// The seconds of this process, a copy of the one that began the load, run from now on.
  void start_clock() noexcept { began_s_ = now_s(); }
  /// Of this process, a copy, comes a worker's part of the load. Seen from outside is the first.
  void continue_as_copy(int worker) noexcept;
  /// True once the seconds, or this share of them, have passed; never true in a load that --ops
  /// alone bounds.
  /// \threads  Any.
  /// \cost     Reads the clock: ask once for many operations.
  bool is_over(double share = 1) const noexcept {
    return plan_.seconds > 0 && now_s() >= began_s_ + share * plan_.seconds;
  }
  /// Rests, while the load's blocks still live.
  void end_load();
  /// Rests for the settle time, then writes the findings. What was allocated through probes must
  /// have been freed through probes.
  void finish();

  /// Where a load that knows it counts the bytes that live, in steps as large as it likes.
  std::atomic<std::uint64_t>& live_bytes() noexcept {
    return board_ == nullptr ? live_without_board_ : board_->live_bytes;
  }

  /// A number of this run; its name, a literal, ends in its unit (docs/results.md). Asks the
  /// contender, which may be one that refuses, for nothing.
  /// \errors  std::logic_error if there are more than kMaxMetrics.
  void metric(const char* name, double value);

 private:
  void rest(Phase phase);
  void tell_findings();

  const Load& load_;
  CellPlan plan_;
  double entered_s_;
  Board* board_ = nullptr;  // nullptr: not watched
  std::atomic<std::uint64_t> live_without_board_{0};
  std::vector<std::string> latency_names_ = {"alloc", "free"};
  std::deque<Worker> workers_;
  std::array<std::pair<const char*, double>, kMaxMetrics> metrics_{};
  std::size_t metrics_count_ = 0;
  double began_s_ = 0;
};

/// The scenario's own sums do not come out (sent + dropped is not what was produced): nothing of
/// this run counts. Ends the process.
/// \threads  Any.
[[noreturn]] void fail_wrong_work(const std::string& sentence);

/// The contender cannot do what these options ask, as in "has blocks of one size": the cell is left
/// out, which is no failure. Before begin_load().
[[noreturn]] void report_unfit(const std::string& sentence);

}  // namespace strata::cell
