#pragma once

#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"

namespace strata {

/// The page source for the bookkeeping of all user heaps. HeapTable owns it. Bookkeeping lies in
/// windows of addresses with an inaccessible page at each end, so no overflow of the program's
/// memory reaches it; its neighbours are the bookkeeping of other heaps. Each window is as large as
/// all before it: thousands of heaps have a dozen windows, with at most three mappings each.
///
/// A window is cut into units, which become writable when first used, the lowest first. A freed
/// unit's memory goes to the kernel; the addresses wait for the next request. A range of several
/// units is a power of two of them, aligned to as many. Larger ranges, and all for which there is
/// no window, have two inaccessible pages of their own. The bits for free units are in this object
/// for the first 64 units, and at the start of each window for the others.
/// \threads  Any number at once; one lock, not held while the kernel takes memory back.
class BookkeepingPages final : public os::PageSource {
 public:
  static constexpr std::size_t kUnitBytes = MetadataArena::kSmallChunkBytes;
  // Chosen: the first window has room for eight small heaps, and does not show where addresses are
  // few (ulimit -v).
  static constexpr std::size_t kFirstWindowUnits = 16;
  static constexpr std::size_t kLargestBytes = kFirstWindowUnits * kUnitBytes;

  explicit constexpr BookkeepingPages(os::PageSource& pages) noexcept : pages_(pages) {}

  void* map(std::size_t bytes) noexcept override;
  bool unmap(void* address, std::size_t bytes) noexcept override;
  bool decommit(void* address, std::size_t bytes) noexcept override {
    return pages_.decommit(address, bytes);
  }

  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  struct Window {
    char* start;
    std::size_t writable_units;  // its lowest
    std::uint64_t* free;         // a bit for each unit; nullptr where first_free_ has it
  };
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::size_t kMostWindows = 24;  // 8 TiB

  static std::size_t units_of(std::size_t bytes) noexcept;
  static std::size_t window_of(std::size_t unit) noexcept;
  static std::size_t first_unit_of(std::size_t window) noexcept;

  void* take(std::size_t units) noexcept STRATA_REQUIRES(lock_);
  std::size_t find(std::size_t units) noexcept STRATA_REQUIRES(lock_);
  std::size_t open_window() noexcept STRATA_REQUIRES(lock_);
  std::uint64_t& free_word(std::size_t word) noexcept STRATA_REQUIRES(lock_);
  void set_free(std::size_t unit, std::size_t units) noexcept STRATA_REQUIRES(lock_);
  std::size_t unit_at(const void* address) noexcept STRATA_REQUIRES(lock_);

  os::PageSource& pages_;
  Lock lock_{LockRank::kLeaf};
  std::uint64_t first_free_ STRATA_GUARDED_BY(lock_) = 0;     // a bit for each of 64 units
  std::size_t first_free_word_ STRATA_GUARDED_BY(lock_) = 0;  // nothing is free before it
  std::size_t unit_count_ STRATA_GUARDED_BY(lock_) = 0;       // of all windows
  std::size_t window_count_ STRATA_GUARDED_BY(lock_) = 0;
  Window windows_[kMostWindows] STRATA_GUARDED_BY(lock_) = {};
};

}  // namespace strata
