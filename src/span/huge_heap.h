#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "os/page_source.h"
#include "span/page_heap.h"

namespace strata {

/// Blocks too large for a page run: each a mapping, known by its first address.
///
/// Asking the kernel costs a page fault per OS page, so what is freed is kept for a while. Kept
/// ranges merge with their neighbours and are split again; a request that none of them can hold has
/// the largest one extended, which moves its pages and faults only what was missing. What was not
/// needed during an interval goes back (release_unneeded). Live blocks and kept ranges are held, by
/// the page heap's limit. A range that the kernel has no mapping left to cut out stays kept,
/// without memory but held, and goes when it can.
///
/// Always: the table holds live_blocks entries whose sum is live_bytes; kept ranges are in address
/// order, disjoint, and no two of them touch. (check_invariants)
/// \threads  Any number at once; one lock, not held during system calls.
class HugeHeap {
 public:
  struct Statistics {
    std::size_t live_blocks;
    std::size_t live_bytes;
    std::size_t kept_bytes;
    std::size_t returned_bytes;  ///< given back to the kernel since the start
  };
  struct Block {
    void* address;  ///< nullptr: out of memory
    bool is_zero;
  };

  constexpr HugeHeap(PageHeap& page_heap, MetadataArena& metadata, os::PageSource& pages) noexcept
      : page_heap_(page_heap), metadata_(metadata), pages_(pages) {}
  HugeHeap(const HugeHeap&) = delete;
  HugeHeap& operator=(const HugeHeap&) = delete;

  /// Whether large blocks ask for huge pages. Before the first allocation.
  void configure(bool huge_pages) noexcept { huge_pages_ = huge_pages; }

  /// \param alignment  a power of two.
  /// \cost  system calls, unless a kept mapping fits.
  Block allocate(std::size_t bytes, std::size_t alignment) noexcept;

  /// \returns  False if no live block starts at `p`.
  bool deallocate(void* p) noexcept;

  /// Bytes usable at `p`; 0 if no live block starts there.
  /// \cost  a hash probe under the lock
  std::size_t usable_bytes(const void* p) noexcept;

  /// Resizes by remapping: contents move without being copied.
  /// \pre      p is live
  /// \returns  The new address; nullptr when out of memory, with the block as it was.
  void* reallocate(void* p, std::size_t bytes) noexcept;

  /// Unmaps what was kept and not needed since the last call.
  /// \returns  bytes
  std::size_t release_unneeded() noexcept;
  /// Unmaps all that is kept.
  /// \returns  bytes
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
  struct KeptRange {
    std::uintptr_t address;
    std::size_t bytes;
    std::uint64_t freed_at;  // by the clock of frees: which range has waited longest
    std::uintptr_t end() const noexcept { return address + bytes; }
  };

  // Chosen: more kept ranges than this would be searched longer than a fault takes.
  static constexpr std::size_t kMaxKept = 128;
  // Chosen: a range below this share of a request is not worth being moved.
  static constexpr std::size_t kExtendShare = 4;
  // Chosen: a block this large wastes at most an eighth of itself by its last, half-used huge page.
  static constexpr std::size_t kHugePageFromBytes = std::size_t{16} << 20;
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
  static constexpr std::size_t kFirstTableEntries = 256;

  bool take_fitting(std::size_t bytes, std::size_t alignment, Entry& out) noexcept;
  bool take_extendable(std::size_t bytes, Entry& out) noexcept;
  Entry take_oldest(std::size_t max_bytes) noexcept;
  void keep(Entry range) noexcept;
  void forget(KeptRange& range) noexcept;
  void* map(std::size_t bytes, std::size_t alignment) noexcept;
  bool unmap(Entry range) noexcept;
  void exchange_idle_for(std::size_t bytes) noexcept;
  std::size_t release(std::size_t max_bytes) noexcept;
  bool insert(Entry entry) noexcept;
  bool make_room_in_table() noexcept;
  Entry* find(const void* p) noexcept;
  void erase(Entry* entry) noexcept;
  std::size_t slot_of(std::uintptr_t address) const noexcept;
  void set_kept_bytes(std::size_t bytes) noexcept;

  Lock lock_{LockRank::kHuge};
  PageHeap& page_heap_;
  MetadataArena& metadata_;
  os::PageSource& pages_;
  bool huge_pages_ = true;

  // All below is guarded by lock_.
  Entry* table_ = nullptr;  // open addressing, linear probing, at most half full
  std::size_t table_entries_ = 0;
  std::size_t live_blocks_ = 0;
  std::size_t live_bytes_ = 0;
  KeptRange kept_[kMaxKept + 1] = {};  // by address; one more while the oldest is evicted
  std::size_t kept_count_ = 0;
  std::uint64_t free_clock_ = 0;
  std::size_t returned_bytes_ = 0;
  std::size_t least_kept_ = 0;              // since the last release_unneeded()
  std::atomic<std::size_t> kept_bytes_{0};  // written under lock_, read anywhere
};

}  // namespace strata
