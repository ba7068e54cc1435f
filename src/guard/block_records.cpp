#include "guard/block_records.h"

#include <algorithm>

namespace strata {

bool BlockRecords::insert(const void* block, const Allocation& allocation) noexcept {
  LockGuard guard(lock_);
  if (!make_room()) return false;
  put({reinterpret_cast<std::uintptr_t>(block), allocation});
  ++count_;
  return true;
}

bool BlockRecords::find(const void* block, Allocation& out) noexcept {
  LockGuard guard(lock_);
  const Entry* entry = find_entry(block);
  if (entry == nullptr) return false;
  out = entry->allocation;
  return true;
}

bool BlockRecords::remove(const void* block, Allocation& out) noexcept {
  LockGuard guard(lock_);
  Entry* entry = find_entry(block);
  if (entry == nullptr) return false;
  out = entry->allocation;
  --count_;
  // Backward shift: an entry may move into the hole if its own slot is not behind the hole.
  const std::size_t mask = entries_ - 1;
  auto hole = static_cast<std::size_t>(entry - table_);
  for (std::size_t i = (hole + 1) & mask; table_[i].address != 0; i = (i + 1) & mask) {
    if (((i - slot_of(table_[i].address)) & mask) >= ((i - hole) & mask)) {
      table_[hole] = table_[i];
      hole = i;
    }
  }
  table_[hole] = Entry{};
  return true;
}

std::size_t BlockRecords::slot_of(std::uintptr_t address) const noexcept {
  // Fibonacci hashing: blocks start at multiples of an OS page, the product's top bits are mixed.
  return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15u) >> 32) & (entries_ - 1);
}

BlockRecords::Entry* BlockRecords::find_entry(const void* block) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (entries_ == 0 || address == 0) return nullptr;
  for (std::size_t i = slot_of(address); table_[i].address != 0; i = (i + 1) & (entries_ - 1)) {
    if (table_[i].address == address) return &table_[i];
  }
  return nullptr;
}

/// Keeps the table at most half full with one more entry; rehashes into one of twice the size.
bool BlockRecords::make_room() noexcept {
  if (entries_ >= 2 * (count_ + 1)) return true;
  const std::size_t entries = std::max(kFirstEntries, entries_ * 2);
  auto* table = static_cast<Entry*>(metadata_.allocate(entries * sizeof(Entry)));
  if (table == nullptr) return false;
  std::fill_n(table, entries, Entry{});
  Entry* const old = table_;
  const std::size_t old_entries = entries_;
  table_ = table;
  entries_ = entries;
  for (std::size_t i = 0; i < old_entries; ++i) {
    if (old[i].address != 0) put(old[i]);
  }
  if (old != nullptr) metadata_.deallocate(old, old_entries * sizeof(Entry));
  return true;
}

void BlockRecords::put(const Entry& entry) noexcept {
  std::size_t i = slot_of(entry.address);
  while (table_[i].address != 0) i = (i + 1) & (entries_ - 1);
  table_[i] = entry;
}

}  // namespace strata
