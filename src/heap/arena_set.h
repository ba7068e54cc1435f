#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata {

/// The set of arenas, by start and length, so that a pointer's arena is known for ours before its
/// memory is read. A hash table with linear probing. An erased place is marked and reused, and
/// emptied when no search goes past it, so that searches stay short however many arenas come and
/// go.
///
/// Arenas start at multiples of a power of two and are no longer than that, so the lower bits of a
/// start have room for the length. An arena may be shorter: what lies behind it may be anybody's.
/// \threads  contains(): any number at once, without a lock. insert(), erase(): one at a time.
class ArenaSet {
 public:
  /// A terabyte in arenas of 64 MiB; the table is touched only as it is used.
  static constexpr std::size_t kMaxArenas = 16 * 1024;
  static constexpr std::size_t kPlaces = 2 * kMaxArenas;
  static constexpr std::size_t kUnitBytes = 4096;  // of lengths
  using Place = std::atomic<std::uintptr_t>;

  /// `offset_mask` has the bits that an address within an arena may have.
  explicit ArenaSet(std::uintptr_t offset_mask) noexcept : offset_mask_(offset_mask) {}

  /// `memory` holds kPlaces zeroed places.
  void adopt_table(void* memory) noexcept {
    // release pairs with the acquire in contains(), which may run before there is a table.
    places_.store(static_cast<Place*>(memory), std::memory_order_release);
  }
  void* table() const noexcept { return places_.load(std::memory_order_relaxed); }

  /// Whether the address is in an arena of the set.
  bool contains(std::uintptr_t address) const noexcept {
    const Place* places = places_.load(std::memory_order_acquire);
    if (places == nullptr) return false;
    const std::uintptr_t arena = start_in(address);
    for (std::size_t i = hash(arena), n = 0; n < kPlaces; i = (i + 1) % kPlaces, ++n) {
      // acquire pairs with the release in insert(): a thread that finds an arena sees its header.
      const std::uintptr_t found = places[i].load(std::memory_order_acquire);
      // An address may round down to 0, as what is in a place without an arena.
      if (start_in(found) == arena && arena != 0) [[likely]]
        return address - arena < (found & offset_mask_) * kUnitBytes;
      if (found == 0) return false;
    }
    return false;
  }

  /// `bytes` are whole units.
  /// \returns  False if the set is full.
  bool insert(std::uintptr_t arena, std::size_t bytes) noexcept {
    if (size_ == kMaxArenas) return false;
    Place* places = places_.load(std::memory_order_relaxed);
    std::size_t i = hash(arena);
    while (places[i].load(std::memory_order_relaxed) > kErased) i = (i + 1) % kPlaces;
    places[i].store(arena | bytes / kUnitBytes, std::memory_order_release);
    ++size_;
    return true;
  }

  void erase(std::uintptr_t arena) noexcept {
    Place* places = places_.load(std::memory_order_relaxed);
    std::size_t i = hash(arena);
    while (start_in(places[i].load(std::memory_order_relaxed)) != arena) i = (i + 1) % kPlaces;
    places[i].store(kErased, std::memory_order_relaxed);
    --size_;
    // A search that has passed one of them finds nothing either way.
    if (places[(i + 1) % kPlaces].load(std::memory_order_relaxed) != 0) return;
    for (; places[i].load(std::memory_order_relaxed) == kErased; i = (i + kPlaces - 1) % kPlaces) {
      places[i].store(0, std::memory_order_relaxed);
    }
  }

  std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::uintptr_t kErased = 1;

  std::uintptr_t start_in(std::uintptr_t place) const noexcept { return place & ~offset_mask_; }
  static std::size_t hash(std::uintptr_t arena) noexcept {
    return static_cast<std::size_t>((arena * std::uintptr_t{0x9e3779b97f4a7c15u}) >> 32) % kPlaces;
  }

  const std::uintptr_t offset_mask_;
  std::atomic<Place*> places_{nullptr};
  std::size_t size_ = 0;
};

}  // namespace strata
