#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"

namespace strata {

/// Freed mappings that wait to be used again, merged with their neighbours.
/// Always: in address order, disjoint, and no two of them touch. (check_invariants)
/// \threads  One at a time, under its owner's lock, apart from bytes().
class KeptRanges {
 public:
  struct Range {
    std::uintptr_t address;  ///< 0: none
    std::size_t bytes;
  };
  // Chosen: to search more than this would take longer than a few page faults do. Where some
  // hundred blocks come and go, as many ranges lie between them.
  static constexpr std::size_t kMost = 1024;

  explicit constexpr KeptRanges(MetadataArena& metadata) noexcept : metadata_(metadata) {}

  /// Before the first range: most programs have none, and go without the room for them.
  /// \returns  False when out of memory; it can be tried again.
  bool make_room() noexcept;

  std::size_t count() const noexcept { return count_; }
  /// A hint to threads that do not hold the owner's lock.
  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  /// Puts a range in its place by address, merged with its neighbours.
  /// \pre  make_room(); count() <= kMost; a caller that makes it one more takes the oldest off
  void add(Range range) noexcept;
  /// The range at a place by address.
  /// \pre  place < count()
  Range at(std::size_t place) const noexcept {
    return {ranges_[place].address, ranges_[place].bytes};
  }
  /// Takes this range.
  /// \returns  false if it is not one of them, as it is
  bool take(Range range) noexcept;
  /// Takes the front of the tightest range that holds an aligned block.
  bool take_fitting(std::size_t bytes, std::size_t alignment, Range& out) noexcept;
  /// Takes a block of OS pages from the range with most room to grow. If the block before that was
  /// taken like this, a part of the range is left to it, as long as the rest is long enough.
  /// \returns  false if no range is long enough
  bool take_roomiest(std::size_t bytes, Range& out) noexcept;
  /// Takes the front of the range that begins at an address.
  /// \returns  false if there is none, or it has fewer bytes
  bool take_front(Range front) noexcept;
  /// No block that may grow ends at the address any more: nothing there is left to it.
  void leave_nothing_at(std::uintptr_t address) noexcept;
  /// Takes the largest range, to be extended to `bytes`, unless it is too small for that.
  bool take_extendable(std::size_t bytes, Range& out) noexcept;
  /// Takes up to `most_bytes` off the end of the range that waited longest.
  /// \pre  count() != 0
  Range take_oldest(std::size_t most_bytes) noexcept;

  /// Bytes that were kept all the time since the last call.
  std::size_t draw_unneeded() noexcept;

  /// Whether a byte of the range is kept, whether a part of the range at an address is left to the
  /// block before it, and of how many ranges one is: for checks.
  bool overlaps(Range range) const noexcept;
  bool leaves_some_at(std::uintptr_t address) const noexcept;
  std::size_t count_left() const noexcept;
  void check_invariants() const noexcept;

 private:
  struct Kept {
    std::uintptr_t address;
    std::size_t bytes;
    std::uint64_t added_at;   // by the count of additions: which range has waited longest
    bool is_behind_a_grower;  // a block of take_roomiest()'s ends where it begins
    std::uintptr_t end() const noexcept { return address + bytes; }
    std::size_t room() const noexcept {
      return is_behind_a_grower ? bytes - bytes / kGrowersPart : bytes;
    }
  };

  // Chosen: of buffers that grow by turns the one before needs less than the one that begins. With
  // a half, those that grow one after the other took up to 1.4 times as long (docs/decisions/0003).
  static constexpr std::size_t kGrowersPart = 3;
  // Chosen: a range below this share of a request is not worth being moved.
  static constexpr std::size_t kExtendShare = 4;

  template <typename Measure>
  Kept* with_most(Measure measure) const noexcept;
  Kept* split(Kept& range, std::size_t bytes) noexcept;
  Kept* first_from(std::uintptr_t address) const noexcept;
  void cut_front(Kept& range, std::size_t bytes) noexcept;
  void forget(Kept& range) noexcept;
  void set_bytes(std::size_t bytes) noexcept;

  MetadataArena& metadata_;
  Kept* ranges_ = nullptr;  // [kMost + 1], by address; one more while the oldest is evicted
  std::size_t count_ = 0;
  std::uint64_t additions_ = 0;
  std::size_t least_bytes_ = 0;        // since the last draw_unneeded()
  std::atomic<std::size_t> bytes_{0};  // relaxed: written under the owner's lock, read anywhere
};

}  // namespace strata
