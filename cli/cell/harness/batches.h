#pragma once

#include <sys/resource.h>

#include <barrier>
#include <cstdint>
#include <vector>

#include "harness/cell.h"
#include "harness/probe.h"
#include "harness/processes.h"

namespace strata::cell {

/// What one thread of run_batches() measured.
struct BatchTimes {
  double first_s = 0;  ///< the first batch of the process: cold code, fresh pages
  std::uint64_t first_ops = 0;
  std::uint64_t first_faults = 0;
  double counted_s = 0;  ///< of the batches that count
  double counted_cpu_s = 0;
  std::uint64_t counted_ops = 0;
  std::uint64_t timed_ops = 0;  ///< of the batches whose operations were timed individually
  std::uint64_t steady_faults = 0;
  double steady_from_s = 0;  ///< CLOCK_MONOTONIC; covers all batches after the warm-up
  double steady_until_s = 0;
};

namespace detail {

/// The largest share of --seconds for the warm-up, so that slow batches leave time to measure.
inline constexpr double kWarmupShare = 0.25;

inline std::uint64_t faults_of_thread() noexcept {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt);
}

inline std::uint64_t faults_of(const Worker& worker) noexcept {
  return faults_of_thread() + worker.faults_elsewhere;
}

/// Runs the batches of one thread between begin_load() and end_load().
template <typename Lane>
BatchTimes run_lane(const Cell& cell, Worker& worker, Lane& lane) {
  Probe<Depth::kPlain> plain(worker);
  Probe<Depth::kTimed> timed(worker);
  Probe<Depth::kVerified> verified(worker);
  BatchTimes times;
  std::uint64_t faults = faults_of(worker);
  double started = now_s();
  times.first_ops = lane.batch(plain);
  times.first_s = now_s() - started;
  times.first_faults = faults_of(worker) - faults;

  lane.batch(verified);
  for (int i = 0; i < cell.warmup() && !cell.is_over(kWarmupShare); ++i) lane.batch(plain);

  // Each thread does its part of --ops. The share of timed batches equals the share of timed
  // operations, whatever a batch is. Timed batches come first, so that a short load has one.
  const auto threads = static_cast<std::uint64_t>(cell.threads());
  const std::uint64_t budget = (cell.ops() + threads - 1) / threads;
  double owed = cell.sample_rate() > 0 ? 1 : 0;
  faults = faults_of(worker);
  times.steady_from_s = now_s();
  for (bool is_done = false; !is_done;) {
    if (owed >= 1) {
      times.timed_ops += lane.batch(timed);
      owed -= 1;
    }
    if (cell.sample_rate() < 1) {
      double cpu_before = thread_cpu_s();
      double before = now_s();
      std::uint64_t ops = lane.batch(plain);
      times.counted_s += now_s() - before;
      times.counted_cpu_s += thread_cpu_s() - cpu_before;
      times.counted_ops += ops;
      owed += cell.sample_rate() / (1 - cell.sample_rate());
    } else {
      owed = 1;
    }
    is_done = cell.is_over() || (budget > 0 && times.counted_ops + times.timed_ops >= budget);
  }
  times.steady_until_s = now_s();
  times.steady_faults = faults_of(worker) - faults;
  return times;
}

template <typename Lane>
void drain(Lane& lane, Worker& worker) {
  Probe<Depth::kPlain> probe(worker);
  if constexpr (requires { lane.drain(probe); }) lane.drain(probe);
}

}  // namespace detail

/// Combines the measurements of all threads into metrics: ns_per_op, ops_per_s, cpu_ns_per_op,
/// core_ns_per_op, first_ns_per_op, faults.
///
/// With at most one thread per core, it adds the threads' rates, each over the thread's plain
/// batches. More threads share the cores, and most batches within a time slice do not see the
/// others' time. Then the rate is that of all batches, timed ones included, over the time that all
/// of them took.
void report_batches(Cell& cell, const std::vector<BatchTimes>& lanes);

/// Runs a load that repeats itself, from begin_load() to finish(). Each thread has a lane.
/// make_lane(worker) creates it in that thread, before the clock starts:
///
///   struct Lane {
///     template <class Probe> std::uint64_t batch(Probe& probe);  // runs and counts operations
///     template <class Probe> void drain(Probe& probe);           // frees all that it still holds;
///   };                                                           // needed if batches leave any
///
/// A batch takes about a millisecond (it is timed as a whole) and may leave blocks for the next.
/// The order: the first batch, counted separately as the cold one; one that writes and checks every
/// byte; --warmup more, for at most a quarter of the seconds; then plain batches, which give the
/// throughput. Interleaved with these, as --sample-rate says, are batches whose operations are
/// timed individually.
///
/// Each scenario defines "operation". The threads drain concurrently. tell_more() may add the
/// scenario's own metrics once all threads are done.
template <typename MakeLane, typename TellMore = void (*)()>
void run_batches(
    Cell& cell, MakeLane make_lane, TellMore tell_more = [] {}) {
  std::vector<BatchTimes> times(cell.lanes());
  if (cell.lanes() == 1) {  // no other thread: allocators may be faster in single-threaded programs
    auto lane = make_lane(cell.worker(0));
    cell.begin_load();
    times[0] = detail::run_lane(cell, cell.worker(0), lane);
    cell.end_load();
    detail::drain(lane, cell.worker(0));
  } else {
    bool has_begun = false;
    auto between = [&]() noexcept {
      has_begun ? cell.end_load() : cell.begin_load();
      has_begun = true;
    };
    std::barrier<decltype(between)> gate(cell.threads(), between);
    cell.run_threads(cell.threads(), [&](Worker& worker) {
      auto lane = make_lane(worker);
      gate.arrive_and_wait();
      times[worker.index()] = detail::run_lane(cell, worker, lane);
      gate.arrive_and_wait();
      detail::drain(lane, worker);
    });
  }
  report_batches(cell, times);
  tell_more();
  cell.finish();
}

/// The same with a process per lane. The processes share no memory, so whatever slows them down
/// compared with one alone is the machine. In each of them run_part(run) calls run(make_lane) once,
/// with a contender made there for one thread. There are no latencies; what is seen of memory from
/// outside is the first process's.
template <typename RunPart>
void run_batches_in_processes(Cell& cell, RunPart run_part) {
  struct Outcome {
    BatchTimes times;
    std::uint64_t allocations;
    std::uint64_t frees;
    std::uint64_t failed_allocations;
  };
  const int count = cell.threads();
  OwnMemory<Outcome, Owner::kCopies> outcomes(static_cast<std::size_t>(count));
  Processes copies;
  copies.start(count, [&](int i) {
    cell.continue_as_copy(i);
    Worker& worker = cell.worker(i);
    run_part([&](auto make_lane) {
      auto lane = make_lane(worker);
      copies.arrive_and_wait();
      cell.start_clock();
      const BatchTimes times = detail::run_lane(cell, worker, lane);
      copies.arrive_and_wait();
      detail::drain(lane, worker);
      outcomes[static_cast<std::size_t>(i)] = {times, worker.allocations, worker.frees,
                                               worker.failed_allocations};
      copies.arrive_and_wait();
    });
  });
  copies.wait_for_all();
  cell.begin_load();
  copies.open_gate();
  copies.wait_for_all();
  cell.end_load();
  copies.open_gate();
  copies.wait_for_all();

  std::vector<BatchTimes> times;
  for (int i = 0; i < count; ++i) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(i)];
    times.push_back(outcome.times);
    cell.worker(i).allocations = outcome.allocations;
    cell.worker(i).frees = outcome.frees;
    cell.worker(i).failed_allocations = outcome.failed_allocations;
  }
  report_batches(cell, times);
  cell.finish();
}

}  // namespace strata::cell
