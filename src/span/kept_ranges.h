#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"

namespace strata {

/// Freed mappings that wait for reuse, merged with their neighbours. HugeHeap owns them.
/// Always: in address order, disjoint, and no two of them touch. (check_invariants)
/// \threads  One at a time, under its owner's lock, apart from bytes().
class KeptRanges {
 public:
  struct Range {
    std::uintptr_t address;  ///< 0: none
    std::size_t bytes;
    void* start() const noexcept { return reinterpret_cast<void*>(address); }
  };
  // Chosen: searching more would take longer than a few page faults. Where some hundred blocks come
  // and go, as many ranges lie between them.
  static constexpr std::size_t kMost = 1024;

  explicit constexpr KeptRanges(MetadataArena& metadata) noexcept : metadata_(metadata) {}

  /// Allocates the array; call before the first range. Most programs never need it.
  /// \returns  False when out of memory; it can be tried again.
  bool make_room() noexcept;

  std::size_t count() const noexcept { return count_; }
  /// A hint to threads that do not hold the owner's lock.
  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  /// Adds a range, merged with its neighbours.
  /// \pre  make_room(); count() <= kMost; a caller that makes it one more takes the oldest off
  void add(Range range) noexcept;
  /// The range at index `place` in address order.
  /// \pre  place < count()
  Range at(std::size_t place) const noexcept {
    return {ranges_[place].address, ranges_[place].bytes};
  }
  /// Takes exactly this range.
  /// \returns  false if it is not one of them
  bool take(Range range) noexcept;
  /// Takes the front of the tightest range that holds an aligned block.
  bool take_fitting(std::size_t bytes, std::size_t alignment, Range& out) noexcept;
  /// Takes a block of OS pages from the range with most room to grow. If the block before that
  /// range was taken like this, leaves a part of it to that block, as long as the rest is long
  /// enough.
  /// \returns  false if no range is long enough
  bool take_roomiest(std::size_t bytes, Range& out) noexcept;
  /// Takes the front of the range that begins at `front`.
  /// \returns  false if there is none, or it has fewer bytes
  bool take_front(Range front) noexcept;
  /// Records that no block that may grow ends at the address any more.
  void leave_nothing_at(std::uintptr_t address) noexcept;
  /// Takes the largest range, to be extended to `bytes`, unless it is too small for that.
  bool take_extendable(std::size_t bytes, Range& out) noexcept;
  /// Takes up to `most_bytes` off the end of the longest-waiting range.
  /// \pre  count() != 0
  Range take_oldest(std::size_t most_bytes) noexcept;

  /// The least number of bytes kept since the last call; starts a new interval.
  std::size_t draw_unneeded() noexcept;

  /// For checks: whether a byte of the range is kept, whether a part of the range at an address is
  /// left to the block before it, and for how many ranges that is so.
  bool overlaps(Range range) const noexcept;
  bool leaves_some_at(std::uintptr_t address) const noexcept;
  std::size_t count_left() const noexcept;
  void check_invariants() const noexcept;

 private:
  struct Kept {
    std::uintptr_t address;
    std::size_t bytes;
    std::uint64_t added_at;   // the count of additions then: which range waits longest
    bool is_behind_a_grower;  // it begins where a take_roomiest() block ends
    std::uintptr_t end() const noexcept { return address + bytes; }
    std::size_t room() const noexcept {
      return is_behind_a_grower ? bytes - bytes / kGrowersPart : bytes;
    }
  };

  // Chosen: of buffers that grow by turns, the earlier one needs less than the new one. With a
  // half, buffers that grow one after the other took up to 1.4 times as long (docs/decisions/0003).
  static constexpr std::size_t kGrowersPart = 3;
  // Chosen: a range below this share of a request is not worth moving.
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
