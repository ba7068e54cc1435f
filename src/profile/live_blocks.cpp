#include "profile/live_blocks.h"

#include <cstring>

#include "base/fatal.h"

namespace strata {

bool LiveBlocks::insert(const void* p, std::size_t bytes, std::uint32_t site) noexcept {
  LockGuard guard(lock_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (2 * (count + 1) > capacity_ && !grow()) return false;
  place({reinterpret_cast<std::uintptr_t>(p), bytes, site});
  count_.store(count + 1, std::memory_order_relaxed);
  return true;
}

LiveBlocks::Entry LiveBlocks::remove(const void* p) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  if (count() == 0) return {};
  LockGuard guard(lock_);
  if (capacity_ == 0) return {};
  const std::size_t mask = capacity_ - 1;
  std::size_t hole = home_of(address);
  while (entries_[hole].address != address) {
    if (entries_[hole].address == 0) return {};
    hole = (hole + 1) & mask;
  }
  const Entry removed = entries_[hole];
  // What stands behind the hole moves up, unless its home lies behind the hole, too.
  for (std::size_t next = (hole + 1) & mask; entries_[next].address != 0;
       next = (next + 1) & mask) {
    const std::size_t home = home_of(entries_[next].address);
    if (((next - home) & mask) < ((next - hole) & mask)) continue;
    entries_[hole] = entries_[next];
    hole = next;
  }
  entries_[hole] = {};
  count_.store(count() - 1, std::memory_order_relaxed);
  return removed;
}

std::size_t LiveBlocks::home_of(std::uintptr_t address) const noexcept {
  // Blocks start at OS pages: the low bits say nothing.
  return static_cast<std::size_t>(((address >> 12) * 0x9e3779b97f4a7c15u) >> 20) & (capacity_ - 1);
}

void LiveBlocks::place(const Entry& entry) noexcept {
  std::size_t at = home_of(entry.address);
  while (entries_[at].address != 0) at = (at + 1) & (capacity_ - 1);
  entries_[at] = entry;
}

bool LiveBlocks::grow() noexcept {
  const std::size_t wanted = capacity_ == 0 ? kFirstEntries : 2 * capacity_;
  auto* entries = static_cast<Entry*>(metadata_.allocate(wanted * sizeof(Entry)));
  if (entries == nullptr) return false;
  std::memset(entries, 0, wanted * sizeof(Entry));
  Entry* const old = entries_;
  const std::size_t old_capacity = capacity_;
  entries_ = entries;
  capacity_ = wanted;
  for (std::size_t i = 0; i < old_capacity; ++i) {
    if (old[i].address != 0) place(old[i]);
  }
  if (old != nullptr) metadata_.deallocate(old, old_capacity * sizeof(Entry));
  return true;
}

void LiveBlocks::check_invariants() noexcept {
  LockGuard guard(lock_);
  std::size_t found = 0;
  for (std::size_t i = 0; i < capacity_; ++i) {
    if (entries_[i].address == 0) continue;
    ++found;
    for (std::size_t at = home_of(entries_[i].address); at != i; at = (at + 1) & (capacity_ - 1))
      STRATA_INVARIANT(entries_[at].address != 0, "a live block is behind a gap");
  }
  STRATA_INVARIANT(found == count(), "live blocks are miscounted");
  STRATA_INVARIANT(2 * found <= capacity_, "the table of live blocks is too full");
}

}  // namespace strata
