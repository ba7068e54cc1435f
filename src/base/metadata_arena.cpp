#include "base/metadata_arena.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <bit>
#include <new>

#include "base/fatal.h"

namespace strata {
namespace {

int size_index(std::size_t bytes) noexcept {
  return bytes <= MetadataArena::kMinBytes
             ? 0
             : static_cast<int>(std::bit_width(bytes - 1)) -
                   static_cast<int>(std::bit_width(MetadataArena::kMinBytes - 1));
}

}  // namespace

void* MetadataArena::allocate(std::size_t bytes) noexcept {
  const int index = size_index(bytes);
  if (index >= kSizes) return nullptr;
  const std::size_t rounded = kMinBytes << index;
  LockGuard guard(lock_);
  if (FreeBlock* block = free_[index]) {
    free_[index] = block->next;
    return block;
  }
  void* const memory = take_fresh(rounded);
  return memory != nullptr ? memory : split_larger(index);
}

void* MetadataArena::allocate_forever(std::size_t bytes) noexcept {
  LockGuard guard(lock_);
  return take_fresh(detail::round_up(bytes, kMinBytes));
}

/// Takes the next bytes of the newest chunk, or of a new one: never used, so they read as zero.
void* MetadataArena::take_fresh(std::size_t bytes) noexcept {
  if (bytes > fresh_bytes_) {
    std::size_t chunk_bytes = next_chunk_bytes();
    const bool is_long = chunk_bytes > chunk_bytes_ && bytes < chunk_bytes &&
                         (limit_ == nullptr || limit_->has_room(chunk_bytes));
    char* memory = is_long ? map_chunk(chunk_bytes) : nullptr;
    // Where a long one is refused there may be room for a short one.
    if (memory == nullptr) {
      chunk_bytes = chunk_bytes_;
      const bool is_usual = bytes < chunk_bytes - link_bytes_;
      memory = map_chunk(is_usual ? chunk_bytes
                                  : detail::round_up(link_bytes_ + bytes, os::page_bytes()));
      if (memory == nullptr || !is_usual) return memory;
    }
    fresh_ = memory;  // the old rest is smaller than one request: accepted loss, never touched
    fresh_bytes_ = chunk_bytes - link_bytes_;
  }
  void* memory = fresh_;
  fresh_ += bytes;
  fresh_bytes_ -= bytes;
  return memory;
}

std::size_t MetadataArena::next_chunk_bytes() const noexcept {
  if (link_bytes_ != 0) return chunk_bytes_;
  return std::clamp(mapped_bytes() / kGrowthShare / chunk_bytes_ * chunk_bytes_, chunk_bytes_,
                    kMostChunkBytes);
}

/// Maps a chunk.
/// \returns  What follows its link, nullptr when out of memory.
char* MetadataArena::map_chunk(std::size_t bytes) noexcept {
  // Held first: no such request is too much for a machine (HugeHeap::map_in_exchange).
  if (limit_ != nullptr && !limit_->try_hold(bytes)) return nullptr;
  void* const mapped = link_bytes_ == 0 ? pages_.map_apart(bytes) : pages_.map(bytes);
  auto* const memory = static_cast<char*>(mapped);
  if (memory == nullptr) {
    if (limit_ != nullptr) limit_->take_back(bytes);
    return nullptr;
  }
  mapped_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (link_bytes_ != 0) chunks_ = new (memory) Chunk{chunks_, bytes};
  return memory + link_bytes_;
}

void MetadataArena::discard() noexcept {
  STRATA_DCHECK(link_bytes_ != 0);
  LockGuard guard(lock_);
  while (Chunk* const chunk = chunks_) {
    const std::size_t bytes = chunk->bytes;
    chunks_ = chunk->next;
    pages_.unmap(chunk, bytes);
  }
  if (limit_ != nullptr) limit_->let_go(mapped_bytes());
  mapped_bytes_.store(0, std::memory_order_relaxed);
  fresh_bytes_ = 0;
  for (FreeBlock*& list : free_) list = nullptr;
}

/// Takes the front of the smallest larger free block, and frees the rest in parts.
void* MetadataArena::split_larger(int index) noexcept {
  int larger = index + 1;
  while (larger < kSizes && free_[larger] == nullptr) ++larger;
  if (larger >= kSizes) return nullptr;
  FreeBlock* const block = free_[larger];
  free_[larger] = block->next;
  while (larger > index) {
    --larger;
    auto* const half =
        reinterpret_cast<FreeBlock*>(reinterpret_cast<char*>(block) + (kMinBytes << larger));
    half->next = free_[larger];
    free_[larger] = half;
  }
  return block;
}

void MetadataArena::deallocate(void* memory, std::size_t bytes) noexcept {
  const int index = size_index(bytes);
  STRATA_DCHECK(memory != nullptr && index < kSizes);
  if (bytes >= kLargeBytes) {
    // All but its first OS page, where its link will be. If the kernel refuses, it stays.
    const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t first = detail::round_up(start + sizeof(FreeBlock), os::page_bytes());
    const std::uintptr_t end = detail::round_down(start + (kMinBytes << index), os::page_bytes());
    if (first < end) pages_.decommit(reinterpret_cast<void*>(first), end - first);
  }
  LockGuard guard(lock_);
  auto* block = static_cast<FreeBlock*>(memory);
  block->next = free_[index];
  free_[index] = block;
}

}  // namespace strata
