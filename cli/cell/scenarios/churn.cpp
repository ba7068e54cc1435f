#include <random>

#include "contenders/in_process.h"
#include "shared/sizes.h"

/// \file  Blocks come and go at a steady rate, separately in each thread: the cost of an allocation
/// and its free by size and lifetime. The model for a scenario that repeats itself.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;
/// This many operations take about a millisecond; they are timed as a whole.
constexpr std::uint64_t kBatchOps = 20'000;
/// Draws are made once and reused. A power of two, larger than any pattern that a branch predictor
/// learns.
constexpr std::size_t kDrawn = std::size_t{1} << 16;

enum class Mode { kImmediate, kWindow, kBatch, kLifetime };

Mode mode_of(const std::string& text) {
  if (text == "immediate") return Mode::kImmediate;
  if (text == "window") return Mode::kWindow;
  return text == "batch" ? Mode::kBatch : Mode::kLifetime;
}

struct Plan {
  explicit Plan(const Cell& cell)
      : mode(mode_of(cell.text("mode"))),
        sizes(cell.text("size-dist"), cell.count("size")),
        slots(mode == Mode::kImmediate ? 1
                                       : cell.count(mode == Mode::kBatch ? "batch" : "window")) {}

  Mode mode;
  Sizes sizes;
  std::size_t slots;  ///< maximum of live blocks per thread
};

/// The blocks of one thread. An operation is an allocation and a free.
template <typename Memory>
class Lane {
 public:
  Lane(const Plan& plan, Memory& memory, const Worker& worker)
      : mode_(plan.mode), memory_(memory), slots_(plan.slots), sizes_(kDrawn), places_(kDrawn) {
    std::mt19937_64 random(worker.seed);
    Sizes sizes = plan.sizes;
    for (std::uint32_t& size : sizes_) size = sizes.draw(random);
    for (std::uint32_t& place : places_) {
      place = static_cast<std::uint32_t>(random() % plan.slots);
    }
  }

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    switch (mode_) {
      case Mode::kImmediate:
        return immediate(probe);
      case Mode::kWindow:
        return window(probe);
      case Mode::kBatch:
        return all_then_none(probe);
      case Mode::kLifetime:
        return lifetime(probe);
    }
    return 0;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (Block& block : slots_) probe.deallocate(memory_, block);
  }

 private:
  std::size_t next_size() noexcept { return sizes_[next_++ % kDrawn]; }

  template <typename Probe>
  std::uint64_t immediate(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      Block block = probe.allocate(memory_, next_size());
      probe.deallocate(memory_, block);
    }
    return kBatchOps;
  }

  /// Replaces the oldest block.
  template <typename Probe>
  std::uint64_t window(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      if (oldest_ == slots_.size()) oldest_ = 0;
      Block& slot = slots_[oldest_++];
      probe.deallocate(memory_, slot);
      slot = probe.allocate(memory_, next_size());
    }
    return kBatchOps;
  }

  template <typename Probe>
  std::uint64_t all_then_none(Probe& probe) {
    std::uint64_t done = 0;
    while (done < kBatchOps) {
      for (Block& slot : slots_) slot = probe.allocate(memory_, next_size());
      for (Block& slot : slots_) probe.deallocate(memory_, slot);
      done += slots_.size();
    }
    return done;
  }

  /// Replaces a random block, so that old and young blocks become neighbours.
  template <typename Probe>
  std::uint64_t lifetime(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      Block& slot = slots_[places_[next_ % kDrawn]];
      probe.deallocate(memory_, slot);
      slot = probe.allocate(memory_, next_size());
    }
    return kBatchOps;
  }

  Mode mode_;
  Memory& memory_;
  OwnMemory<Block> slots_;
  OwnMemory<std::uint32_t> sizes_;
  OwnMemory<std::uint32_t> places_;
  std::size_t next_ = 0;
  std::size_t oldest_ = 0;
};

void churn(Cell& cell) {
  const Plan plan(cell);
  Needs needs;
  needs.smallest_bytes = plan.sizes.smallest();
  needs.largest_bytes = plan.sizes.largest();
  needs.live_blocks = plan.slots * cell.lanes();
  needs.expect_mean(plan.sizes.mean());
  needs.threads = cell.threads();
  run_lanes<kFits>(cell, needs,
                   [&](auto& memory, Worker& worker) { return Lane(plan, memory, worker); });
}

const Registration<churn> kChurn({
    .name = "churn",
    .purpose = "what an allocation and its free cost, by size and by how long blocks live",
    .fits = kFits,
    .options = {Option::choice("mode", "window", {"immediate", "window", "batch", "lifetime"},
                               "free at once, in order of age, all together, or in random order"),
                Option::count("size", 64, 1, 1 << 26, "bytes",
                              "size of a block, or scale of the other distributions"),
                Option::sizes("fixed"),
                Option::count("window", 1000, 1, 100'000'000, "blocks",
                              "live blocks per thread (modes window and lifetime)"),
                Option::count("batch", 1000, 1, 100'000'000, "blocks",
                              "blocks per thread that are allocated, then freed (mode batch)")},
});

}  // namespace
}  // namespace strata::cell
