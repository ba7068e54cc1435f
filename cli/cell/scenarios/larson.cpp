#include <random>
#include <thread>

#include "contenders/in_process.h"
#include "scenarios/replaced_blocks.h"

/// \file  A server: each thread replaces random blocks of its table, then ends and passes the table
/// to its successor, which frees what its predecessor allocated. Thread caches are constantly
/// created and destroyed, and most freed blocks come from a thread that no longer exists. The
/// sizes, and 5000 blocks per thread, are the usual ones for this benchmark.
/// \source  P. Larson, M. Krishnan, "Memory Allocation for Long-Running Server Applications", 1998.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::size_t kDrawn = std::size_t{1} << 16;

/// A batch is the life of one thread, including its start and end. An operation replaces a block.
template <typename Memory>
class Lane : public ReplacedBlocks<Memory, kDrawn> {
 public:
  Lane(const Cell& cell, Memory& memory, const Worker& worker)
      : Lane::ReplacedBlocks(memory, cell.count("blocks"), worker.seed,
                             [&](std::mt19937_64& random) {
                               return between(random, cell.count("smallest"),
                                              cell.count("largest"));
                             }),
        generation_ops_(cell.count("generation")) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    std::thread([&] {
      this->replace(probe, generation_ops_);
      probe.worker().faults_elsewhere += detail::faults_of_thread();
    }).join();
    return generation_ops_;
  }

 private:
  std::uint64_t generation_ops_;
};

void larson(Cell& cell) {
  Needs needs;
  needs.smallest_bytes = cell.count("smallest");
  needs.largest_bytes = cell.count("largest");
  needs.threads = cell.threads() + 1;  // even a single table passes from thread to thread
  needs.live_blocks = cell.count("blocks") * cell.lanes();
  run_lanes<kFits>(cell, needs,
                   [&](auto& memory, Worker& worker) { return Lane(cell, memory, worker); });
}

const Registration<larson> kLarson({
    .name = "larson",
    .purpose = "a server whose objects outlive the threads that made them",
    .origin = "Larson and Krishnan's server",
    .fits = kFits,
    .options = {Option::count("blocks", 5000, 1, 10'000'000, "blocks", "live blocks per thread"),
                Option::count("smallest", 8, 1, 1 << 20, "bytes", "size of the smallest block")
                    .at_most("largest"),
                Option::count("largest", 1000, 1, 1 << 20, "bytes", "size of the largest block"),
                Option::count("generation", 20'000, 1, 1'000'000'000, "operations",
                              "operations of a thread before the next one takes its place")},
});

}  // namespace
}  // namespace strata::cell
