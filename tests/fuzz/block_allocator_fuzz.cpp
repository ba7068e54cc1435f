// BlockAllocator in a buffer of any size and place, or on an arena, and GrowingBlockAllocator.
#include <strata/block_allocator.hpp>
#include <strata/growing_block_allocator.hpp>

#include <memory>
#include <optional>
#include <type_traits>

#include "shelf.h"

namespace {

using namespace strata;
using fuzz::require;

template <typename Allocator>
struct Shelf {
  Allocator blocks;
  PageArena* arena = nullptr;  // of what grows
  static constexpr bool kHasCapacity = std::is_same_v<Allocator, BlockAllocator>;

  std::size_t capacity() const {
    if constexpr (kHasCapacity)
      return blocks.capacity();
    else
      return (blocks.pages() + arena->available_pages()) * blocks.blocks_per_page();
  }
  std::size_t usable_bytes() const {
    if constexpr (kHasCapacity)
      return blocks.stride_bytes();
    else
      return blocks.block_bytes();
  }
  void allocate(fuzz::Choices&, fuzz::Blocks& model) {
    const std::size_t most = capacity();
    void* const p = blocks.allocate();
    require((p == nullptr) == (model.count() == most), "full means full");
    if (p == nullptr) return;
    require(blocks.owns(p), "an allocator owns its blocks");
    model.add(p, blocks.block_bytes(), usable_bytes(), blocks.alignment());
    require(blocks.in_use() == model.count(), "blocks in use are counted");
  }
  void deallocate(const Block& block) { blocks.deallocate(block.address); }
  void step(fuzz::Choices& choices, fuzz::Blocks& model) {
    switch (choices.below(4)) {
      case 0:
        blocks.reset();
        return model.forget_all();
      case 1: {
        Allocator other = std::move(blocks);
        require(blocks.in_use() == 0 && other.in_use() == model.count(), "the blocks move along");
        if constexpr (kHasCapacity)
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
    if (choices.flag()) {
      auto growing = GrowingBlockAllocator::try_create(arena, block_bytes, alignment, &reason);
      require(growing.has_value() == (reason == nullptr), "no allocator has a reason");
      if (growing)
        fuzz::exercise(choices, Shelf<GrowingBlockAllocator>{*std::move(growing), &arena});
      return;
    }
    auto made = BlockAllocator::try_create(arena, block_bytes, size, alignment, &reason);
    require(made.has_value() == (reason == nullptr), "no allocator has a reason");
    if (made) fuzz::exercise(choices, Shelf<BlockAllocator>{*std::move(made)});
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
    fuzz::exercise(choices, Shelf<BlockAllocator>{*std::move(made)});
  } else {
    const std::size_t needed = BlockAllocator::buffer_bytes(block_bytes, 1, alignment);
    require(needed == 0 || needed > whole, "a buffer of buffer_bytes() is enough");
  }
}
