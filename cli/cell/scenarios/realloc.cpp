#include <algorithm>
#include <random>

#include "contenders/in_process.h"
#include "harness/batches.h"
#include "scenarios/draw.h"

/// \file  Growing buffers: strings, arrays and files being read. Each is resized until it reaches
/// its final size, then freed. Several grow in turns, so that they block each other. Allocators
/// that extend in place or remap pages instead of copying win. Each step checks the contents that
/// must be kept.

namespace strata::cell {
namespace {

constexpr Fits kFits = Fits::kHeaps;
constexpr std::uint64_t kBatchOps = 4'000;
constexpr std::size_t kDrawn = std::size_t{1} << 14;
constexpr std::uint32_t kFirstBytes = 16;

enum class Growth {
  kDouble,  ///< by a factor of two, like std::vector
  kHalf,    ///< by half of the current size
  kStep,    ///< by a constant number of bytes, like programs that read line by line
};

/// Extends a block's stamp after it has grown. Existing words stay valid, because a word depends
/// only on its position; the block has a new last word.
void extend_stamp(const Block& old, const Block& grown) noexcept {
  if ((grown.stamp & 1) != 0) return write_stamp(grown);
  const std::size_t last = grown.bytes - detail::kWord;
  const auto put = [&](std::size_t at) {
    const std::uint64_t word = detail::word_of(grown.stamp, at);
    std::memcpy(grown.address + at, &word, sizeof word);
  };
  // Starts at the page of the old last word, which may lie where that page's word belongs.
  std::size_t at = std::max(detail::kPage, old.bytes / detail::kPage * detail::kPage);
  for (; at + detail::kWord <= last; at += detail::kPage) put(at);
  put(last);
}

/// An operation is a realloc, or the free of a grown buffer and the malloc of the next.
template <typename Memory>
class Lane {
 public:
  Lane(const Cell& cell, Memory& memory, const Worker& worker, LatencyKind realloc_kind)
      : memory_(memory),
        growth_(cell.text("growth") == "double" ? Growth::kDouble
                : cell.text("growth") == "half" ? Growth::kHalf
                                                : Growth::kStep),
        step_(static_cast<std::uint32_t>(cell.count("step"))),
        buffers_(cell.count("buffers")),
        draws_(worker.seed,
               [&](std::mt19937_64& random) {
                 const std::uint32_t buffer = between(random, 0, buffers_.size() - 1);
                 return Draw{buffer, log_between(random, 2 * kFirstBytes, cell.count("largest"))};
               }),
        realloc_kind_(realloc_kind) {}

  template <typename Probe>
  std::uint64_t batch(Probe& probe) {
    for (std::uint64_t i = 0; i < kBatchOps; ++i) {
      const Draw& d = draws_.next();
      Buffer& buffer = buffers_[d.buffer];
      if (!buffer.block || buffer.block.bytes >= buffer.final_bytes) {
        probe.deallocate(memory_, buffer.block);
        buffer = {probe.allocate(memory_, kFirstBytes), d.final_bytes};
      } else {
        grow(probe, buffer);
      }
    }
    return kBatchOps;
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (Buffer& buffer : buffers_) probe.deallocate(memory_, buffer.block);
  }

 private:
  struct Buffer {
    Block block;
    std::uint32_t final_bytes;
  };
  struct Draw {
    std::uint32_t buffer;
    std::uint32_t final_bytes;  // of the buffer that starts there
  };

  std::uint32_t grown(std::uint32_t bytes, std::uint32_t final_bytes) const noexcept {
    const std::uint32_t more = growth_ == Growth::kDouble ? bytes
                               : growth_ == Growth::kHalf ? bytes / 2
                                                          : step_;
    return final_bytes - bytes <= more ? final_bytes : bytes + more;
  }

  template <typename Probe>
  void grow(Probe& probe, Buffer& buffer) {
    const Block old = buffer.block;
    Block next{nullptr, grown(old.bytes, buffer.final_bytes), old.stamp};
    next.address = static_cast<std::byte*>(probe.time(
        realloc_kind_, [&] { return memory_.reallocate(old.address, old.bytes, next.bytes); }));
    if (next.address == nullptr) {  // the old buffer is still valid
      ++probe.worker().failed_allocations;
      return;
    }
    probe.check({next.address, old.bytes, old.stamp});
    extend_stamp(old, next);
    buffer.block = next;
  }

  Memory& memory_;
  Growth growth_;
  std::uint32_t step_;
  OwnMemory<Buffer> buffers_;
  Drawn<Draw, kDrawn> draws_;
  LatencyKind realloc_kind_;
};

template <typename Memory>
concept Resizes = requires(Memory memory, void* p) {
  memory.reallocate(p, 1, 2);
};

void realloc_buffers(Cell& cell) {
  const LatencyKind realloc_kind = cell.add_latency("realloc");
  Needs needs;
  needs.smallest_bytes = kFirstBytes;
  needs.largest_bytes = cell.count("largest");
  needs.threads = cell.threads();
  needs.live_blocks = (cell.count("buffers") + 1) * cell.lanes();
  with_contender<kFits>(cell, needs, [&](auto& memory) {
    if constexpr (Resizes<std::remove_reference_t<decltype(memory)>>) {
      run_batches(cell, [&](Worker& worker) { return Lane(cell, memory, worker, realloc_kind); });
    } else {
      report_unfit("cannot resize a block");
    }
  });
}

const Registration<realloc_buffers> kRealloc({
    .name = "realloc",
    .purpose = "buffers that grow step by step, in each other's way",
    .fits = kFits,
    .options = {Option::choice("growth", "half", {"half", "double", "step"},
                               "by half, by as much again, or by --step bytes"),
                Option::count("step", 256, 1, 1 << 30, "bytes",
                              "size of a step, for growth by steps"),
                Option::count("largest", 1 << 20, 64, 1 << 30, "bytes",
                              "final size of the largest buffers; every power of two up to it is "
                              "equally likely"),
                Option::count("buffers", 16, 1, 1'000'000, "buffers",
                              "buffers per thread that grow at the same time")},
});

}  // namespace
}  // namespace strata::cell
