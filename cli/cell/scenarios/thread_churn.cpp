#include <random>
#include <thread>

#include "contenders/in_process.h"
#include "scenarios/draw.h"

/// \file  Thousands of short-lived threads: each allocates a few blocks, frees half of them and
/// leaves the rest to the next thread, like a program that starts a thread per request. Whatever an
/// allocator sets up per thread is set up for each of them; whatever it loses when a thread ends,
/// it loses a thousand times.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint64_t kBatchThreads = 32;  // some 30 µs each
constexpr std::size_t kDrawn = std::size_t{1} << 14;
constexpr std::uint32_t kSmallest = 16;
constexpr std::uint32_t kLargest = 1024;

/// An operation is a thread, from its start until it is joined.
template <typename Memory>
class Lane {
 public:
  Lane(Memory& memory, const Worker& worker, std::size_t objects, LatencyKind thread_kind)
      : memory_(memory),
        blocks_(objects),
        sizes_(worker.seed,
               [](std::mt19937_64& random) { return between(random, kSmallest, kLargest); }),
        thread_kind_(thread_kind) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchThreads; ++i) {
      probe.time(thread_kind_, [&] { std::thread([&] { live(probe); }).join(); });
    }
    return kBatchThreads;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (Block& block : blocks_) probe.deallocate(memory_, block);
  }

 private:
  /// The life of a thread: frees what its predecessor left, fills the table, frees every other
  /// block.
  template <typename Probe>
  void live(Probe& probe) {
    for (Block& block : blocks_) {
      probe.deallocate(memory_, block);
      block = probe.allocate(memory_, sizes_.next());
    }
    for (std::size_t i = 0; i < blocks_.size(); i += 2) probe.deallocate(memory_, blocks_[i]);
    probe.worker().faults_elsewhere += detail::faults_of_thread();
  }

  Memory& memory_;
  OwnMemory<Block> blocks_;
  Drawn<std::uint32_t, kDrawn> sizes_;
  LatencyKind thread_kind_;
};

void thread_churn(Cell& cell) {
  const std::size_t objects = cell.count("objects");
  const LatencyKind thread_kind = cell.add_latency("thread");
  Needs needs;
  needs.smallest_bytes = kSmallest;
  needs.largest_bytes = kLargest;
  needs.threads = cell.threads() + 1;  // even a single lane runs thread after thread
  needs.live_blocks = objects * cell.lanes();
  run_lanes<kFits>(cell, needs, [&](auto& memory, Worker& worker) {
    return Lane(memory, worker, objects, thread_kind);
  });
}

const Registration<thread_churn> kThreadChurn({
    .name = "thread-churn",
    .purpose = "thousands of threads that allocate a little and end",
    .fits = kFits,
    .options = {Option::count("objects", 64, 1, 1'000'000, "blocks",
                              "blocks that each thread allocates")},
});

}  // namespace
}  // namespace strata::cell
