#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "contenders/in_process.h"
#include "harness/resident.h"

/// \file  Allocates many blocks of one size, then frees all of them: in the order of allocation,
/// backwards, or scattered. The plainest comparison of a pool with a malloc: what a block costs in
/// time, and in memory beyond its size.
///
/// The addresses are kept in a table of 8 bytes per block, resident before the load begins. The
/// peak includes it; block_rss_bytes does not. block_rss_bytes includes what a pool touched during
/// its construction.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kAll;

/// The results of a lane; each lane has its own.
struct Account {
  std::uint64_t blocks = 0;
  double alloc_s = 0;
  double free_s = 0;
  double rss_bytes_per_block = 0;
};

/// A batch allocates and frees all blocks. An operation is one block allocated and freed.
template <typename Memory>
class Lane {
 public:
  Lane(Memory& memory, Account& account, std::size_t count, std::size_t bytes,
       const std::string& order, std::uint64_t rss_before)
      : memory_(memory),
        account_(account),
        bytes_(bytes),
        addresses_(count),
        rss_before_(rss_before + count * sizeof(std::byte*)) {
    const auto last = static_cast<std::uint64_t>(count - 1);
    if (order == "lifo") {
      first_ = last;
      step_ = last;  // one back, modulo count
    } else if (order == "scattered") {
      // Near the golden section of the count, so that consecutive frees are not adjacent in memory.
      step_ = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(0.618 * static_cast<double>(count)));
      while (std::gcd(step_, static_cast<std::uint64_t>(count)) != 1) ++step_;
    }
  }

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    const double started = now_s();
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      void* address = probe.time(kAlloc, [&] { return memory_.allocate(bytes_); });
      addresses_[i] = probe.adopt(address, bytes_, number_of(i)).address;
    }
    const double full = now_s();
    if constexpr (Probe::kIsVerified) {
      account_.rss_bytes_per_block =
          (static_cast<double>(resident_bytes()) - static_cast<double>(rss_before_)) /
          static_cast<double>(addresses_.size());
    }
    const double freeing = now_s();
    free_all(probe);
    if (Probe::kLevel == Depth::kPlain && !std::exchange(is_cold_, false)) {
      account_.blocks += addresses_.size();
      account_.alloc_s += full - started;
      account_.free_s += now_s() - freeing;
    }
    return addresses_.size();
  }

 private:
  static std::uint32_t number_of(std::size_t index) noexcept {
    return static_cast<std::uint32_t>(index) & 0x7fffffff;
  }

  template <typename Probe>
  void free_all(Probe& probe) {
    constexpr std::uint32_t kWhole = Probe::kIsVerified ? 1 : 0;
    std::uint64_t at = first_;
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      Block block{addresses_[at], static_cast<std::uint32_t>(bytes_), number_of(at) << 1 | kWhole};
      probe.deallocate(memory_, block);
      at += step_;
      if (at >= addresses_.size()) at -= addresses_.size();
    }
  }

  Memory& memory_;
  Account& account_;
  std::size_t bytes_;
  OwnMemory<std::byte*> addresses_;
  std::uint64_t rss_before_;  // before the contender's first page; plus our own table
  std::uint64_t first_ = 0;
  std::uint64_t step_ = 1;
  bool is_cold_ = true;  // the first plain batch is counted separately
};

void blocks(Cell& cell) {
  const std::size_t threads = cell.lanes();
  const std::size_t each = std::max<std::size_t>(1, cell.count("count") / threads);
  const std::size_t bytes = cell.count("size");
  Needs needs;
  needs.smallest_bytes = needs.largest_bytes = bytes;
  needs.threads = cell.threads();
  needs.live_blocks = each * threads;
  needs.is_freed_at_once = true;
  std::vector<Account> accounts(threads);
  auto tell = [&] {
    double alloc_ns = 0;
    double free_ns = 0;
    for (const Account& account : accounts) {
      if (account.blocks == 0) return;
      const double per_block = 1e9 / static_cast<double>(account.blocks * threads);
      alloc_ns += account.alloc_s * per_block;
      free_ns += account.free_s * per_block;
    }
    cell.metric("total_s", (alloc_ns + free_ns) * 1e-9 * static_cast<double>(each));
    cell.metric("alloc_ns_per_op", alloc_ns);
    cell.metric("free_ns_per_op", free_ns);
    // With several threads, the others are elsewhere in their batches at that moment.
    if (threads == 1) cell.metric("block_rss_bytes", accounts[0].rss_bytes_per_block);
  };
  const std::uint64_t rss_before = resident_bytes();
  run_lanes<kFits>(
      cell, needs,
      [&](auto& memory, Worker& worker) {
        return Lane(memory, accounts[worker.index()], each, bytes, cell.text("order"), rss_before);
      },
      tell);
}

const Registration<blocks> kBlocks({
    .name = "blocks",
    .purpose =
        "many blocks of one size, all allocated, then all freed: time, p99, memory per block",
    .fits = kFits,
    .options = {Option::count("count", 10'000'000, 1, 2'000'000'000, "blocks",
                              "number of blocks, over all threads"),
                Option::count("size", 64, 1, 1 << 26, "bytes", "size of a block"),
                Option::choice("order", "fifo", {"fifo", "lifo", "scattered"},
                               "the first block is freed first, or last, or they go in no order")},
    .shown = {"ns_per_op", "alloc_ns_per_op", "free_ns_per_op", "block_rss_bytes",
              "peak_rss_bytes"},
});

}  // namespace
}  // namespace strata::cell
