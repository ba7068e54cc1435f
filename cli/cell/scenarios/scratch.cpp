#include <vector>

#include "contenders/in_process.h"
#include "harness/batches.h"

/// \file  Each thread writes to a small object of its own. If two objects share a cache line, the
/// line moves between the cores at every write (false sharing). An allocator that gives parts of a
/// line to different threads slows them down without being called.
///
///   passive  one thread allocates the first objects, side by side; each thread frees the one it
///            was given and allocates its next: do parts of the line still go to many threads?
///   active   every thread allocates its own objects from the start
///
/// Without sharing, the time per operation does not grow with the threads, up to the number of
/// cores.
/// \source  E. Berger, K. McKinley, R. Blumofe, P. Wilson, "Hoard: A Scalable Memory Allocator for
///          Multithreaded Applications" (2000): cache-scratch and cache-thrash.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;
/// Mostly writes, which make a batch last about a millisecond.
constexpr std::uint64_t kBatchWrites = 1'000'000;

/// An operation is an object allocated, written as often as asked, and freed.
template <typename Memory>
class Lane {
 public:
  Lane(Memory& memory, Block given, std::size_t bytes, std::uint64_t writes)
      : memory_(memory), object_(given), bytes_(bytes), writes_(writes) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    const std::uint64_t objects = kBatchWrites / writes_ + 1;
    for (std::uint64_t i = 0; i < objects; ++i) {
      probe.deallocate(memory_, object_);
      object_ = probe.allocate(memory_, bytes_);
      if (object_) write(*object_.address);
    }
    return objects;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    probe.deallocate(memory_, object_);
  }

 private:
  /// Writes the current value back, so that the stamp stays and another owner's would still show.
  void write(volatile std::byte& byte) const noexcept {
    for (std::uint64_t i = 0; i < writes_; ++i) byte = byte;
  }

  Memory& memory_;
  Block object_;
  std::size_t bytes_;
  std::uint64_t writes_;
};

void scratch(Cell& cell) {
  const std::size_t bytes = cell.count("size");
  const std::uint64_t writes = cell.count("writes");
  Needs needs;
  needs.smallest_bytes = needs.largest_bytes = bytes;
  needs.threads = cell.threads();
  needs.live_blocks = cell.lanes();
  with_contender<kFits>(cell, needs, [&](auto& memory) {
    std::vector<Block> given(needs.live_blocks);
    if (cell.text("mode") == "passive") {
      Probe<Depth::kPlain> probe(cell.worker(0));
      for (Block& block : given) block = probe.allocate(memory, bytes);
    }
    run_batches(cell,
                [&](Worker& worker) { return Lane(memory, given[worker.index()], bytes, writes); });
  });
}

const Registration<scratch> kScratch({
    .name = "scratch",
    .purpose = "do objects of different threads share cache lines? Try --threads 1,2",
    .origin = "Hoard's cache-scratch and cache-thrash",
    .fits = kFits,
    .options = {Option::choice("mode", "passive", {"passive", "active"},
                               "the first objects come from one thread, or from each its own"),
                Option::count("size", 8, 1, 1 << 20, "bytes", "size of an object"),
                Option::count("writes", 1000, 1, 1'000'000'000, "writes",
                              "writes into each object")},
});

}  // namespace
}  // namespace strata::cell
