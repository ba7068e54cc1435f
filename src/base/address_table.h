#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>  // IWYU pragma: keep (placement new)

#include "base/fatal.h"
#include "base/metadata_arena.h"

namespace strata {

/// A hash table from addresses to values, in metadata memory. It grows and never shrinks.
/// Always: at most half of the entries are in use, and each is found from its home without a gap.
/// \threads  One at a time, under its owner's lock.
/// \source   Donald Knuth, "The Art of Computer Programming" 3, 6.4: linear probing (algorithm L),
///           deletion by moving entries up (algorithm R), multiplicative hashing.
template <typename Value>
class AddressTable {
 public:
  explicit constexpr AddressTable(MetadataArena& metadata) noexcept : metadata_(metadata) {}
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  std::size_t size() const noexcept { return size_; }

  /// \returns  The value of `p`, nullptr if it has none; valid until the next change.
  Value* find(const void* p) noexcept {
    Entry* const entry = entry_of(p);
    return entry != nullptr ? &entry->value : nullptr;
  }

  /// Makes sure that the next insert() succeeds.
  /// \returns  False when out of memory.
  bool make_room() noexcept { return capacity_ >= 2 * (size_ + 1) || grow(); }

  /// \pre      `p` has no value, and is not nullptr.
  /// \returns  False when out of memory.
  bool insert(const void* p, const Value& value) noexcept {
    if (!make_room()) return false;
    put({reinterpret_cast<std::uintptr_t>(p), value});
    ++size_;
    return true;
  }

  /// \returns  False if `p` had no value; otherwise `out` is that value.
  bool remove(const void* p, Value& out) noexcept {
    Entry* const entry = entry_of(p);
    if (entry == nullptr) return false;
    out = entry->value;
    close(static_cast<std::size_t>(entry - entries_));
    --size_;
    return true;
  }

  /// Calls visit(address, value) for each.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].address != 0) visit(entries_[i].address, entries_[i].value);
    }
  }

  /// Removes all entries; the table stays as large as it is.
  void forget_all() noexcept {
    for (std::size_t i = 0; i < capacity_; ++i) entries_[i] = Entry{};
    size_ = 0;
  }

  void check_invariants() const noexcept {
    std::size_t found = 0;
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].address == 0) continue;
      ++found;
      for (std::size_t at = home_of(entries_[i].address); at != i; at = next(at))
        STRATA_INVARIANT(entries_[at].address != 0, "an address cannot be found from its home");
    }
    STRATA_INVARIANT(found == size_, "the addresses of a table are miscounted");
    STRATA_INVARIANT(2 * found <= capacity_, "a table of addresses is too full");
  }

 private:
  struct Entry {
    std::uintptr_t address;  // 0: free
    Value value;
  };
  static constexpr std::size_t kFirstCapacity = 256;

  std::size_t next(std::size_t i) const noexcept { return (i + 1) & (capacity_ - 1); }

  std::size_t home_of(std::uintptr_t address) const noexcept {
    // The low bits of an address say little: the product's upper half has something of all.
    return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15u) >> 32) & (capacity_ - 1);
  }

  Entry* entry_of(const void* p) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    if (size_ == 0 || address == 0) return nullptr;
    for (std::size_t i = home_of(address); entries_[i].address != 0; i = next(i)) {
      if (entries_[i].address == address) return &entries_[i];
    }
    return nullptr;
  }

  void put(const Entry& entry) noexcept {
    std::size_t i = home_of(entry.address);
    while (entries_[i].address != 0) i = next(i);
    entries_[i] = entry;
  }

  /// Frees an entry: later ones move up, unless that would put them before their home.
  void close(std::size_t hole) noexcept {
    const std::size_t mask = capacity_ - 1;
    for (std::size_t i = next(hole); entries_[i].address != 0; i = next(i)) {
      if (((i - home_of(entries_[i].address)) & mask) < ((i - hole) & mask)) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole] = Entry{};
  }

  bool grow() noexcept {
    const std::size_t capacity = std::max(kFirstCapacity, 2 * capacity_);
    auto* const entries = static_cast<Entry*>(metadata_.allocate(capacity * sizeof(Entry)));
    if (entries == nullptr) return false;
    for (std::size_t i = 0; i < capacity; ++i) new (entries + i) Entry{};
    Entry* const old = entries_;
    const std::size_t old_capacity = capacity_;
    entries_ = entries;
    capacity_ = capacity;
    for (std::size_t i = 0; i < old_capacity; ++i) {
      if (old[i].address != 0) put(old[i]);
    }
    if (old != nullptr) metadata_.deallocate(old, old_capacity * sizeof(Entry));
    return true;
  }

  MetadataArena& metadata_;
  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;  // a power of two, or 0
  std::size_t size_ = 0;
};

}  // namespace strata
