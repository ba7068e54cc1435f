#include <random>

#include "scenarios/draw.h"
#include "scenarios/run_lanes.h"

/// \file  Blocks of 64 KiB to 64 MiB, a few alive at once, each replaced by another of another
/// size. A word is written on each of their pages, as a program does with what it asked for, so the
/// time is that of faults wherever the allocator went to the kernel: who keeps memory is fast here,
/// and pays in memory held. Read both columns.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint64_t kBatchOps = 8;  // some milliseconds, in faults
constexpr std::size_t kDrawn = std::size_t{1} << 12;

struct Draw {
  std::uint32_t place;
  std::uint32_t bytes;
};

/// An operation is the replacement of a block.
template <typename Memory>
class Lane {
 public:
  Lane(const Cell& cell, Memory& memory, const Worker& worker)
      : memory_(memory), blocks_(cell.count("window")), draws_(kDrawn) {
    std::mt19937_64 random(worker.seed);
    for (Draw& d : draws_) {
      d = {between(random, 0, blocks_.size() - 1),
           log_between(random, cell.count("smallest"), cell.count("largest"))};
    }
  }

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      const Draw& d = draws_[next_++ % kDrawn];
      probe.deallocate(memory_, blocks_[d.place]);
      blocks_[d.place] = probe.allocate(memory_, d.bytes);
    }
    return kBatchOps;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (Block& block : blocks_) probe.deallocate(memory_, block);
  }

 private:
  Memory& memory_;
  OwnMemory<Block> blocks_;
  OwnMemory<Draw> draws_;
  std::size_t next_ = 0;
};

void large(Cell& cell) {
  Needs needs;
  needs.smallest_bytes = cell.count("smallest");
  needs.largest_bytes = cell.count("largest");
  needs.threads = cell.threads();
  needs.live_blocks = cell.count("window") * static_cast<std::size_t>(cell.threads());
  run_lanes<kFits>(cell, needs,
                   [&](auto& memory, Worker& worker) { return Lane(cell, memory, worker); });
}

const Registration kLarge({
    .name = "large",
    .purpose = "blocks of 64 KiB to 64 MiB, all their pages used",
    .origin = {},
    .fits = kFits,
    .options =
        {
            Option::count("smallest", 64 << 10, 1, 1 << 30, "bytes", "size of the smallest block")
                .at_most("largest"),
            Option::count(
                "largest", 64 << 20, 1, 1 << 30, "bytes",
                "size of the largest block; every power of two between is equally likely"),
            Option::count("window", 8, 1, 1'000'000, "blocks", "live blocks per thread"),
        },
    .run = large,
});

}  // namespace
}  // namespace strata::cell
