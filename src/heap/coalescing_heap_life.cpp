#include <strata/coalescing_heap.hpp>
#include <strata/detail/bits.hpp>

#include <utility>

#include "heap/free_block.h"
#include "os/page_source.h"

/// \file  How a coalescing heap starts, moves and ends.

namespace strata {

const char CoalescingHeap::kRefused[] = "CoalescingHeap: the kernel refuses a region of this size";

std::optional<CoalescingHeap> CoalescingHeap::try_create(std::size_t bytes, const char** reason,
                                                         os::PageSource* pages) noexcept {
  if (bytes == 0) return detail::refused("CoalescingHeap: the size of the region is 0", reason);
  if (bytes > kMaxRegionBytes)
    return detail::refused("CoalescingHeap: the region is above 16 GiB", reason);
  const std::size_t page = os::page_bytes();
  bytes = detail::round_up(bytes, page);
  if (pages == nullptr) pages = &os::kernel_pages();
  void* region = pages->map(bytes);
  if (region == nullptr) return detail::refused(kRefused, reason);
  CoalescingHeap heap;
  heap.pages_ = pages;
  heap.adopt_region(region, bytes);
  if (reason != nullptr) *reason = nullptr;
  return heap;
}

std::optional<CoalescingHeap> CoalescingHeap::try_create(void* region, std::size_t bytes,
                                                         const char** reason) noexcept {
  CoalescingHeap heap;
  const bool fits = region != nullptr && heap.adopt_region(region, bytes);
  if (reason != nullptr)
    *reason = fits ? nullptr : "CoalescingHeap: not one block fits into the region";
  if (!fits) return std::nullopt;
  return heap;
}

CoalescingHeap& CoalescingHeap::operator=(CoalescingHeap&& other) noexcept {
  CoalescingHeap taken(std::move(other));
  swap(taken);
  return *this;
}

void CoalescingHeap::swap(CoalescingHeap& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(used_granules_, other.used_granules_);
  std::swap(end_, other.end_);
  std::swap(live_blocks_, other.live_blocks_);
  std::swap(words_, other.words_);
  std::swap(heads_, other.heads_);
  std::swap(pages_, other.pages_);
  std::swap(region_, other.region_);
  std::swap(region_bytes_, other.region_bytes_);
}

CoalescingHeap::~CoalescingHeap() {
  if (pages_ != nullptr) {
    pages_->unmap(region_, region_bytes_);
  } else {
    free_tags();
  }
}

/// Marks the tags of live blocks as free, and leaves all else as it is: otherwise the next heap in
/// the caller's memory would take them for live blocks of its own.
void CoalescingHeap::free_tags() noexcept {
  for (std::uint32_t index = 1; index < end_;) {
    FreeBlock* block = at(index);
    const BlockState state = block->state();
    const std::uint32_t granules = block->granules();
    if (!is_state(state) || granules == 0) return;  // overwritten: where is the next one?
    if (state == BlockState::kLive) block->tag.set_state(granules, BlockState::kFree);
    index += granules;
  }
}

}  // namespace strata
