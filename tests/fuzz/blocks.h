#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/shadow_test.h"
#include "choices.h"

/// \file  The model that an allocator is compared with: which blocks are live, and their contents.

namespace strata::fuzz {

/// A failed EXPECT or ASSERT stops the target on the spot. libFuzzer calls this at its start. A
/// static initializer might run before that of the flag, which would clear the flag again.
extern "C" [[gnu::used]] inline int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  GTEST_FLAG_SET(break_on_failure, true);
  return 0;
}

/// Live blocks of one allocator. Each block it hands out must be aligned and overlap no other, and
/// must have its contents when it is freed.
class Blocks {
 public:
  Blocks() { require(GTEST_FLAG_GET(break_on_failure), "a failed expectation stops the target"); }

  bool is_empty() const { return blocks_.empty(); }
  std::size_t count() const { return blocks_.size(); }
  const std::vector<Block>& all() const { return blocks_; }

  /// \param usable  so many bytes nobody else may have; at least the requested ones
  void add(void* p, std::size_t bytes, std::size_t usable, std::size_t alignment) {
    require(usable >= bytes, "a block has the bytes that were asked for");
    require(reinterpret_cast<std::uintptr_t>(p) % alignment == 0, "a block is aligned");
    shadow_.add(p, usable);
    blocks_.push_back({static_cast<unsigned char*>(p), bytes, ++last_tag_});
    write_content(blocks_.back());
  }

  /// Takes a block out of the model and verifies its contents. There must be one.
  Block take(Choices& choices) {
    const std::size_t index = choices.below(blocks_.size());
    const Block block = blocks_[index];
    require(has_content(block, block.bytes), "a live block keeps its content");
    shadow_.remove(block.address);
    blocks_[index] = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  /// Puts back a block that was taken out and is live after all.
  void put_back(const Block& block, std::size_t usable) {
    shadow_.add(block.address, usable);
    blocks_.push_back(block);
  }

  /// Resizes a live block to `bytes`, by a realloc whose blocks are aligned to 16 bytes.
  /// \param reallocate   `void*(void* address)`; returns nullptr if the block stays as it is
  /// \param usable_size  `std::size_t(void* address)`
  template <typename Reallocate, typename UsableSize>
  void reallocate(Choices& choices, std::size_t bytes, Reallocate&& reallocate,
                  UsableSize&& usable_size) {
    const Block block = take(choices);
    void* const p = reallocate(block.address);
    if (p == nullptr) return put_back(block, usable_size(block.address));
    Block moved = block;
    moved.address = static_cast<unsigned char*>(p);
    require(has_content(moved, std::min(block.bytes, bytes)), "realloc keeps the content");
    add(p, bytes, usable_size(p), 16);
  }

  void forget_all() {
    shadow_.clear();
    blocks_.clear();
  }

 private:
  Shadow shadow_;
  std::vector<Block> blocks_;
  std::uint64_t last_tag_ = 0;
};

}  // namespace strata::fuzz
