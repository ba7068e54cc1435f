#include <atomic>
#include <random>

#include "contenders/in_process.h"
#include "scenarios/draw.h"
#include "shared/sizes.h"

/// \file  Threads put blocks into random places of one shared array and free what they find there,
/// most of which other threads allocated. Measures the cost of unplanned frees across threads.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;
constexpr std::uint64_t kBatchOps = 10'000;
/// The number of a draw has 15 bits, because it travels with the block.
constexpr std::size_t kDrawn = std::size_t{1} << 15;

/// A block in one word, so that a single instruction swaps it for another.
///
///   63 … 49          48                            47 … 0
///   number of draw | every byte is stamped (1) | address
///
/// The number gives the size and serves as the stamp. If memory has two owners, they disagree about
/// it unless both drew the same of 32768 numbers.
class Parcel {
 public:
  static std::uint64_t of(const Block& block) noexcept {
    return std::uint64_t{block.stamp} << kAddressBits | address_of(block);
  }
  static Block open(std::uint64_t parcel, const OwnMemory<std::uint32_t>& sizes) noexcept {
    if (parcel == 0) return {};
    const auto stamp = static_cast<std::uint32_t>(parcel >> kAddressBits);
    const std::uint64_t address = parcel & ((std::uint64_t{1} << kAddressBits) - 1);
    return {reinterpret_cast<std::byte*>(address), sizes[stamp >> 1], stamp};  // NOLINT
  }
  /// Whether the address is one that user space gets by default. Contenders with others cannot run
  /// here.
  static bool fits(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) >> kAddressBits == 0;
  }

 private:
  static constexpr unsigned kAddressBits = 48;
  static std::uint64_t address_of(const Block& block) noexcept {
    return reinterpret_cast<std::uintptr_t>(block.address);
  }
};
static_assert(kDrawn << 1 == std::size_t{1} << (64 - 48), "number and bit fill a parcel's top");

/// The shared state: the array, and the draws that give sizes.
struct Shelf {
  Shelf(const Cell& cell, Sizes sizes)
      : slots(cell.count("slots")), sizes_of_draws(kDrawn), places(kDrawn) {
    std::mt19937_64 random(cell.seed());
    for (std::uint32_t& size : sizes_of_draws) size = sizes.draw(random);
    for (std::uint32_t& place : places) place = between(random, 0, slots.size() - 1);
  }

  OwnMemory<std::uint64_t> slots;  // parcels; swapped with acquire and release
  OwnMemory<std::uint32_t> sizes_of_draws;
  OwnMemory<std::uint32_t> places;
};

/// An operation is an allocation, a swap, and the free of the block that was there.
template <typename Memory>
class Lane {
 public:
  Lane(Shelf& shelf, Memory& memory, const Worker& worker, std::size_t lanes)
      : shelf_(shelf),
        memory_(memory),
        lane_(worker.index()),
        lanes_(lanes),
        next_(static_cast<std::size_t>(worker.seed)) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      const std::size_t draw = next_++ % kDrawn;
      const Block block = allocate(probe, draw);
      // Places come from another part of the table; otherwise a size would always meet the same
      // place.
      if (block) put(probe, shelf_.places[(next_ * 7 + draw) % kDrawn], Parcel::of(block));
    }
    return kBatchOps;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (std::size_t at = lane_; at < shelf_.slots.size(); at += lanes_) put(probe, at, 0);
  }

 private:
  template <typename Probe>
  Block allocate(Probe& probe, std::size_t draw) {
    const std::uint32_t bytes = shelf_.sizes_of_draws[draw];
    void* address = probe.time(kAlloc, [&] { return memory_.allocate(bytes); });
    if (!Parcel::fits(address)) fail_wrong_work("an address has more than 48 bits");
    return probe.adopt(address, bytes, static_cast<std::uint32_t>(draw));
  }

  template <typename Probe>
  void put(Probe& probe, std::size_t place, std::uint64_t parcel) {
    std::atomic_ref<std::uint64_t> slot(shelf_.slots[place]);
    // release: what was written into our block. acquire: what the other thread wrote into its own.
    Block old =
        Parcel::open(slot.exchange(parcel, std::memory_order_acq_rel), shelf_.sizes_of_draws);
    probe.deallocate(memory_, old);
  }

  Shelf& shelf_;
  Memory& memory_;
  std::size_t lane_;
  std::size_t lanes_;
  std::size_t next_;
};

void slots(Cell& cell) {
  const Sizes sizes(cell.text("size-dist"), cell.count("size"));
  Shelf shelf(cell, sizes);
  Needs needs;
  needs.smallest_bytes = sizes.smallest();
  needs.largest_bytes = sizes.largest();
  needs.threads = cell.threads();
  // Each thread may hold one more, just allocated block.
  needs.live_blocks = shelf.slots.size() + cell.lanes();
  needs.expect_mean(sizes.mean());
  run_lanes<kFits>(cell, needs, [&](auto& memory, Worker& worker) {
    return Lane(shelf, memory, worker, cell.lanes());
  });
}

const Registration<slots> kSlots({
    .name = "slots",
    .purpose = "what it costs to free what other threads allocated, in no order",
    .fits = kFits,
    .options = {Option::count("slots", 4096, 1, 100'000'000, "blocks", "size of the shared array"),
                Option::count("size", 64, 1, 1 << 20, "bytes",
                              "size of a block, or scale of the other distributions"),
                Option::sizes("mixed")},
});

}  // namespace
}  // namespace strata::cell
