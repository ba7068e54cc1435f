#include <random>

#include "contenders/in_process.h"
#include "scenarios/draw.h"

/// \file  Many threads, each with a ring of slots. An object lives for 50 to 2000 passes of its
/// thread's loop; each pass visits one slot. The load of a server with up to 512 threads, one per
/// connection: most objects are small, a few have many pages, and whatever the allocator keeps per
/// thread is multiplied by the number of threads.
///
/// The ring is short compared with the lifetimes, so a slot is visited several times in an object's
/// life, and objects expire inside the loop at their own times, not all at the end.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint64_t kBatchPasses = 16'384;
constexpr std::size_t kDrawn = std::size_t{1} << 15;
constexpr std::uint32_t kShortestLife = 50;
constexpr std::uint32_t kLongestLife = 2000;
static_assert(kBatchPasses > 8 * kLongestLife, "in every batch each slot is used several times");

struct Kind {
  std::uint32_t tenths;
  std::uint32_t from;
  std::uint32_t to;
};
constexpr Kind kKinds[] = {{6, 16, 256}, {3, 512, 2048}, {1, 4096, 32768}};

constexpr double mean_bytes() {
  double sum = 0;
  for (const Kind& kind : kKinds) sum += kind.tenths * (kind.from + kind.to) / 20.0;
  return sum;
}

struct Draw {
  std::uint32_t bytes;
  std::uint32_t passes_to_live;
};

Draw draw(std::mt19937_64& random) {
  std::uint32_t tenth = between(random, 0, 9);
  const Kind* kind = kKinds;
  for (; tenth >= kind->tenths; ++kind) tenth -= kind->tenths;
  return {between(random, kind->from, kind->to), between(random, kShortestLife, kLongestLife)};
}

/// An operation is a new object, and the free of the expired object in its slot.
template <typename Memory>
class Lane {
 public:
  Lane(Memory& memory, const Worker& worker, std::size_t slots)
      : memory_(memory), ring_(slots), draws_(worker.seed, draw) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    std::uint64_t made = 0;
    for (const std::uint64_t end = pass_ + kBatchPasses; pass_ < end; ++pass_) {
      if (++at_ >= ring_.size()) at_ = 0;
      Slot& slot = ring_[at_];
      if (pass_ < slot.expires) continue;
      probe.deallocate(memory_, slot.block);
      const Draw& d = draws_.next();
      slot = {probe.allocate(memory_, d.bytes), pass_ + d.passes_to_live};
      ++made;
    }
    return made;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (Slot& slot : ring_) probe.deallocate(memory_, slot.block);
  }

 private:
  struct Slot {
    Block block;
    std::uint64_t expires;  // the first pass in which it may be freed
  };

  Memory& memory_;
  OwnMemory<Slot> ring_;
  Drawn<Draw, kDrawn> draws_;
  std::uint64_t pass_ = 0;
  std::size_t at_ = 0;
};

void ephemeral(Cell& cell) {
  const std::size_t slots = cell.count("ring");
  Needs needs;
  needs.smallest_bytes = kKinds[0].from;
  needs.largest_bytes = kKinds[2].to;
  needs.threads = cell.threads();
  needs.live_blocks = slots * cell.lanes();
  needs.expect_mean(mean_bytes(), 16);
  run_lanes<kFits>(cell, needs,
                   [&](auto& memory, Worker& worker) { return Lane(memory, worker, slots); });
}

const Registration<ephemeral> kEphemeral({
    .name = "ephemeral",
    .purpose = "many threads with objects of random lives and sizes; try --threads 512",
    .fits = kFits,
    .options = {Option::count("ring", 256, 1, 1'000'000, "slots", "slots per thread")},
});

}  // namespace
}  // namespace strata::cell
