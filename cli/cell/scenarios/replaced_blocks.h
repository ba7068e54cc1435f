#pragma once

#include "harness/own_memory.h"
#include "harness/probe.h"
#include "scenarios/draw.h"

namespace strata::cell {

/// A thread's table of blocks, in which random blocks are replaced by new ones of random sizes.
template <typename Memory, std::size_t kDrawn>
class ReplacedBlocks {
 public:
  /// \param draw_bytes  draw_bytes(random) returns a size
  template <typename DrawBytes>
  ReplacedBlocks(Memory& memory, std::size_t count, std::uint64_t seed, DrawBytes draw_bytes)
      : memory_(memory), blocks_(count), draws_(seed, [&](std::mt19937_64& random) {
          const std::uint32_t place = between(random, 0, count - 1);
          return Draw{place, draw_bytes(random)};
        }) {}

  template <typename Probe>
  void replace(Probe& probe, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const Draw& draw = draws_.next();
      probe.deallocate(memory_, blocks_[draw.place]);
      blocks_[draw.place] = probe.allocate(memory_, draw.bytes);
    }
  }

  template <typename Probe>
  void drain(Probe& probe) {
    for (Block& block : blocks_) probe.deallocate(memory_, block);
  }

 private:
  struct Draw {
    std::uint32_t place;
    std::uint32_t bytes;
  };

  Memory& memory_;
  OwnMemory<Block> blocks_;
  Drawn<Draw, kDrawn> draws_;
};

}  // namespace strata::cell
