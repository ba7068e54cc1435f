#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address_table.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"
#include "span/huge_block_policy.h"
#include "span/kept_ranges.h"
#include "span/page_heap.h"
#include "span/stuck_ranges.h"

namespace strata {

/// Blocks too large for a page run: each is a mapping, known by its first address.
///
/// The kernel charges a page fault per OS page, so freed mappings are kept for a while. Kept ranges
/// merge with their neighbours and are split again. For a request that none can hold, the largest
/// one is extended: its pages move, and only the missing ones fault. When a block takes new memory,
/// as much kept or idle memory goes back; where blocks come and go, up to a third of the largest
/// live size may stay. Ranges that were not needed for an interval are unmapped (release_unneeded).
/// If the source is not divisible, each block is unmapped as soon as it is freed. HugeBlockPolicy
/// says which blocks ask for huge pages, all but their ends.
///
/// The page heap's limit counts live blocks and kept ranges as held. If the kernel has no mapping
/// left to cut a range out (StuckRanges), all its memory but a page goes back; that page is not
/// counted, and the addresses wait to be unmapped or used.
///
/// Always: live_bytes is the sum of the live blocks in the table. (check_invariants)
/// \threads  Any number at once; one lock. discard() and the remapping of a live block hold it
///           during system calls; nothing else does.
class HugeHeap {
 public:
  struct Statistics {
    std::size_t live_blocks;
    std::size_t live_bytes;
    std::size_t kept_bytes;
    std::size_t given_bytes;     ///< to blocks, since the start; a block that moves counts anew
    std::size_t stuck_bytes;     ///< addresses that the kernel could not cut out (StuckRanges)
    std::size_t unmapped_bytes;  ///< since the start; decommitted, if they are stuck
  };
  struct Block {
    void* address;  ///< nullptr: out of memory
    bool is_zero;   ///< fresh from the kernel
  };

  constexpr HugeHeap(PageHeap& page_heap, MetadataArena& metadata, os::PageSource& pages) noexcept
      : page_heap_(page_heap), pages_(pages), live_(metadata), kept_(metadata) {}
  HugeHeap(const HugeHeap&) = delete;
  HugeHeap& operator=(const HugeHeap&) = delete;

  /// Call before the first allocation.
  void configure(HugePages huge_pages) noexcept { policy_.configure(huge_pages); }

  /// \param alignment  a power of two.
  /// \pre   bytes != 0
  /// \cost  system calls, unless a kept mapping fits.
  Block allocate(std::size_t bytes, std::size_t alignment) noexcept;

  /// Allocates a block that is likely to grow: at the front of the kept range with most room. If
  /// the block before that range was placed like this, a part of the range is left to it.
  /// \returns  nullptr if no kept range is long enough, or the block is too long to grow there
  void* allocate_to_grow(std::size_t bytes) noexcept;

  /// \returns  False if no live block starts at `p`.
  bool deallocate(void* p) noexcept;

  /// What is known of an address where no live block starts.
  ///   kInside  it points into a live block
  ///   kFreed   a block that began there was one of the last kRemembered to be freed
  ///   kKept    it points into what is kept of freed blocks
  /// \cost  a look at every live block
  enum class Place : std::uint8_t { kElsewhere, kInside, kFreed, kKept };
  Place place_of(const void* p) noexcept;

  /// Bytes usable at `p`; 0 if no live block starts there.
  /// \cost  a hash probe under the lock
  std::size_t usable_bytes(const void* p) noexcept;

  /// Makes the first bytes of a live block read as zero. If more than a quarter of them holds no
  /// memory, decommits the rest instead of writing zeros, which would take memory that the program
  /// may never touch. Decommits all of a very long block.
  /// \cost  a system call for each 4096 OS pages, as far as it asks, and two
  void clear(void* p, std::size_t bytes) noexcept;

  /// Resizes a block that stays in its mapping as it is, as reallocate() does.
  /// \returns  false, with nothing changed, if it does not, or no live block starts at `p`
  /// \cost     a hash probe under the lock
  bool resize_in_place(const void* p, std::size_t bytes) noexcept;

  /// Resizes a block. It grows into the kept range behind it if that is long enough; otherwise it
  /// is remapped, which moves contents without copying. If no limit is set, a block that is
  /// remapped to grow by less than an eighth gets an eighth more for its next steps: the untouched
  /// part counts as held but takes no memory. A shrinking block's tail is kept if it is large
  /// enough and the source divisible. A smaller tail stays with the block if no limit is set, and
  /// goes back otherwise.
  /// \pre      p is live
  /// \returns  The new address. nullptr, with the block unchanged, when out of memory, or if the
  ///           kernel keeps the block as two mappings, which it does not move.
  void* reallocate(void* p, std::size_t bytes) noexcept;

  /// Unmaps kept ranges that were not needed since the last call.
  /// \returns  bytes
  std::size_t release_unneeded() noexcept;
  /// Unmaps all kept ranges.
  /// \returns  bytes
  std::size_t release_all() noexcept;

  /// Unmaps kept ranges that were hardly touched: they take addresses, and next to no memory.
  /// \returns  bytes
  /// \cost     up to six system calls for each kept range, two for one that was in use
  std::size_t release_untouched() noexcept;

  /// Releases up to `bytes` of idle memory in exchange for growth, past or imminent: kept ranges
  /// first, then pages of the page heap.
  /// \returns  bytes
  /// \cost     two loads where nothing is idle; a system call for each range and run of pages
  std::size_t exchange_idle_for(std::size_t bytes, PageHeap::From from) noexcept;

  /// Unmaps all live blocks and kept ranges. The heap can be used again.
  /// \threads  no other thread uses it at the same time
  void discard() noexcept;

  /// Bytes kept now: a hint, read without the lock.
  // Not analysed: of the kept ranges, it reads their one atomic member.
  std::size_t kept_bytes() const noexcept STRATA_NO_THREAD_SAFETY_ANALYSIS { return kept_.bytes(); }

  Statistics statistics() noexcept;
  void check_invariants() noexcept;
  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  using Range = KeptRanges::Range;
  struct Extent {
    std::size_t bytes;  ///< of the mapping
    std::size_t asked;  ///< of these, in whole OS pages
  };

  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

  // Chosen: the part of itself that a block of a size class may waste.
  static constexpr std::size_t kHeadroomPart = 8;

  // Chosen: blocks of one to two times a size that come and go at random fit the slack, and vectors
  // that double have room for the next step (docs/decisions/0003).
  static constexpr std::size_t kSlackPart = 3;
  // Chosen: where blocks of less than 1 MiB come and go, too, as many pages are idle.
  static constexpr std::size_t kIdlePart = 2;

  // Chosen: a block that has grown into another mapping has to be copied if it moves, which takes
  // some milliseconds at this size. A longer one is remapped while that is possible.
  static constexpr std::size_t kMostGrownIntoKept = std::size_t{32} << 20;
  // Chosen: the smallest tail that is worth a place among the kept ranges.
  static constexpr std::size_t kLeastTail = std::size_t{64} << 10;

  // Chosen: release_untouched() examines at most so many ranges, with system calls for each.
  static constexpr std::size_t kMostLooks = 128;

  // Chosen: up to here clear() asks which pages hold memory, in a hundredth of the time that
  // writing zeros takes.
  static constexpr std::size_t kMostAsked = std::size_t{1} << 30;

  // Chosen: after so many failures in a row, no more stuck ranges are tried.
  static constexpr int kMostInVain = 8;

  // Chosen: a second free mostly follows soon.
  static constexpr std::size_t kRemembered = 64;

  bool is_allowed(std::size_t bytes) noexcept;
  bool is_worth_huge_pages(std::size_t bytes) noexcept;
  void* map_between_huge_pages(std::size_t bytes, std::size_t alignment) noexcept;
  template <typename Map>
  void* map_in_exchange(std::size_t bytes, std::size_t whole, std::size_t exchanged,
                        Map map) noexcept;
  Block extend_or_map(Range range, std::size_t rounded, std::size_t alignment,
                      std::size_t exchanged) noexcept;
  std::size_t draw_exchange(std::size_t bytes, std::size_t more) noexcept STRATA_REQUIRES(lock_);
  Block map(std::size_t bytes, std::size_t alignment, std::size_t exchanged) noexcept;
  /// Resizes a block that needs no other mapping.
  /// \returns  false if it is too short, or has a tail to give up
  bool try_stay(Extent& extent, std::size_t bytes) const noexcept STRATA_REQUIRES(lock_) {
    if (bytes > extent.bytes) return false;
    const bool has_little_more = extent.bytes - bytes < kLeastTail && !page_heap_.limit().is_any();
    if (bytes < extent.asked && !has_little_more) return false;
    extent.asked = bytes;
    return true;
  }
  Range keep_tail(const void* p, Extent& extent, std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  bool grow_into_kept(const void* p, Extent& extent, std::size_t bytes) noexcept
      STRATA_REQUIRES(lock_);
  void* remap(void* p, Extent old, Extent now, std::size_t exchanged) noexcept;
  void* move(void* p, Extent old, Extent now) noexcept;
  Range keep(Range range) noexcept STRATA_REQUIRES(lock_);
  void put_back(Range range) noexcept;
  void unmap(Range range) noexcept;
  void unmap_stuck() noexcept;
  std::size_t release(std::size_t max_bytes) noexcept;
  void add_live(std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  bool insert(const void* p, Extent extent) noexcept STRATA_REQUIRES(lock_);
  std::size_t remove(const void* p) noexcept STRATA_REQUIRES(lock_);

  Lock lock_{LockRank::kHuge};
  PageHeap& page_heap_;
  os::PageSource& pages_;
  HugeBlockPolicy policy_;

  AddressTable<Extent> live_ STRATA_GUARDED_BY(lock_);  // by first address
  std::size_t live_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t given_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t most_live_ STRATA_GUARDED_BY(lock_) = 0;  // since the last release_unneeded()
  // By how much live blocks and kept ranges together may exceed most_live_.
  std::size_t slack_ STRATA_GUARDED_BY(lock_) = 0;
  KeptRanges kept_ STRATA_GUARDED_BY(lock_);
  StuckRanges stuck_ STRATA_GUARDED_BY(lock_);
  std::size_t unmapped_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  // The first addresses of the blocks freed last, in a ring.
  const void* freed_[kRemembered] STRATA_GUARDED_BY(lock_) = {};
  std::size_t frees_ STRATA_GUARDED_BY(lock_) = 0;
  // The block that policy_ is to look at, and since when it is live.
  const void* watched_ STRATA_GUARDED_BY(lock_) = nullptr;
  std::uint64_t watched_since_ns_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata
