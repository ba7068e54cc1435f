#include "base/metadata_arena.h"

#include <bit>

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
  return take_fresh((bytes + kMinBytes - 1) / kMinBytes * kMinBytes);
}

/// The next bytes of the newest chunk, or of a new one: never used, so that they read as zero.
void* MetadataArena::take_fresh(std::size_t bytes) noexcept {
  if (bytes > fresh_bytes_) {
    const std::size_t chunk = bytes > kChunkBytes ? bytes : kChunkBytes;
    auto* memory = static_cast<char*>(pages_.map(chunk));
    if (memory == nullptr) return nullptr;
    mapped_bytes_.fetch_add(chunk, std::memory_order_relaxed);
    if (bytes == chunk) return memory;
    fresh_ = memory;  // the old rest is smaller than one request: accepted loss, never touched
    fresh_bytes_ = chunk;
  }
  void* memory = fresh_;
  fresh_ += bytes;
  fresh_bytes_ -= bytes;
  return memory;
}

/// The first of the smallest free block that is larger; its rest is free in parts.
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
  LockGuard guard(lock_);
  auto* block = static_cast<FreeBlock*>(memory);
  block->next = free_[index];
  free_[index] = block;
}

}  // namespace strata
