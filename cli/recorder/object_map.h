#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/system.h"

namespace strata::recorder {

/// Which object lives at an address. Open addressing; when an entry goes, those after it move
/// up, so that no marks of removed entries are needed.
/// Always: at most three quarters of the places are taken.
/// \threads  One at a time.
class ObjectMap {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void prefetch(std::uint64_t address) const noexcept {
    if (entries_ != nullptr) __builtin_prefetch(&entries_[place_of(address)]);
  }

  /// \returns  The object that was there, kNone if there was none.
  std::uint64_t insert(std::uint64_t address, std::uint64_t object) noexcept {
    if ((count_ + 1) * 4 > capacity_ * 3 && !grow()) return kNone;
    std::size_t at = place_of(address);
    for (; entries_[at].address != 0; at = next(at)) {
      if (entries_[at].address != address) continue;
      const std::uint64_t before = entries_[at].object;
      entries_[at].object = object;
      return before;
    }
    entries_[at] = {address, object};
    ++count_;
    return kNone;
  }

  /// \returns  The object that was there, kNone if there was none.
  std::uint64_t take(std::uint64_t address) noexcept {
    if (entries_ == nullptr) return kNone;
    std::size_t at = place_of(address);
    while (entries_[at].address != address) {
      if (entries_[at].address == 0) return kNone;
      at = next(at);
    }
    const std::uint64_t object = entries_[at].object;
    close_gap(at);
    --count_;
    return object;
  }

  void clear() noexcept {
    if (entries_ != nullptr) unmap_memory(entries_, capacity_ * sizeof(Entry));
    entries_ = nullptr;
    capacity_ = count_ = 0;
  }
  std::size_t count() const noexcept { return count_; }

 private:
  struct Entry {
    std::uint64_t address;  // 0: none
    std::uint64_t object;
  };
  static constexpr std::size_t kFirstCapacity = 1 << 12;
  // Chosen: 1 GiB for 50 million live objects. What is beyond is unknown when it ends.
  static constexpr std::size_t kMostCapacity = std::size_t{1} << 26;

  std::size_t place_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>((address >> 4) * 0x9e3779b97f4a7c15u >> 32) & (capacity_ - 1);
  }
  std::size_t next(std::size_t at) const noexcept { return (at + 1) & (capacity_ - 1); }

  void close_gap(std::size_t gap) noexcept {
    for (std::size_t at = next(gap); entries_[at].address != 0; at = next(at)) {
      const std::size_t home = place_of(entries_[at].address);
      // It may move up to the gap if that lies between its home and where it is.
      if (((at - home) & (capacity_ - 1)) < ((at - gap) & (capacity_ - 1))) continue;
      entries_[gap] = entries_[at];
      gap = at;
    }
    entries_[gap] = {};
  }

  bool grow() noexcept {
    const std::size_t capacity = capacity_ == 0 ? kFirstCapacity : capacity_ * 2;
    if (capacity > kMostCapacity) return false;
    auto* const entries = static_cast<Entry*>(map_memory(capacity * sizeof(Entry)));
    if (entries == nullptr) return false;
    Entry* const before = entries_;
    const std::size_t before_capacity = capacity_;
    entries_ = entries;
    capacity_ = capacity;
    for (std::size_t i = 0; i < before_capacity; ++i) {
      if (before[i].address == 0) continue;
      std::size_t at = place_of(before[i].address);
      while (entries_[at].address != 0) at = next(at);
      entries_[at] = before[i];
    }
    if (before != nullptr) unmap_memory(before, before_capacity * sizeof(Entry));
    return true;
  }

  Entry* entries_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t count_ = 0;
};

}  // namespace strata::recorder
