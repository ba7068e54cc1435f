#pragma once

#include <strata/bitmap_pool_view.hpp>

#include <algorithm>

#include "contenders/needs.h"
#include "harness/own_memory.h"

namespace strata::cell {

/// A BitmapPool in its own memory, with the blocks that the load needs and some spare. allocate()
/// tries twice: a concurrent search may find each block taken at some instant, and a preempted one
/// may do so wherever others free and allocate in turns (docs/bitmap-pool.md).
class BitmapPoolMemory {
 public:
  static constexpr const char* kName = "bitmap-pool";
  static constexpr const char* kSentence = "strata::BitmapPool: lock-free blocks of one size";

  static const char* why_unfit(const Needs& needs) { return needs.why_not_one_size(); }

  explicit BitmapPoolMemory(const Needs& needs)
      : BitmapPoolMemory(BitmapPoolShape{
            .block_bytes = needs.largest_bytes,
            .capacity = needs.live_blocks + headroom(needs),
            .min_leaves = std::max<std::size_t>(8, static_cast<std::size_t>(needs.threads))}) {}
  explicit BitmapPoolMemory(const BitmapPoolShape& shape)
      : shape_(shape),
        memory_(BitmapPoolView<>::required_bytes(shape_)),
        pool_(BitmapPoolView<>::try_create_in_zeroed(memory_.data(), memory_.size(), shape_)) {}

  void* allocate(std::size_t) noexcept {
    void* const p = pool_.allocate();
    return p != nullptr ? p : pool_.allocate();
  }
  void deallocate(void* p, std::size_t) noexcept { pool_.deallocate(p); }

 private:
  static std::size_t headroom(const Needs& needs) {
    constexpr std::size_t kForEachThread = 64;  // a word of the bitmap
    return needs.threads > 1 ? kForEachThread * static_cast<std::size_t>(needs.threads) : 0;
  }

  BitmapPoolShape shape_;
  OwnMemory<std::byte, Owner::kContender> memory_;
  BitmapPoolView<> pool_;
};

}  // namespace strata::cell
