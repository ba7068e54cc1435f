// BlockAllocator in a buffer of any size and place, or on an arena.
#include <strata/block_allocator.hpp>

#include <memory>
#include <optional>

#include "shelf.h"

namespace {

using namespace strata;
using fuzz::require;

struct Shelf {
  BlockAllocator blocks;

  void allocate(fuzz::Choices&, fuzz::Blocks& model) {
    void* const p = blocks.allocate();
    require((p == nullptr) == (model.count() == blocks.capacity()), "full means full");
    if (p == nullptr) return;
    require(blocks.owns(p), "an allocator owns its blocks");
    model.add(p, blocks.block_bytes(), blocks.stride_bytes(), blocks.alignment());
    require(blocks.in_use() == model.count(), "blocks in use are counted");
  }
  void deallocate(const Block& block) { blocks.deallocate(block.address); }
  void step(fuzz::Choices& choices, fuzz::Blocks& model) {
    switch (choices.below(4)) {
      case 0:
        blocks.reset();
        return model.forget_all();
      case 1: {
        BlockAllocator other = std::move(blocks);
        require(blocks.allocate() == nullptr, "a moved allocator is empty");
        blocks = std::move(other);
        return;
      }
      case 2:
        return blocks.deallocate(nullptr);
      default:
        blocks.check_invariants();
    }
  }
};

}  // namespace

STRATA_FUZZ(choices) {
  const std::size_t block_bytes = choices.size(5000);
  const std::size_t alignment = choices.flag() ? choices.alignment(13) : choices.size(300);
  const std::size_t size = choices.size(100'000);
  const char* reason = nullptr;
  if (choices.flag()) {
    PageArena arena(std::size_t{1} << 20);
    auto made = BlockAllocator::try_create(arena, block_bytes, size, alignment, &reason);
    require(made.has_value() == (reason == nullptr), "no allocator has a reason");
    if (made) fuzz::exercise(choices, Shelf{*std::move(made)});
    return;
  }
  const std::size_t shift = choices.below(64);
  const std::size_t whole = size > 200'000 ? 200'000 : size;
  const std::unique_ptr<char[]> buffer(new char[whole + shift]);
  auto made =
      BlockAllocator::try_create(buffer.get() + shift, whole, block_bytes, alignment, &reason);
  require(made.has_value() == (reason == nullptr), "no allocator has a reason");
  if (made) {
    const std::size_t needed =
        BlockAllocator::buffer_bytes(block_bytes, made->capacity(), alignment);
    require(needed < whole + alignment + 16, "buffer_bytes() asks for no more than needed");
    fuzz::exercise(choices, Shelf{*std::move(made)});
  } else {
    const std::size_t needed = BlockAllocator::buffer_bytes(block_bytes, 1, alignment);
    require(needed == 0 || needed > whole, "a buffer of buffer_bytes() is enough");
  }
}
