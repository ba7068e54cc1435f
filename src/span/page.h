#pragma once

#include <strata/detail/bits.hpp>
#include <strata/detail/cache_line.hpp>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "base/intrusive_list.h"

/// \file  The malloc's units of memory: pages, the spans they form, the regions they come from.

namespace strata {

// Chosen. A page is the smallest span: 4096 objects of 16 bytes, 64 of 1 KiB. The page map needs
// one byte for it, and it is a multiple of every OS page size in use (4, 16 and 64 KiB).
inline constexpr unsigned kPageShift = 16;
// Chosen. A region is what x86-64 and 4-KiB-page arm64 kernels can back with one huge page.
inline constexpr unsigned kRegionShift = 21;

// Derived.
inline constexpr std::size_t kPageBytes = std::size_t{1} << kPageShift;
inline constexpr std::size_t kRegionBytes = std::size_t{1} << kRegionShift;
inline constexpr unsigned kPagesPerRegion = 1u << (kRegionShift - kPageShift);
using PageMask = std::uint32_t;  ///< one bit per page of a region, bit 0 the lowest address
static_assert(kPagesPerRegion == 32, "a region's pages are the bits of one word");

/// `count` pages from `first`, as bits.
/// \pre  1 <= count, first + count <= kPagesPerRegion
constexpr PageMask page_range(unsigned first, unsigned count) noexcept {
  return (~PageMask{0} >> (kPagesPerRegion - count)) << first;
}

/// Whether returned memory was in use until now, or idle since the scavenger's last round.
enum class Was : bool { kInUse, kIdle };

// std::popcount() is a function call unless the processor is known to have the instruction.
constexpr unsigned count_pages(PageMask mask) noexcept { return detail::popcount(mask); }

/// The number of a heap whose pages are in a page map that it may share with others.
using HeapNumber = std::uint16_t;

/// What a span is used for, as one comparable word: the heap it belongs to, its class (0 if large),
/// and whether its objects are watched.
constexpr std::uint32_t span_use(HeapNumber owner, unsigned size_class,
                                 bool is_watched = false) noexcept {
  return std::uint32_t{is_watched} << 24 | std::uint32_t{owner} << 8 | size_class;
}

/// The address of a free object, as bins, transfer caches and batches hold it. Its lowest bit is
/// set while the object is fresh: it reads as zero because it was never handed out. Only classes
/// that Span::tracks_fresh() have this mark; no program ever sees it.
class FreeObject {
 public:
  explicit FreeObject(void* marked) noexcept : bits_(reinterpret_cast<std::uintptr_t>(marked)) {}

  static void* mark_fresh(void* object) noexcept {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(object) | kFreshMark);
  }
  bool is_fresh() const noexcept { return (bits_ & kFreshMark) != 0; }
  void* address() const noexcept { return reinterpret_cast<void*>(bits_ & ~kFreshMark); }

 private:
  static constexpr std::uintptr_t kFreshMark = 1;

  std::uintptr_t bits_;
};

/// A run of pages of one region, handed out by the PageHeap, in one of three uses:
///   small    cut into `object_count` objects of one class. Bit i of free_bits is set while object
///            i is in the span; clear while it is live or in some cache. Owned by its class's
///            CentralList, listed there while free_count > 0.
///   watched  like small, but the page map says 0, so that free takes the slow way, and every
///            object has a record for its watcher. Under full checks small ones have records, too.
///   large    one object, owned by the user; size_class is 0, free_bits and records are null.
/// Always: popcount(free_bits) == free_count <= object_count                   (small, watched)
/// decommitted_free <= free_count: the objects above it may lie on pages to be decommitted.
/// fresh_objects is 0 unless the class tracks_fresh(), and its objects are in the span.
/// It is part of its Region, out of line: nothing is ever written into its pages. It has cache
/// lines of its own, since neighbours in a region often belong to different threads.
struct alignas(detail::kCacheLineBytes) Span : ListLink<> {
  // Chosen: the smallest OS page; below it, memory is touched anyway.
  static constexpr std::size_t kFreshFromBytes = 4096;

  // The fields that a returned object is looked up by share one cache line: after a batch in no
  // order, these lines and those of the bitmaps are most of what the processor reads.

  /// The Central shard that serves its objects. Written under both lists' locks: of the one that it
  /// leaves and the one that it joins.
  std::uint8_t shard;
  std::uint8_t place;  ///< which of the CentralList's lists it is in
  std::uint8_t turn;   ///< the list's turn in which it was put there
  std::uint32_t use;   ///< span_use() of what it is now
  char* start;
  std::uint64_t* free_bits;  ///< bitmap_words() words; written under the CentralList's lock only
  std::uint32_t object_count;
  std::uint32_t free_count;
  std::uint32_t relist_at;  ///< with so many free objects it belongs in another list
  /// No word below it has a set bit, except for objects below first_object.
  std::uint32_t first_word;
  std::uint32_t object_bytes;
  std::uint32_t reciprocal;  ///< ceil(2^32 / object_bytes): an object's index without a division

  std::uint64_t* records;   ///< one word for each object, for what watches or checks it; or null
  std::uint32_t seen_free;  ///< free objects not needed when decommit_holes() looked last
  /// Objects that were free when its holes were decommitted, and have been free since.
  std::uint32_t decommitted_free;
  std::uint32_t hole_bytes;             ///< decommitted, and certainly not touched since
  std::uint32_t hole_bytes_for_growth;  ///< the part that went back because the heap grew
  /// Bit i: object i reads as zero, since it was never handed out (tracks_fresh).
  std::uint32_t fresh_objects;
  /// Where the first claim began: the objects below it come last, or first for claims from the
  /// other end. 0 once they have come last, and where no chance decides.
  std::uint16_t first_object;
  std::uint8_t size_class;
  std::uint8_t first_page;  ///< within the region
  std::uint8_t page_count;
  bool is_zero;               ///< the pages had never been used since the kernel cleared them
  bool is_homeward;           ///< its freed objects bypass the bins of their class
  bool has_left_holes;        ///< the kernel refused some, of locked memory
  bool is_short;              ///< large: a block that shrank, and kept a page that it needs no more
  bool has_grown_again;       ///< large: it was short, and needed its page after all
  std::uint64_t bitmap_word;  ///< what free_bits points to if the bitmap is one word

  /// Whether clearing an object costs more than tracking that it need not be cleared.
  static constexpr bool tracks_fresh(std::size_t object_bytes) noexcept {
    return object_bytes >= kFreshFromBytes;
  }

  /// Takes the object at `p` out of the span, and marks it if it is fresh.
  /// \threads  under the CentralList's lock
  void* take_fresh(void* p) noexcept {
    const std::uint32_t bit = std::uint32_t{1} << index_of(p);
    if ((fresh_objects & bit) == 0) return p;
    fresh_objects &= ~bit;
    return FreeObject::mark_fresh(p);
  }

  std::size_t bytes() const noexcept { return page_count * kPageBytes; }
  /// Bytes of objects that became free since its holes were decommitted.
  std::size_t pending_bytes() const noexcept {
    return std::size_t{free_count - decommitted_free} * object_bytes;
  }
  std::size_t bitmap_words() const noexcept { return (object_count + 63) / 64; }
  /// The free objects of a word that claims may take before they wrap around.
  std::uint64_t claimable(std::uint32_t word) const noexcept {
    const std::uint64_t below = (std::uint64_t{1} << first_object % 64) - 1;
    return word == first_object / 64u ? free_bits[word] & ~below : free_bits[word];
  }

  /// The object that starts at `p`, or object_count if none does.
  /// The product is exact for multiples of object_bytes; for any other offset it may be off by one,
  /// and the comparison refuses it either way.
  std::uint32_t index_of(const void* p) const noexcept {
    STRATA_DCHECK(p >= start && p < start + bytes());
    const auto offset = static_cast<std::uint32_t>(static_cast<const char*>(p) - start);
    const auto index = static_cast<std::uint32_t>((std::uint64_t{offset} * reciprocal) >> 32);
    return index * object_bytes == offset && index < object_count ? index : object_count;
  }
};

struct RunListTag;
struct DirtyListTag;

/// 2 MiB of address space, aligned to its size, whose pages are handed out as spans.
///   free_pages   not part of any span, nor kept
///   dirty_pages  may hold memory: handed out at some time since they were mapped or decommitted,
///                or backed together with such a page by one huge page. A page outside it reads as
///                zero and costs nothing.
/// Always: head_of_page[i] is the first page of the span that page i belongs to, kNoSpan if
/// it is free or kept.
/// What the page heap writes, what every free reads and the spans have cache lines of their own.
struct Region : ListLink<RunListTag>, ListLink<DirtyListTag> {
  static constexpr std::uint8_t kNoSpan = 0xff;

  PageMask free_pages;
  PageMask dirty_pages;
  std::uint8_t longest_free_run;  ///< which of the PageHeap's lists the region is in
  bool is_huge;                   ///< huge pages were asked for
  /// A part of a huge one was decommitted: the kernel was asked for small pages again.
  bool is_split;
  bool awaits_touch;  ///< nobody has measured how long its first touch takes
  /// The PageShard that owns it. Written under both shards' locks (of the one that it leaves and
  /// the one that it joins), and only while it is free. Read by whoever has a span of it.
  std::atomic<std::uint8_t> shard;
  // What a free of large objects reads, in any thread: a line that is written seldom.
  alignas(detail::kCacheLineBytes) char* start;
  std::uint8_t head_of_page[kPagesPerRegion];
  std::uint16_t owner;          ///< the number of its page heap
  Span spans[kPagesPerRegion];  ///< spans[i] is in use while head_of_page[i] == i
  /// For each page of a span whose objects have states, where they are (ObjectStates::Place).
  std::atomic<std::uintptr_t> states_of_page[kPagesPerRegion];

  /// Enters `count` pages from `first` on as the span's that begins at page `head`, or as no
  /// span's. Uses overlapping stores: too few pages for memset().
  void set_heads(unsigned first, unsigned count, unsigned head) noexcept {
    const std::uint64_t heads = head * 0x0101010101010101u;
    std::uint8_t* const at = head_of_page + first;
    if (count >= sizeof heads) {
      for (unsigned i = 0; i + sizeof heads < count; i += sizeof heads)
        std::memcpy(at + i, &heads, sizeof heads);
      std::memcpy(at + count - sizeof heads, &heads, sizeof heads);
    } else if (count >= sizeof heads / 2) {
      std::memcpy(at, &heads, sizeof heads / 2);
      std::memcpy(at + count - sizeof heads / 2, &heads, sizeof heads / 2);
    } else if (count != 0) {
      at[0] = at[count / 2] = at[count - 1] = static_cast<std::uint8_t>(head);
    }
  }
  PageMask idle_pages() const noexcept { return free_pages & dirty_pages; }
  bool is_free() const noexcept { return free_pages == ~PageMask{0}; }
  /// Whether one page that holds memory implies that all do.
  bool is_backed_whole() const noexcept { return is_huge && !is_split; }
};

}  // namespace strata
