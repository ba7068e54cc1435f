#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "contenders/in_process.h"
#include "harness/resident.h"
#include "scenarios/draw.h"

/// \file  A program whose needs change: it fills its memory with small blocks, frees most of them,
/// then needs large ones. The remaining blocks are scattered over all pages. Its memory use depends
/// on whether the gaps can serve the new sizes or return to the kernel.
///
///   fill with small blocks to --live | free all but --keep of them, scattered | rest for --pause |
///   fill with large blocks to --live | free the large ones; the small ones stay for another cycle
///
/// Without a pause only immediate work counts: merging, and returning memory before taking more.
/// With one (say 2 seconds) background work shows. The pause is part of the time per operation,
/// which then means nothing.
///
/// rss_per_live is the process's growth divided by the live bytes, at the end of the worst large
/// phase. 1 would be no waste.
/// \source  M. Johnstone, P. Wilson, "The Memory Fragmentation Problem: Solved?" (1998), for
///          measuring fragmentation as what is held over what is live.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::size_t kDrawn = std::size_t{1} << 16;

struct Range {
  std::uint32_t from;
  std::uint32_t to;
  double mean() const noexcept { return (from + to) / 2.0; }
};
constexpr Range kSmall{16, 512};
constexpr Range kLarge{8 * 1024, 64 * 1024};

struct Draw {
  std::uint32_t small_bytes;
  std::uint32_t large_bytes;
  bool stays;
};

struct Findings {
  double rss_per_live = 0;  ///< of the worst cycle
  std::size_t peak_live_bytes = 0;
};

/// The number of places for blocks of a range that fill `bytes`, plus a tenth for chance.
std::size_t places_for(std::size_t bytes, Range range) {
  return static_cast<std::size_t>(1.1 * static_cast<double>(bytes) / range.mean()) + 64;
}

/// A batch is a cycle. An operation is an allocation.
template <typename Memory>
class Lane {
 public:
  Lane(Memory& memory, Findings& findings, const Worker& worker, std::size_t live_bytes,
       double keep, double pause_s)
      : memory_(memory),
        findings_(findings),
        target_bytes_(live_bytes),
        pause_s_(pause_s),
        small_(places_for(live_bytes, kSmall)),
        kept_(small_.size()),
        large_(places_for(live_bytes, kLarge)),
        draws_(worker.seed,
               [&](std::mt19937_64& random) {
                 Draw d;
                 d.small_bytes = between(random, kSmall.from, kSmall.to);
                 d.large_bytes = between(random, kLarge.from, kLarge.to);
                 d.stays = static_cast<double>(random() % 1'000'000) < keep * 1e6;
                 return d;
               }),
        rss_before_(resident_bytes()) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    std::uint64_t made = fill(probe, small_, small_count_, &Draw::small_bytes);
    free_most(probe);
    if (pause_s_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause_s_));
    made += fill(probe, large_, large_count_, &Draw::large_bytes);
    if constexpr (!Probe::kIsVerified) {
      const double gained =
          static_cast<double>(resident_bytes()) - static_cast<double>(rss_before_);
      findings_.rss_per_live =
          std::max(findings_.rss_per_live, gained / static_cast<double>(live_bytes_));
    }
    free_all(probe, large_, large_count_);
    return made;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    free_all(probe, kept_, kept_count_);
  }

 private:
  template <typename Probe>
  std::uint64_t fill(Probe& probe, OwnMemory<Block>& blocks, std::size_t& count,
                     std::uint32_t Draw::*bytes) {
    while (live_bytes_ < target_bytes_ && count < blocks.size()) {
      Block block = probe.allocate(memory_, draws_.next().*bytes);
      if (!block) break;  // counted as a failure of the cell
      live_bytes_ += block.bytes;
      blocks[count++] = block;
    }
    findings_.peak_live_bytes = std::max(findings_.peak_live_bytes, live_bytes_);
    return count;
  }

  /// Also frees the small blocks kept from the previous cycle.
  template <typename Probe>
  void free_most(Probe& probe) {
    free_all(probe, kept_, kept_count_);
    for (std::size_t i = 0; i < small_count_; ++i) {
      if (draws_.next().stays) {
        kept_[kept_count_++] = small_[i];
      } else {
        give_back(probe, small_[i]);
      }
    }
    small_count_ = 0;
  }

  template <typename Probe>
  void free_all(Probe& probe, OwnMemory<Block>& blocks, std::size_t& count) {
    for (std::size_t i = 0; i < count; ++i) give_back(probe, blocks[i]);
    count = 0;
  }

  template <typename Probe>
  void give_back(Probe& probe, Block& block) {
    live_bytes_ -= block.bytes;
    probe.deallocate(memory_, block);
  }

  Memory& memory_;
  Findings& findings_;
  std::size_t target_bytes_;
  double pause_s_;
  OwnMemory<Block> small_;
  OwnMemory<Block> kept_;
  OwnMemory<Block> large_;
  Drawn<Draw, kDrawn> draws_;
  std::uint64_t rss_before_;
  std::size_t small_count_ = 0;
  std::size_t kept_count_ = 0;
  std::size_t large_count_ = 0;
  std::size_t live_bytes_ = 0;
};

void phases(Cell& cell) {
  const std::size_t live_bytes = cell.count("live") << 20;
  Needs needs;
  needs.smallest_bytes = kSmall.from;
  needs.largest_bytes = kLarge.to;
  needs.live_blocks = 2 * static_cast<std::size_t>(static_cast<double>(live_bytes) / kSmall.mean());
  needs.live_bytes = live_bytes + 2 * kLarge.to;
  Findings findings;
  run_lanes<kFits>(
      cell, needs,
      [&](auto& memory, Worker& worker) {
        return Lane(memory, findings, worker, live_bytes, cell.real("keep"), cell.real("pause"));
      },
      [&] {
        cell.metric("rss_per_live", findings.rss_per_live);
        cell.metric("peak_live_bytes", static_cast<double>(findings.peak_live_bytes));
      });
}

const Registration<phases> kPhases({
    .name = "phases",
    .purpose = "fragmentation: small blocks, most of them freed, then large ones",
    .origin = "after Johnstone and Wilson's measure of fragmentation",
    .fits = kFits,
    .options = {Option::count("live", 64, 1, 1 << 20, "MiB", "sum of the live blocks of a phase"),
                Option::real("keep", 0.05, 0, 1, "share", "share of the small blocks that stay"),
                Option::real("pause", 0, 0, 3600, "s", "pause before the large blocks")},
    .shown = {"rss_per_live", "ns_per_op", "peak_rss_bytes"},
    .takes_threads = false,
});

}  // namespace
}  // namespace strata::cell
