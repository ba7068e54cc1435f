#include "span/huge_heap.h"
#include <strata/detail/bits.hpp>

#include <algorithm>
#include <cstring>

#include "base/fatal.h"

namespace strata {

HugeHeap::Block HugeHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t rounded = detail::round_up(bytes != 0 ? bytes : 1, os::page_bytes());
  if (rounded < bytes) return {nullptr, false};
  Entry range{};
  {
    LockGuard guard(lock_);
    if (!make_room_in_table()) return {nullptr, false};
    if (take_fitting(rounded, alignment, range)) {
      insert(range);
      return {reinterpret_cast<void*>(range.address), false};
    }
    if (alignment <= os::page_bytes()) take_extendable(rounded, range);
  }
  exchange_idle_for(rounded - range.bytes);
  void* address = nullptr;
  if (range.address != 0) {
    const std::size_t more_bytes = rounded - range.bytes;
    if (page_heap_.limit().try_hold(more_bytes)) {
      address = pages_.remap(reinterpret_cast<void*>(range.address), range.bytes, rounded);
      // The kernel does not move what it keeps as two mappings.
      if (address == nullptr) page_heap_.limit().let_go(more_bytes);
    }
    if (address == nullptr) unmap(range);
  }
  const bool is_zero = address == nullptr;
  if (address == nullptr) address = map(rounded, alignment);
  if (address == nullptr) return {nullptr, false};
  LockGuard guard(lock_);
  if (!insert({reinterpret_cast<std::uintptr_t>(address), rounded})) {
    pages_.unmap(address, rounded);
    page_heap_.limit().let_go(rounded);
    return {nullptr, false};
  }
  return {address, is_zero};
}

bool HugeHeap::deallocate(void* p) noexcept {
  Entry evicted{};
  {
    LockGuard guard(lock_);
    Entry* entry = find(p);
    if (entry == nullptr) return false;
    const Entry range = *entry;
    erase(entry);
    keep(range);
    if (kept_count_ > kMaxKept) evicted = take_oldest(~std::size_t{0});
  }
  if (evicted.address != 0) unmap(evicted);
  return true;
}

std::size_t HugeHeap::usable_bytes(const void* p) noexcept {
  LockGuard guard(lock_);
  const Entry* entry = find(p);
  return entry != nullptr ? entry->bytes : 0;
}

void* HugeHeap::reallocate(void* p, std::size_t bytes) noexcept {
  const std::size_t rounded = detail::round_up(bytes, os::page_bytes());
  if (rounded < bytes) return nullptr;
  const std::size_t old_bytes = usable_bytes(p);
  STRATA_DCHECK(old_bytes != 0);
  if (old_bytes == rounded) return p;
  const std::size_t more_bytes = rounded > old_bytes ? rounded - old_bytes : 0;
  if (more_bytes != 0) exchange_idle_for(more_bytes);
  if (!page_heap_.limit().try_hold(more_bytes)) return nullptr;
  // Under the lock: once the block has moved, the kernel may give its old address to somebody else,
  // and the table must not know it any more. There is room in the table for a block that was in it.
  LockGuard guard(lock_);
  void* moved = pages_.remap(p, old_bytes, rounded);
  if (moved == nullptr) {
    page_heap_.limit().let_go(more_bytes);
    return nullptr;
  }
  if (rounded < old_bytes) page_heap_.limit().let_go(old_bytes - rounded);
  erase(find(p));
  insert({reinterpret_cast<std::uintptr_t>(moved), rounded});
  return moved;
}

std::size_t HugeHeap::release_unneeded() noexcept {
  std::size_t unneeded;
  {
    LockGuard guard(lock_);
    unneeded = least_kept_;
    least_kept_ = kept_bytes() - unneeded;
  }
  return release(unneeded);
}

/// A new mapping, with huge pages if it is large enough for them.
void* HugeHeap::map(std::size_t bytes, std::size_t alignment) noexcept {
  if (!page_heap_.limit().try_hold(bytes)) return nullptr;
  const bool is_huge = huge_pages_ && bytes >= kHugePageFromBytes;
  void* address =
      pages_.map_aligned(bytes, is_huge ? std::max(alignment, kHugePageBytes) : alignment);
  if (address == nullptr) page_heap_.limit().let_go(bytes);
  if (address != nullptr && is_huge) pages_.advise_huge(address, bytes);
  return address;
}

/// \returns  False if the range could not be cut out of its mapping and is kept. Accepted loss:
///           where there is no room to keep it, its addresses are lost.
bool HugeHeap::unmap(Entry range) noexcept {
  const bool is_gone = pages_.unmap(reinterpret_cast<void*>(range.address), range.bytes);
  LockGuard guard(lock_);
  if (!is_gone && kept_count_ < kMaxKept) {
    keep(range);
    return false;
  }
  page_heap_.limit().let_go(range.bytes);
  returned_bytes_ += range.bytes;
  return true;
}

/// Gives back as many idle bytes as new ones are about to be asked for, or all there are.
void HugeHeap::exchange_idle_for(std::size_t bytes) noexcept {
  const std::size_t released = kept_bytes() != 0 ? release(bytes) : 0;
  if (released < bytes && page_heap_.idle_pages() != 0)
    page_heap_.release((bytes - released) / kPageBytes);
}

/// Unmaps kept ranges, those that waited longest first, until `max_bytes` are gone.
std::size_t HugeHeap::release(std::size_t max_bytes) noexcept {
  std::size_t released = 0;
  while (released < max_bytes) {
    Entry range{};
    {
      LockGuard guard(lock_);
      if (kept_count_ != 0)
        range = take_oldest(
            detail::round_up(std::min(max_bytes - released, kept_bytes()), os::page_bytes()));
    }
    // Where the kernel refuses, trying on would not end.
    if (range.address == 0 || !unmap(range)) break;
    released += range.bytes;
  }
  return released;
}

/// Takes the front of the tightest kept range that holds an aligned block.
bool HugeHeap::take_fitting(std::size_t bytes, std::size_t alignment, Entry& out) noexcept {
  KeptRange* best = nullptr;
  for (std::size_t i = 0; i < kept_count_; ++i) {
    KeptRange& range = kept_[i];
    if (range.bytes >= bytes && range.address % alignment == 0 &&
        (best == nullptr || range.bytes < best->bytes)) {
      best = &range;
    }
  }
  if (best == nullptr) return false;
  out = {best->address, bytes};
  best->address += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) forget(*best);
  set_kept_bytes(kept_bytes() - bytes);
  return true;
}

/// Takes the largest kept range, to be extended to `bytes`.
bool HugeHeap::take_extendable(std::size_t bytes, Entry& out) noexcept {
  KeptRange* largest = nullptr;
  for (std::size_t i = 0; i < kept_count_; ++i) {
    if (largest == nullptr || kept_[i].bytes > largest->bytes) largest = &kept_[i];
  }
  if (largest == nullptr || largest->bytes < bytes / kExtendShare) return false;
  out = {largest->address, largest->bytes};
  forget(*largest);
  set_kept_bytes(kept_bytes() - out.bytes);
  return true;
}

/// Takes up to `max_bytes` off the end of the range that waited longest.
/// \pre  there is one
HugeHeap::Entry HugeHeap::take_oldest(std::size_t max_bytes) noexcept {
  KeptRange& oldest = *std::min_element(
      kept_, kept_ + kept_count_,
      [](const KeptRange& a, const KeptRange& b) { return a.freed_at < b.freed_at; });
  const std::size_t bytes = std::min(max_bytes, oldest.bytes);
  oldest.bytes -= bytes;
  const Entry taken{oldest.end(), bytes};
  if (oldest.bytes == 0) forget(oldest);
  set_kept_bytes(kept_bytes() - bytes);
  return taken;
}

/// Puts a range in its place by address, merged with its neighbours.
void HugeHeap::keep(Entry range) noexcept {
  set_kept_bytes(kept_bytes() + range.bytes);
  KeptRange* const end = kept_ + kept_count_;
  KeptRange* next = std::lower_bound(
      kept_, end, range.address,
      [](const KeptRange& a, std::uintptr_t address) { return a.address < address; });
  KeptRange* previous = next != kept_ && (next - 1)->end() == range.address ? next - 1 : nullptr;
  const bool joins_next = next != end && range.address + range.bytes == next->address;
  ++free_clock_;
  if (previous != nullptr) {
    previous->bytes += range.bytes + (joins_next ? next->bytes : 0);
    previous->freed_at = free_clock_;
    if (joins_next) forget(*next);
  } else if (joins_next) {
    *next = {range.address, range.bytes + next->bytes, free_clock_};
  } else {
    std::memmove(next + 1, next, static_cast<std::size_t>(end - next) * sizeof(KeptRange));
    *next = {range.address, range.bytes, free_clock_};
    ++kept_count_;
  }
}

void HugeHeap::forget(KeptRange& range) noexcept {
  std::memmove(&range, &range + 1,
               static_cast<std::size_t>(kept_ + kept_count_ - (&range + 1)) * sizeof(KeptRange));
  --kept_count_;
}

void HugeHeap::set_kept_bytes(std::size_t bytes) noexcept {
  kept_bytes_.store(bytes, std::memory_order_relaxed);
  least_kept_ = std::min(least_kept_, bytes);
}

std::size_t HugeHeap::slot_of(std::uintptr_t address) const noexcept {
  // Fibonacci hashing: addresses are multiples of the OS page, the product's top bits are mixed.
  const std::uint64_t mixed = address * 0x9e3779b97f4a7c15u;
  return static_cast<std::size_t>(mixed >> 32) & (table_entries_ - 1);
}

HugeHeap::Entry* HugeHeap::find(const void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (table_entries_ == 0 || address == 0) return nullptr;
  for (std::size_t i = slot_of(address); table_[i].address != 0;
       i = (i + 1) & (table_entries_ - 1)) {
    if (table_[i].address == address) return &table_[i];
  }
  return nullptr;
}

bool HugeHeap::insert(Entry entry) noexcept {
  if (!make_room_in_table()) return false;
  std::size_t i = slot_of(entry.address);
  while (table_[i].address != 0) i = (i + 1) & (table_entries_ - 1);
  table_[i] = entry;
  ++live_blocks_;
  live_bytes_ += entry.bytes;
  return true;
}

void HugeHeap::erase(Entry* entry) noexcept {
  --live_blocks_;
  live_bytes_ -= entry->bytes;
  // Backward shift: an entry may move into the hole if its own slot is not behind the hole.
  auto hole = static_cast<std::size_t>(entry - table_);
  for (std::size_t i = (hole + 1) & (table_entries_ - 1); table_[i].address != 0;
       i = (i + 1) & (table_entries_ - 1)) {
    const std::size_t home = slot_of(table_[i].address);
    if (((i - home) & (table_entries_ - 1)) >= ((i - hole) & (table_entries_ - 1))) {
      table_[hole] = table_[i];
      hole = i;
    }
  }
  table_[hole] = Entry{};
}

/// Keeps the table at most half full with one more entry; rehashes into one of twice the size.
bool HugeHeap::make_room_in_table() noexcept {
  if (table_entries_ >= 2 * (live_blocks_ + 1)) return true;
  const std::size_t entries = std::max(kFirstTableEntries, table_entries_ * 2);
  auto* table = static_cast<Entry*>(metadata_.allocate(entries * sizeof(Entry)));
  if (table == nullptr) return false;
  std::memset(table, 0, entries * sizeof(Entry));
  Entry* old = table_;
  const std::size_t old_entries = table_entries_;
  table_ = table;
  table_entries_ = entries;
  for (std::size_t k = 0; k < old_entries; ++k) {
    if (old[k].address == 0) continue;
    std::size_t i = slot_of(old[k].address);
    while (table_[i].address != 0) i = (i + 1) & (table_entries_ - 1);
    table_[i] = old[k];
  }
  if (old != nullptr) metadata_.deallocate(old, old_entries * sizeof(Entry));
  return true;
}

HugeHeap::Statistics HugeHeap::statistics() noexcept {
  LockGuard guard(lock_);
  return {live_blocks_, live_bytes_, kept_bytes(), returned_bytes_};
}

void HugeHeap::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t blocks = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < table_entries_; ++i) {
    if (table_[i].address == 0) continue;
    ++blocks;
    bytes += table_[i].bytes;
    STRATA_INVARIANT(find(reinterpret_cast<void*>(table_[i].address)) == &table_[i],
                     "a huge block cannot be found in its table");
  }
  STRATA_INVARIANT(blocks == live_blocks_, "huge blocks are miscounted");
  STRATA_INVARIANT(bytes == live_bytes_, "bytes of huge blocks are miscounted");
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kept_count_; ++i) {
    kept += kept_[i].bytes;
    STRATA_INVARIANT(i == 0 || kept_[i - 1].end() < kept_[i].address,
                     "kept ranges touch or are out of order");
  }
  STRATA_INVARIANT(kept == kept_bytes(), "kept bytes are miscounted");
}

}  // namespace strata
