#include <algorithm>
#include <ctime>
#include <random>

#include "contenders/in_process.h"
#include "harness/cell.h"
#include "harness/probe.h"
#include "harness/resident.h"
#include "scenarios/draw.h"

/// \file  Allocates a burst of small blocks, frees all in random order, and then makes no call in
/// which an allocator could tidy up. Measures how much memory returns to the kernel, and when.
///
///   burst_rss_bytes    growth of the process by the burst
///   left_rss_bytes     the part of it still resident after --watch seconds; back_share is the rest
///   half_back_s        time from the last free until half of it had returned; most_back_s: nine
///                      tenths; missing if that never happened

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint32_t kSmallest = 16;
constexpr std::uint32_t kLargest = 1024;
constexpr double kMeanBytes = (kSmallest + kLargest) / 2.0;
constexpr double kLookEvery_s = 0.005;

struct Plan {
  explicit Plan(Cell& cell)
      : blocks(std::max<std::size_t>(
            1,
            static_cast<std::size_t>(static_cast<double>(cell.count("burst") << 20) / kMeanBytes))),
        sizes(blocks.size()),
        order(blocks.size()) {
    std::mt19937_64 random(cell.worker(0).seed);
    for (std::uint32_t& size : sizes) size = between(random, kSmallest, kLargest);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::size_t other = random() % (i + 1);
      order[i] = order[other];
      order[other] = static_cast<std::uint32_t>(i);
    }
  }

  OwnMemory<Block> blocks;
  OwnMemory<std::uint32_t> sizes;
  OwnMemory<std::uint32_t> order;  // of the frees
};

void watch(Cell& cell, double before, double burst) {
  const double gained = std::max(1.0, burst - before);
  const double freed_s = now_s();
  const double seconds = cell.real("watch");
  double half_back_s = -1;
  double most_back_s = -1;
  double left = gained;
  for (double now = 0;; now = now_s() - freed_s) {
    left = static_cast<double>(resident_bytes()) - before;
    if (half_back_s < 0 && left <= gained / 2) half_back_s = now;
    if (most_back_s < 0 && left <= gained / 10) most_back_s = now;
    if (now >= seconds) break;
    timespec nap{0, static_cast<long>(kLookEvery_s * 1e9)};
    ::nanosleep(&nap, nullptr);
  }
  cell.metric("burst_rss_bytes", gained);
  cell.metric("left_rss_bytes", std::max(0.0, left));
  cell.metric("back_share", std::clamp(1 - left / gained, 0.0, 1.0));
  if (half_back_s >= 0) cell.metric("half_back_s", half_back_s);
  if (most_back_s >= 0) cell.metric("most_back_s", most_back_s);
}

void idle(Cell& cell) {
  Plan plan(cell);
  Needs needs;
  needs.smallest_bytes = kSmallest;
  needs.largest_bytes = kLargest;
  needs.live_blocks = plan.blocks.size();
  needs.live_bytes =
      static_cast<std::size_t>(1.1 * kMeanBytes * static_cast<double>(plan.blocks.size())) +
      (1 << 20);
  with_contender<kFits>(cell, needs, [&](auto& memory) {
    Probe<Depth::kPlain> probe(cell.worker(0));
    const auto before = static_cast<double>(resident_bytes());
    cell.begin_load();
    const double started = now_s();
    for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
      plan.blocks[i] = probe.allocate(memory, plan.sizes[i]);
    }
    const double full = now_s();
    cell.end_load();
    const auto burst = static_cast<double>(resident_bytes());
    const double freeing = now_s();
    for (const std::uint32_t at : plan.order) probe.deallocate(memory, plan.blocks[at]);
    const double both_s = full - started + now_s() - freeing;
    watch(cell, before, burst);
    cell.metric("ns_per_op", 1e9 * both_s / static_cast<double>(plan.blocks.size()));
    cell.finish();
  });
}

const Registration<idle> kIdle({
    .name = "idle",
    .purpose = "a burst, then nothing: how much memory comes back by itself, and when",
    .fits = kFits,
    .options = {Option::count("burst", 256, 1, 1 << 20, "MiB",
                              "size of the burst, of blocks of 16 to 1024 bytes"),
                Option::real("watch", 3, 0, 3600, "s", "how long to watch after the last free")},
    .shown = {"left_rss_bytes", "half_back_s", "burst_rss_bytes"},
    .takes_threads = false,
});

}  // namespace
}  // namespace strata::cell
