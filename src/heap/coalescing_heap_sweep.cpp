#include <strata/coalescing_heap.hpp>
#include <strata/detail/bits.hpp>

#include "base/fatal.h"
#include "heap/free_block.h"
#include "heap/size_bins.h"
#include "os/page_source.h"

/// \file  What visits many blocks of a coalescing heap: the walk, the return of pages, the check.

namespace strata {

std::uint32_t CoalescingHeap::next_block(std::uint32_t index, Block& block) const noexcept {
  index = index == 0 ? 1 : index + at(index)->granules();
  if (index >= end_) return 0;
  FreeBlock* here = at(index);
  const BlockState state = here->state();
  // A size that is not true would lead out of the region, or nowhere for ever.
  if (!is_state(state)) die_of_overflow(&here->tag);
  block = {here->user(), user_bytes(here->granules()), is_free(state)};
  return index;
}

std::size_t CoalescingHeap::trim() noexcept {
  if (pages_ == nullptr) return 0;
  Sweep sweep{.counts_memory = true};
  sweep_from(first_paged_bin(), *pages_, sweep);
  return sweep.returned_bytes;
}

std::uint32_t CoalescingHeap::first_paged_bin() noexcept {
  return size_bins::bin_of(static_cast<std::uint32_t>(os::page_bytes() / kGranuleBytes));
}

/// Returns the whole OS pages inside the free blocks of a bin and of all above it.
void CoalescingHeap::sweep_from(std::uint32_t bin, os::PageSource& pages, Sweep& sweep) noexcept {
  for (; bin < kBins; ++bin) sweep_bin(bin, pages, sweep);
}

void CoalescingHeap::sweep_bin(std::uint32_t bin, os::PageSource& pages, Sweep& sweep) noexcept {
  const std::size_t page = os::page_bytes();
  for (std::uint32_t index = heads_[bin]; index != 0; index = at(index)->next) {
    FreeBlock* block = at(index);
    const std::uint32_t granules = block->granules();
    const BlockState state = block->state();
    if (!is_free(state)) die_of_overflow(&block->tag);
    if (block->next >= end_) die_of_write_after_free(&block->tag);
    if (state == BlockState::kDecommitted) continue;
    const auto inside = reinterpret_cast<std::uintptr_t>(block + 1) + sweep.kept_bytes;
    const auto behind = reinterpret_cast<std::uintptr_t>(&at(index + granules)->size_of_previous());
    const std::uintptr_t first = detail::round_up(inside, page);
    const std::uintptr_t last = detail::round_down(behind, page);
    if (first >= last) continue;
    if (sweep.ages_first && state == BlockState::kFree) {
      block->tag.set_state(granules, BlockState::kAged);
      sweep.is_young = true;
      continue;
    }
    auto* start = reinterpret_cast<void*>(first);
    const std::size_t held = sweep.counts_memory ? os::resident_bytes_in(start, last - first) : 0;
    if (!pages.decommit(start, last - first)) continue;
    if (sweep.kept_bytes == 0) block->tag.set_state(granules, BlockState::kDecommitted);
    sweep.has_returned = true;
    sweep.returned_bytes += held;
  }
}

/// The start of the free block at the end of the region, or the end.
const char* CoalescingHeap::last_used() const noexcept {
  FreeBlock* end = at(end_);
  const std::uint32_t free = end->has_free_previous() ? end->size_of_previous() : 0;
  if (free >= end_) die_of_write_after_free(&end->tag);
  return reinterpret_cast<const char*>(at(end_ - free));
}

void CoalescingHeap::check_invariants() const noexcept {
  std::size_t used = 0;
  std::size_t live = 0;
  std::size_t free = 0;
  bool previous_is_free = false;
  std::uint32_t index = 1;
  for (; index < end_; index += at(index)->granules()) {
    const FreeBlock* block = at(index);
    const std::uint32_t granules = block->granules();
    STRATA_INVARIANT(is_state(block->state()), "a heap's tag is broken");
    STRATA_INVARIANT(granules >= kMinBlockBytes / kGranuleBytes && granules <= end_ - index,
                     "a heap's block has no possible size");
    STRATA_INVARIANT(block->has_free_previous() == previous_is_free,
                     "a heap's block is wrong about the block in front");
    const bool block_is_free = is_free(block->state());
    STRATA_INVARIANT(!(block_is_free && previous_is_free), "two free neighbours were not merged");
    if (block_is_free) {
      STRATA_INVARIANT(at(index + granules)->size_of_previous() == granules,
                       "a free block has another size at its end");
      ++free;
    } else {
      used += granules;
      ++live;
    }
    previous_is_free = block_is_free;
  }
  STRATA_INVARIANT(index == end_, "the blocks of a heap do not fill its region");
  STRATA_INVARIANT(used == used_granules_, "a heap miscounts its used bytes");
  STRATA_INVARIANT(live == live_blocks_, "a heap miscounts its live blocks");
  if (end_ > 1) {
    STRATA_INVARIANT(at(end_)->state() == kEndState && at(end_)->granules() == 0,
                     "a heap's end tag is broken");
    STRATA_INVARIANT(at(end_)->has_free_previous() == previous_is_free,
                     "a heap's end tag is wrong about the block in front");
  }
  std::size_t listed = 0;
  for (std::uint32_t number = 0; number < kBins; ++number) {
    const bool bit = (words_[number / 64] >> (number % 64) & 1) != 0;
    STRATA_INVARIANT(bit == (heads_[number] != 0), "a bin's bit is wrong");
    std::uint32_t previous = 0;
    for (std::uint32_t one = heads_[number]; one != 0; one = at(one)->next) {
      const FreeBlock* block = at(one);
      STRATA_INVARIANT(is_free(block->state()), "a bin lists a live block");
      STRATA_INVARIANT(size_bins::bin_of(block->granules()) == number,
                       "a free block is in another size's bin");
      STRATA_INVARIANT(previous == 0 || block->previous == previous, "a bin's list is broken");
      previous = one;
      ++listed;
      STRATA_INVARIANT(listed <= free, "the bins list more than the free blocks");
    }
  }
  STRATA_INVARIANT(listed == free, "the bins do not list every free block");
}

}  // namespace strata
