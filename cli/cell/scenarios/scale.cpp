#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "contenders/in_process.h"
#include "harness/batches.h"

/// \file  Does an allocator scale? Each thread repeatedly allocates a batch of equal blocks,
/// touches them and frees them, and shares nothing with the others. Any slowdown against one thread
/// comes from the allocator's shared state. A small batch stays in the thread's cache; a large one
/// reaches the shared structures. Compare ops_per_s over --threads, up to the number of cores.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;
/// This many operations take about a millisecond, unless their blocks are large; they are timed as
/// a whole.
constexpr std::size_t kRoundsOps = 20'000;
constexpr std::size_t kRoundsBytes = std::size_t{32} << 20;

struct Plan {
  explicit Plan(const Cell& cell)
      : batch(cell.count("batch")),
        bytes(cell.count("size")),
        rounds(
            std::max<std::size_t>(1, std::min(kRoundsOps / batch, kRoundsBytes / (batch * bytes)))),
        order(cell.text("order")) {}

  std::size_t batch;
  std::size_t bytes;
  std::size_t rounds;  ///< batches that are timed as a whole
  std::string order;
};

/// An operation is a block allocated, touched at both ends and on every page, and freed.
template <typename Memory>
class Lane {
 public:
  Lane(const Plan& plan, Memory& memory, const Worker& worker)
      : bytes_(plan.bytes),
        rounds_(plan.rounds),
        memory_(memory),
        blocks_(plan.batch),
        order_(plan.batch) {
    std::iota(order_.begin(), order_.end(), 0u);
    if (plan.order == "lifo") std::ranges::reverse(order_);
    if (plan.order == "random") {
      std::mt19937_64 random(worker.seed);
      for (std::size_t i = plan.batch; i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
    }
  }

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::size_t round = 0; round < rounds_; ++round) {
      for (Block& block : blocks_) block = probe.allocate(memory_, bytes_);
      for (const std::uint32_t at : order_) probe.deallocate(memory_, blocks_[at]);
    }
    return rounds_ * blocks_.size();
  }

 private:
  std::size_t bytes_;
  std::size_t rounds_;
  Memory& memory_;
  OwnMemory<Block> blocks_;
  OwnMemory<std::uint32_t> order_;  // of the frees
};

void scale(Cell& cell) {
  const Plan plan(cell);
  Needs needs;
  needs.smallest_bytes = needs.largest_bytes = plan.bytes;
  needs.is_freed_at_once = true;
  const auto run_for = [&](int threads, auto run) {
    needs.threads = threads;
    needs.live_blocks = plan.batch * static_cast<std::size_t>(threads);
    with_contender<kFits>(cell, needs, [&](auto& memory) {
      run([&](Worker& worker) { return Lane(plan, memory, worker); });
    });
  };
  if (cell.text("workers") == "processes") {
    run_batches_in_processes(cell, [&](auto run) { run_for(1, run); });
  } else {
    run_for(cell.threads(), [&](auto make_lane) { run_batches(cell, make_lane); });
  }
}

const Registration<scale> kScale({
    .name = "scale",
    .purpose = "does it scale? threads that share nothing allocate batches and free them",
    .fits = kFits,
    .options =
        {Option::count("batch", 1000, 1, 100'000'000, "blocks",
                       "blocks per thread that are allocated, then freed"),
         Option::count("size", 64, 1, 1 << 26, "bytes", "size of a block"),
         Option::choice("order", "fifo", {"fifo", "lifo", "random"},
                        "the first block is freed first, or last, or they go in random order"),
         Option::choice("workers", "threads", {"threads", "processes"},
                        "--threads of one process, or so many processes, which share no memory "
                        "(without latencies)")},
    .shown = {"core_ns_per_op", "ops_per_s", "peak_rss_bytes"},
});

}  // namespace
}  // namespace strata::cell
