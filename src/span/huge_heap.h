#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "os/page_source.h"

namespace strata {

/// Blocks too large for a page run: each a mapping of its own, known by its first address.
///
/// A freed mapping is kept for a while, because asking the kernel again costs a page fault per OS
/// page. What is kept never makes the process larger than it has been: kept + live <= the largest
/// live sum so far, and what was not needed during an interval goes back (release_unneeded).
///
/// Always: the table holds live_count entries, and live_bytes is their sum (check_invariants).
/// \threads  Any number at once; one lock, not held during system calls on the way in.
class HugeHeap {
 public:
  struct Statistics {
    std::size_t live_blocks;
    std::size_t live_bytes;
    std::size_t kept_bytes;
  };
  struct Block {
    void* address;  ///< nullptr: out of memory
    bool is_zero;
  };

  constexpr HugeHeap(MetadataArena& metadata, os::PageSource& pages) noexcept
      : metadata_(metadata), pages_(pages) {}
  HugeHeap(const HugeHeap&) = delete;
  HugeHeap& operator=(const HugeHeap&) = delete;

  /// Whether large blocks ask for huge pages. Before the first allocation.
  void configure(bool huge_pages) noexcept { huge_pages_ = huge_pages; }

  /// \param alignment  a power of two. \cost system calls, unless a kept mapping fits.
  Block allocate(std::size_t bytes, std::size_t alignment) noexcept;

  /// \returns  False if no live block starts at `p`.
  bool deallocate(void* p) noexcept;

  /// Bytes usable at `p`; 0 if no live block starts there. \cost a hash probe under the lock
  std::size_t usable_bytes(const void* p) noexcept;

  /// Resizes by remapping: contents move without being copied. \pre p is live
  /// \returns  The new address; nullptr when out of memory, with the block as it was.
  void* reallocate(void* p, std::size_t bytes) noexcept;

  /// Unmaps what was kept and not needed since the last call. \returns bytes
  std::size_t release_unneeded() noexcept;
  /// Unmaps all that is kept. \returns bytes
  std::size_t release_all() noexcept { return release(~std::size_t{0}); }

  /// Bytes kept now: a hint, read without the lock.
  std::size_t kept_bytes() const noexcept { return kept_bytes_.load(std::memory_order_relaxed); }

  Statistics statistics() noexcept;
  void check_invariants() noexcept;
  Lock& lock() noexcept { return lock_; }  ///< for fork

 private:
  struct Entry {
    std::uintptr_t address;  // 0: empty
    std::size_t bytes;
  };

  // Chosen: more kept mappings than this would be searched longer than a fault takes.
  static constexpr std::size_t kMaxKept = 64;
  // Chosen: a block this large wastes at most an eighth of itself by its last, half-used huge page.
  static constexpr std::size_t kHugePageFromBytes = std::size_t{16} << 20;
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
  static constexpr std::size_t kFirstTableEntries = 256;

  Block take_kept(std::size_t bytes, std::size_t alignment) noexcept;
  void keep(Entry mapping) noexcept;
  std::size_t release(std::size_t max_bytes) noexcept;
  bool insert(Entry entry) noexcept;
  bool make_room_in_table() noexcept;
  Entry* find(const void* p) noexcept;
  void erase(Entry* entry) noexcept;
  std::size_t slot_of(std::uintptr_t address) const noexcept;
  void set_kept_bytes(std::size_t bytes) noexcept;

  Lock lock_{LockRank::kHuge};
  MetadataArena& metadata_;
  os::PageSource& pages_;
  bool huge_pages_ = true;

  // All below is guarded by lock_.
  Entry* table_ = nullptr;  // open addressing, linear probing, at most half full
  std::size_t table_entries_ = 0;
  std::size_t live_blocks_ = 0;
  std::size_t live_bytes_ = 0;
  std::size_t peak_live_bytes_ = 0;
  Entry kept_[kMaxKept] = {};  // the oldest first
  std::size_t kept_count_ = 0;
  std::size_t least_kept_ = 0;              // since the last release_unneeded()
  std::atomic<std::size_t> kept_bytes_{0};  // written under lock_, read anywhere
};

}  // namespace strata
