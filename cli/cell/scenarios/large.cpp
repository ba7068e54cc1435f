#include <random>

#include "contenders/in_process.h"
#include "scenarios/replaced_blocks.h"

/// \file  Blocks of 64 KiB to 64 MiB, of which a few are live; each is replaced by one of another
/// size. A word is written to each page, as programs use such memory. So whenever the allocator
/// gets memory from the kernel, the time is that of page faults. An allocator that keeps memory is
/// fast here, but holds more: read both columns.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint64_t kBatchOps = 8;  // some milliseconds, mostly faults
constexpr std::size_t kDrawn = std::size_t{1} << 12;

/// An operation replaces a block.
template <typename Memory>
struct Lane : ReplacedBlocks<Memory, kDrawn> {
  Lane(const Cell& cell, Memory& memory, const Worker& worker)
      : Lane::ReplacedBlocks(
            memory, cell.count("window"), worker.seed, [&](std::mt19937_64& random) {
              return log_between(random, cell.count("smallest"), cell.count("largest"));
            }) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    this->replace(probe, kBatchOps);
    return kBatchOps;
  }
};

void large(Cell& cell) {
  Needs needs;
  needs.smallest_bytes = cell.count("smallest");
  needs.largest_bytes = cell.count("largest");
  needs.threads = cell.threads();
  needs.live_blocks = cell.count("window") * cell.lanes();
  run_lanes<kFits>(cell, needs,
                   [&](auto& memory, Worker& worker) { return Lane(cell, memory, worker); });
}

const Registration<large> kLarge({
    .name = "large",
    .purpose = "blocks of 64 KiB to 64 MiB, all their pages used",
    .fits = kFits,
    .options =
        {Option::count("smallest", 64 << 10, 1, 1 << 30, "bytes", "size of the smallest block")
             .at_most("largest"),
         Option::count("largest", 64 << 20, 1, 1 << 30, "bytes",
                       "size of the largest block; every power of two between is equally likely"),
         Option::count("window", 8, 1, 1'000'000, "blocks", "live blocks per thread")},
});

}  // namespace
}  // namespace strata::cell
