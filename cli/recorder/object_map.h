#pragma once

#include <cstddef>
#include <cstdint>

#include "recorder/system.h"

namespace strata::recorder {

/// Which object lives at an address. Open addressing; when an entry goes, those after it move
/// up, so that no marks of removed entries are needed.
/// Always: at most half of the places are taken.
/// \threads  One at a time.
class ObjectMap {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void prefetch(std::uint64_t address) const noexcept {
    if (entries_ != nullptr) __builtin_prefetch(&entries_[place_of(address)]);
  }

  /// \returns  The object that was there, kNone if there was none.
  std::uint64_t insert(std::uint64_t address, std::uint64_t object) noexcept {
    if (count_ >= most_ && !grow()) return kNone;
    Entry* const entries = entries_;
    const std::size_t mask = mask_;
    std::size_t at = place_of(address);
    for (; entries[at].address != 0; at = (at + 1) & mask) {
      if (entries[at].address != address) continue;
      const std::uint64_t before = entries[at].object;
      entries[at].object = object;
      return before;
    }
    entries[at] = {address, object};
    ++count_;
    return kNone;
  }

  /// \returns  The object that was there, kNone if there was none.
  std::uint64_t take(std::uint64_t address) noexcept {
    if (entries_ == nullptr) return kNone;
    const Entry* const entries = entries_;
    const std::size_t mask = mask_;
    std::size_t at = place_of(address);
    for (; entries[at].address != address; at = (at + 1) & mask) {
      if (entries[at].address == 0) return kNone;
    }
    const std::uint64_t object = entries[at].object;
    close_gap(at);
    --count_;
    return object;
  }

  void clear() noexcept {
    if (entries_ != nullptr) unmap_memory(entries_, (mask_ + 1) * sizeof(Entry));
    *this = ObjectMap();
  }
  std::size_t count() const noexcept { return count_; }

 private:
  struct Entry {
    std::uint64_t address;  // 0: none
    std::uint64_t object;
  };
  static constexpr unsigned kFirstBits = 12;
  // Chosen: 2 GiB for 67 million live objects. What is beyond is unknown when it ends.
  static constexpr unsigned kMostBits = 27;

  /// The product's upper bits: on them all bits of the address have a say.
  std::size_t place_of(std::uint64_t address) const noexcept {
    return static_cast<std::size_t>(address * 0x9e3779b97f4a7c15u >> shift_);
  }

  void close_gap(std::size_t gap) noexcept {
    Entry* const entries = entries_;
    const std::size_t mask = mask_;
    for (std::size_t at = (gap + 1) & mask; entries[at].address != 0; at = (at + 1) & mask) {
      const std::size_t home = place_of(entries[at].address);
      // It may move up to the gap if that lies between its home and where it is.
      if (((at - home) & mask) < ((at - gap) & mask)) continue;
      entries[gap] = entries[at];
      gap = at;
    }
    entries[gap].address = 0;
  }

  bool grow() noexcept {
    const unsigned bits = entries_ == nullptr ? kFirstBits : 64 - shift_ + 1;
    if (bits > kMostBits) return false;
    const std::size_t capacity = std::size_t{1} << bits;
    auto* const entries = static_cast<Entry*>(map_memory(capacity * sizeof(Entry)));
    if (entries == nullptr) return false;
    const ObjectMap before = *this;
    entries_ = entries;
    mask_ = capacity - 1;
    shift_ = 64 - bits;
    most_ = capacity / 2;
    if (before.entries_ == nullptr) return true;
    for (std::size_t i = 0; i <= before.mask_; ++i) {
      const Entry& entry = before.entries_[i];
      if (entry.address == 0) continue;
      std::size_t at = place_of(entry.address);
      while (entries[at].address != 0) at = (at + 1) & mask_;
      entries[at] = entry;
    }
    unmap_memory(before.entries_, (before.mask_ + 1) * sizeof(Entry));
    return true;
  }

  Entry* entries_ = nullptr;
  std::size_t mask_ = 0;
  std::size_t count_ = 0;
  std::size_t most_ = 0;  ///< entries before it grows
  unsigned shift_ = 0;
};

}  // namespace strata::recorder
