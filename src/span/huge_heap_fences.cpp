// Huge blocks under full checks. A block has addresses of its own, with a fence on both sides: an
// access there is a fault, and so is one to the block after it was freed.

#include "span/huge_heap.h"

namespace strata {

bool HugeHeap::fences(std::size_t bytes) noexcept {
  if (!has_fences_) return false;
  LockGuard guard(lock_);
  return bytes > kAlwaysFencedBytes || live_.size() < kMostFenced;
}

HugeHeap::Block HugeHeap::allocate_fenced(std::size_t bytes, std::size_t alignment) noexcept {
  {
    LockGuard guard(lock_);
    if (!live_.make_room()) return {nullptr, false};
  }
  if (page_heap_.idle_pages() != 0) page_heap_.decommit(bytes / kPageBytes);
  if (!page_heap_.limit().try_hold(bytes)) return {nullptr, false};
  void* address = map_fenced(bytes, alignment);
  if (address == nullptr) {
    forget_waiting();
    address = map_fenced(bytes, alignment);
  }
  if (address != nullptr) {
    LockGuard guard(lock_);
    if (insert(address, bytes)) return {address, true};
  }
  if (address != nullptr) unmap_fenced({reinterpret_cast<std::uintptr_t>(address), bytes});
  page_heap_.limit().let_go(bytes);
  return {nullptr, false};
}

/// A block that can be accessed, between two fences that cannot.
void* HugeHeap::map_fenced(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t surplus = alignment > os::page_bytes() ? alignment : 0;
  std::size_t whole;
  if (__builtin_add_overflow(bytes, 2 * kFenceBytes + surplus, &whole)) return nullptr;
  auto* const reserved = static_cast<char*>(pages_.reserve(whole));
  if (reserved == nullptr) return nullptr;
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(reserved) + kFenceBytes;
  const std::size_t before = surplus != 0 ? (~first + 1) & (alignment - 1) : 0;
  if (before != 0) pages_.unmap(reserved, before);
  char* const block = reserved + before + kFenceBytes;
  if (before != surplus) pages_.unmap(block + bytes + kFenceBytes, surplus - before);
  if (pages_.commit(block, bytes)) return block;
  unmap_fenced({reinterpret_cast<std::uintptr_t>(block), bytes});
  return nullptr;
}

/// The block was freed: its memory goes back, and its addresses wait.
void HugeHeap::wait(Range range) noexcept {
  void* const block = reinterpret_cast<void*>(range.address);
  page_heap_.limit().let_go(range.bytes);
  const bool is_fenced = pages_.protect(block, range.bytes);
  if (!is_fenced) unmap_fenced(range);
  Range oldest{};
  {
    LockGuard guard(lock_);
    unmapped_bytes_ += range.bytes;
    if (is_fenced) {
      Range& place = waiting_[waits_++ % kMostWaiting];
      waiting_bytes_ += range.bytes - place.bytes;
      oldest = place;
      place = range;
    }
  }
  unmap_fenced(oldest);
}

void HugeHeap::forget_waiting() noexcept {
  for (std::size_t i = 0; i < kMostWaiting; ++i) {
    Range range{};
    {
      LockGuard guard(lock_);
      range = waiting_[i];
      waiting_[i] = {};
      waiting_bytes_ -= range.bytes;
    }
    unmap_fenced(range);
  }
}

}  // namespace strata
