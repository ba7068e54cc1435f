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
  if (free_[index] != nullptr) return take_free(index);
  if (void* const fresh = take_fresh(rounded)) return fresh;
  if (void* const part = take_free(index)) return part;
  if (freed_ < free_blocks_ / kJoinShare + 1) return nullptr;
  join_free();
  return take_free(index);
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
  free_blocks_ = 0;
  freed_ = 0;
}

/// Takes the smallest free block of at least this size, and frees what is too much.
void* MetadataArena::take_free(int index) noexcept {
  int larger = index;
  while (larger < kSizes && free_[larger] == nullptr) ++larger;
  if (larger == kSizes) return nullptr;
  FreeBlock* const block = free_[larger];
  free_[larger] = block->next;
  --free_blocks_;
  const std::size_t bytes = kMinBytes << index;
  push_free(reinterpret_cast<char*>(block) + bytes, (kMinBytes << larger) - bytes);
  return block;
}

/// Puts memory on the free lists, in as few blocks as there can be.
void MetadataArena::push_free(void* memory, std::size_t bytes) noexcept {
  auto* at = static_cast<char*>(memory);
  while (bytes != 0) {
    const std::size_t part = std::min(std::bit_floor(bytes), kMinBytes << (kSizes - 1));
    FreeBlock*& list = free_[size_index(part)];
    list = new (at) FreeBlock{list, part};
    ++free_blocks_;
    at += part;
    bytes -= part;
  }
}

/// Makes one of all free blocks that follow each other. Those of two chunks never do.
void MetadataArena::join_free() noexcept {
  FreeBlock* all = nullptr;
  for (FreeBlock*& list : free_) {
    while (FreeBlock* const block = list) {
      list = block->next;
      block->next = all;
      all = block;
    }
  }
  all = sort(all);
  free_blocks_ = 0;
  while (FreeBlock* const first = all) {
    char* const start = reinterpret_cast<char*>(first);
    char* end = start;
    while (all != nullptr && reinterpret_cast<char*>(all) == end) {
      end += all->bytes;
      all = all->next;
    }
    push_free(start, static_cast<std::size_t>(end - start));
  }
  freed_ = 0;
}

MetadataArena::FreeBlock* MetadataArena::merge(FreeBlock* one, FreeBlock* other) noexcept {
  FreeBlock* merged = nullptr;
  FreeBlock** end = &merged;
  while (one != nullptr && other != nullptr) {
    FreeBlock*& lower = one < other ? one : other;
    *end = lower;
    end = &lower->next;
    lower = lower->next;
  }
  *end = one != nullptr ? one : other;
  return merged;
}

/// By address.
MetadataArena::FreeBlock* MetadataArena::sort(FreeBlock* blocks) noexcept {
  FreeBlock* runs[64] = {};  // of 2^n blocks each, sorted
  while (blocks != nullptr) {
    FreeBlock* run = blocks;
    blocks = run->next;
    run->next = nullptr;
    FreeBlock** place = runs;
    for (; *place != nullptr; *place++ = nullptr) run = merge(*place, run);
    *place = run;
  }
  FreeBlock* sorted = nullptr;
  for (FreeBlock* const run : runs) sorted = merge(sorted, run);
  return sorted;
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
  push_free(memory, kMinBytes << index);
  ++freed_;
}

}  // namespace strata
