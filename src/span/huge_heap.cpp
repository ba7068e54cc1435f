#include "span/huge_heap.h"

#include <algorithm>
#include <cstring>

#include "base/fatal.h"

namespace strata {
namespace {

std::size_t round_to_os_pages(std::size_t bytes) noexcept {
  return (bytes + os::page_bytes() - 1) & ~(os::page_bytes() - 1);
}

}  // namespace

HugeHeap::Block HugeHeap::allocate(std::size_t bytes, std::size_t alignment) noexcept {
  const std::size_t rounded = round_to_os_pages(bytes);
  if (rounded < bytes) return {nullptr, false};
  {
    LockGuard guard(lock_);
    if (!make_room_in_table()) return {nullptr, false};
    const Block block = take_kept(rounded, alignment);
    if (block.address != nullptr) return block;
  }
  // Nothing kept fits: make room under the process's own peak first.
  {
    LockGuard guard(lock_);
    const std::size_t wanted = live_bytes_ + rounded + kept_bytes();
    const std::size_t surplus = wanted > peak_live_bytes_ ? wanted - peak_live_bytes_ : 0;
    if (surplus != 0 && kept_count_ != 0) {
      lock_.unlock();
      release(surplus);
      lock_.lock();
    }
  }
  const bool is_huge = huge_pages_ && rounded >= kHugePageFromBytes;
  void* address =
      pages_.map_aligned(rounded, std::max(alignment, is_huge ? kHugePageBytes : alignment));
  if (address == nullptr && release_all() != 0) address = pages_.map_aligned(rounded, alignment);
  if (address == nullptr) return {nullptr, false};
  if (is_huge) pages_.advise_huge(address, rounded);
  LockGuard guard(lock_);
  if (!insert({reinterpret_cast<std::uintptr_t>(address), rounded})) {
    pages_.unmap(address, rounded);
    return {nullptr, false};
  }
  return {address, true};
}

bool HugeHeap::deallocate(void* p) noexcept {
  Entry evicted{};
  {
    LockGuard guard(lock_);
    Entry* entry = find(p);
    if (entry == nullptr) return false;
    const Entry mapping = *entry;
    erase(entry);
    if (kept_count_ == kMaxKept) {
      evicted = kept_[0];
      std::memmove(kept_, kept_ + 1, --kept_count_ * sizeof(Entry));
      set_kept_bytes(kept_bytes() - evicted.bytes);
    }
    keep(mapping);
  }
  if (evicted.address != 0) pages_.unmap(reinterpret_cast<void*>(evicted.address), evicted.bytes);
  return true;
}

std::size_t HugeHeap::usable_bytes(const void* p) noexcept {
  LockGuard guard(lock_);
  const Entry* entry = find(p);
  return entry != nullptr ? entry->bytes : 0;
}

void* HugeHeap::reallocate(void* p, std::size_t bytes) noexcept {
  const std::size_t rounded = round_to_os_pages(bytes);
  if (rounded < bytes) return nullptr;
  Entry old;
  {
    LockGuard guard(lock_);
    Entry* entry = find(p);
    STRATA_DCHECK(entry != nullptr);
    old = *entry;
    if (old.bytes == rounded) return p;
    // Out of the table first: the kernel may give the old address to somebody else at once.
    erase(entry);
  }
  void* moved = pages_.remap(p, old.bytes, rounded);
  LockGuard guard(lock_);
  // The table has room: this block was in it.
  const bool inserted =
      insert(moved != nullptr ? Entry{reinterpret_cast<std::uintptr_t>(moved), rounded} : old);
  if (!inserted) fatal("out of memory for the table of huge blocks while one was being resized");
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

/// Unmaps kept mappings, the oldest first, the last one in part, until `max_bytes` are gone.
std::size_t HugeHeap::release(std::size_t max_bytes) noexcept {
  std::size_t released = 0;
  while (released < max_bytes) {
    Entry piece;
    {
      LockGuard guard(lock_);
      if (kept_count_ == 0) break;
      Entry& oldest = kept_[0];
      piece = oldest;
      const std::size_t rest = round_to_os_pages(max_bytes - released);
      if (rest != 0 && piece.bytes > rest) {
        oldest.bytes -= rest;
        piece = {oldest.address + oldest.bytes, rest};
      } else {
        std::memmove(kept_, kept_ + 1, --kept_count_ * sizeof(Entry));
      }
      set_kept_bytes(kept_bytes() - piece.bytes);
    }
    pages_.unmap(reinterpret_cast<void*>(piece.address), piece.bytes);
    released += piece.bytes;
  }
  return released;
}

/// The tightest kept mapping that fits, its surplus kept on.
HugeHeap::Block HugeHeap::take_kept(std::size_t bytes, std::size_t alignment) noexcept {
  Entry* best = nullptr;
  for (std::size_t i = 0; i < kept_count_; ++i) {
    Entry& candidate = kept_[i];
    if (candidate.bytes >= bytes && candidate.address % alignment == 0 &&
        (best == nullptr || candidate.bytes < best->bytes)) {
      best = &candidate;
    }
  }
  if (best == nullptr) return {nullptr, false};
  const std::uintptr_t address = best->address;
  best->address += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) {
    std::memmove(best, best + 1,
                 static_cast<std::size_t>(kept_ + kept_count_ - (best + 1)) * sizeof(Entry));
    --kept_count_;
  }
  set_kept_bytes(kept_bytes() - bytes);
  insert({address, bytes});
  return {reinterpret_cast<void*>(address), false};
}

void HugeHeap::keep(Entry mapping) noexcept {
  kept_[kept_count_++] = mapping;
  set_kept_bytes(kept_bytes() + mapping.bytes);
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
  peak_live_bytes_ = std::max(peak_live_bytes_, live_bytes_);
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
  return {live_blocks_, live_bytes_, kept_bytes()};
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
  for (std::size_t i = 0; i < kept_count_; ++i) kept += kept_[i].bytes;
  STRATA_INVARIANT(kept == kept_bytes(), "kept bytes are miscounted");
}

}  // namespace strata
