#include "heap/shared_heap.h"

#include <algorithm>

#include "heap/free_block.h"

namespace strata {

/// Under the lock, of a block that was just placed or resized.
void SharedHeap::count_placed(const void* block) noexcept {
  placed_bytes_.add(user_bytes(BlockTag::of(block)->load_size() >> 1));
  note_peak();
  touched_bytes_ = std::max(touched_bytes_, bytes_in_use());
}

void* SharedHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  LockGuard guard(lock_);
  take_in();
  void* block = carve(bytes, alignment);
  if (block != nullptr) count_placed(block);
  return block;
}

void SharedHeap::deallocate(HeapArena& arena, void* block, std::uint32_t granules) noexcept {
  if (!lock_.try_lock()) {
    BlockTag::of(block)->set_state(granules, BlockState::kTravelling);
    receive(FreedBlock::in(block), FreedBlock::in(block));
    return;
  }
  freed_bytes_.add(user_bytes(granules));
  deallocate_into(arena, block);
  lock_.unlock();
}

bool SharedHeap::resize(HeapArena& arena, void* block, std::size_t bytes) noexcept {
  LockGuard guard(lock_);
  const std::size_t held = user_bytes(granules_of_live(arena, block));
  if (!arena.blocks.resize_in_place(block, bytes)) return false;
  freed_bytes_.add(held);
  count_placed(block);
  note_dirty();
  return true;
}

void SharedHeap::shed_half() noexcept {
  LockGuard guard(lock_);
  take_in();
  const std::size_t in_use = bytes_in_use();
  if (touched_bytes_ < kWorthShedding || in_use > touched_bytes_ / 2) return;
  shed(kKept);
  touched_bytes_ = in_use;
}

}  // namespace strata
