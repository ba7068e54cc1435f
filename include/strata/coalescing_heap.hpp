#pragma once

#include <strata/detail/refuse.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace strata {

namespace os {
class PageSource;
}
enum class BlockState : std::uint32_t;
class ArenaHeap;
struct HeapArena;

/// Blocks of any size inside one contiguous region that never grows: two-level segregated fit
/// (TLSF) over boundary tags. A freed block merges with its free neighbours at once, bitmaps find
/// the bin of a size, and no operation loops over blocks, so each has a worst case that
/// docs/heaps.md states and argues.
///
///   | tag | user's bytes … | tag | links …  size | tag | user's bytes … | … | end tag |
///     a tag is 8 bytes, in front of every block; two links and the size only in a free block
///
/// Always: two neighbours are never both free; a block is free if and only if the tag after it says
/// so; a free block is in the list of its size's bin; a bin's bit is set if and only if its list is
/// not empty; the blocks fill the region.
///
/// Misuse ends the program with a sentence of its own, in every build, at the next operation that
/// meets it: a double free, a foreign pointer, an overwritten tag (of the block or after it), a
/// write into a free block's links.
///
/// Bookkeeping is in band, only here on the shelf: the tags make merging constant-time for any
/// size. The bins lie in this object, 1.9 KiB.
///
/// Move-only; blocks stay where they are.
/// \threads  One at a time; ThreadHeaps gives each thread its own.
/// \source   M. Masmano, I. Ripoll, A. Crespo, J. Real, "TLSF: a New Dynamic Memory Allocator for
///           Real-Time Systems" (2004); boundary tags: D. Knuth, TAOCP vol. 1, 2.5.
class CoalescingHeap {
 public:
  static constexpr std::size_t kGranuleBytes = 16;   ///< block sizes are multiples of it
  static constexpr std::size_t kHeaderBytes = 8;     ///< in front of every block
  static constexpr std::size_t kMinBlockBytes = 32;  ///< tag included
  static constexpr std::size_t kMaxRegionBytes = std::size_t{1} << 34;

  /// Reserves a region of `bytes`, rounded up to OS pages; memory is used only as it is touched.
  /// `pages`, which replaces the kernel, is for Strata's own tests: no public header has the type.
  /// \errors  std::invalid_argument with a sentence if bytes is 0 or above kMaxRegionBytes;
  ///          std::bad_alloc if the kernel refuses. Without exceptions the sentence ends the
  ///          program: use try_create().
  /// \cost    One system call.
  STRATA_MAY_REFUSE explicit CoalescingHeap(std::size_t bytes)
      : CoalescingHeap(detail::made_or_refused(
            [&](const char** reason) { return try_create(bytes, reason); }, kRefused)) {}
  STRATA_MAY_REFUSE CoalescingHeap(std::size_t bytes, os::PageSource& pages)
      : CoalescingHeap(detail::made_or_refused(
            [&](const char** reason) { return try_create(bytes, reason, &pages); }, kRefused)) {}

  /// Manages the caller's memory, of any alignment, which must outlive this object. Memory beyond
  /// kMaxRegionBytes stays unused.
  /// \errors  std::invalid_argument with a sentence if not one block fits.
  STRATA_MAY_REFUSE CoalescingHeap(void* region, std::size_t bytes)
      : CoalescingHeap(detail::made_or_refused(
            [&](const char** reason) { return try_create(region, bytes, reason); })) {}

  /// The same without exceptions.
  /// \returns  The heap, or nothing; then *reason is one sentence in static memory.
  static std::optional<CoalescingHeap> try_create(std::size_t bytes, const char** reason = nullptr,
                                                  os::PageSource* pages = nullptr) noexcept;
  static std::optional<CoalescingHeap> try_create(void* region, std::size_t bytes,
                                                  const char** reason = nullptr) noexcept;

  /// Releases the region it reserved, with blocks still in use.
  /// \cost  One system call; in the caller's memory linear in the blocks.
  ~CoalescingHeap();
  /// `other` has no region afterwards: it refuses every request.
  CoalescingHeap(CoalescingHeap&& other) noexcept { swap(other); }
  CoalescingHeap& operator=(CoalescingHeap&& other) noexcept;
  CoalescingHeap(const CoalescingHeap&) = delete;
  CoalescingHeap& operator=(const CoalescingHeap&) = delete;

  /// \returns  At least `bytes` bytes (for 0, a block of the smallest size), contents unspecified,
  ///           aligned to 16; nullptr if no free block is large enough. One that is, but by less
  ///           than 1/16, may be overlooked: in that size's own bin only the first is tried.
  /// \cost     Constant: at most seven bitmap words, one bin, one split.
  void* allocate(std::size_t bytes) noexcept;

  /// The same at a multiple of `alignment`, which must be a power of two. The tag stays directly in
  /// front of the block; the space before it becomes a free block.
  /// \returns  The block; nullptr also if no free block is large enough wherever alignment puts it.
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept;

  /// Frees a block and merges it with its free neighbours; ignores nullptr.
  /// \cost     Constant: two merges, one bin.
  void deallocate(void* block) noexcept;

  /// Resizes a block: in place if it shrinks or the free block after it is large enough, else it
  /// moves and is then aligned to 16. nullptr as `block` allocates; 0 bytes shrink it and do not
  /// free it.
  /// \returns  The block, with its contents up to the smaller size; nullptr, with the old block
  ///           untouched, if no memory is left.
  /// \cost     Constant, plus the copy when it moves.
  void* reallocate(void* block, std::size_t bytes) noexcept;

  /// \returns  The usable bytes of a live block, at least the size requested.
  std::size_t usable_size(const void* block) const noexcept;

  /// \returns  A size that allocate() can serve now, less than 1/16 below the largest such; 0 if
  ///           nothing is free.
  /// \cost     Constant.
  std::size_t largest_free_block() const noexcept;

  /// True if the address lies anywhere in the region.
  bool owns(const void* address) const noexcept;

  /// allocate() under the name that the adapters call.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return allocate(bytes, alignment);
  }

  std::size_t capacity_bytes() const noexcept;  ///< all blocks with their tags, free or not
  std::size_t used_bytes() const noexcept;      ///< live blocks with their tags
  std::size_t live_blocks() const noexcept { return live_blocks_; }

  struct Block {
    void* address;      ///< of the user's bytes
    std::size_t bytes;  ///< usable
    bool is_free;
  };

  /// Calls visit(Block) for every block in address order. The visitor must not change the heap.
  template <typename Visitor>
  void walk(Visitor&& visit) const {
    Block block{};
    for (std::uint32_t index = 0; (index = next_block(index, block)) != 0;) visit(block);
  }

  /// Decommits the whole OS pages inside free blocks; they read as zero when used again. Does
  /// nothing in a caller's region.
  /// \returns  The bytes of memory returned; only pages that were touched count.
  /// \cost     Two system calls per free block with a page not yet returned, one more for each 16
  ///           MiB of it.
  std::size_t trim() noexcept;

  /// Aborts unless the whole structure is sound. For tests.
  /// \cost  linear in the blocks
  void check_invariants() const noexcept;

 private:
  friend class ArenaHeap;
  friend struct HeapArena;
  struct FreeBlock;

  /// Enough for every size of a region of kMaxRegionBytes.
  static constexpr std::uint32_t kWords = 7;
  static constexpr std::uint32_t kBins = kWords * 64;

  static const char kRefused[];

  CoalescingHeap() noexcept = default;
  void swap(CoalescingHeap& other) noexcept;
  bool adopt_region(void* region, std::size_t bytes) noexcept;
  void free_tags() noexcept;
  FreeBlock* at(std::uint32_t index) const noexcept;
  std::uint32_t index_of_live(const void* user) const noexcept;
  std::uint32_t find(std::uint32_t bin) const noexcept;
  std::uint32_t find_above(std::uint32_t word) const noexcept;
  void* allocate_untabled(std::size_t bytes) noexcept;
  std::uint32_t allocate_several(std::size_t bytes, void** blocks, std::uint32_t count) noexcept;
  void deallocate_joined(void* first, std::uint32_t granules, std::uint32_t count) noexcept;
  template <typename Request>
  void* serve(std::uint32_t granules, const Request& request) noexcept;
  void* take_whole(std::uint32_t index, std::uint32_t granules) noexcept;
  void link(FreeBlock* block, std::uint32_t index, std::uint32_t granules) noexcept;
  void unlink(std::uint32_t index, std::uint32_t granules) noexcept;
  void clear_bit(std::uint32_t bin, bool is_empty) noexcept;
  std::uint32_t pop(FreeBlock* block, std::uint32_t bin) noexcept;
  void make_free(std::uint32_t index, std::uint32_t granules, BlockState state) noexcept;
  void* take(std::uint32_t index, std::uint32_t found, std::uint32_t wanted,
             bool previous_is_free) noexcept;
  bool resize_in_place(void* block, std::size_t bytes) noexcept;
  void merge(std::uint32_t index, std::uint32_t granules, std::uint32_t behind) noexcept;
  std::uint32_t next_block(std::uint32_t index, Block& block) const noexcept;
  static std::uint32_t first_paged_bin() noexcept;

  /// How to return pages, and the result.
  struct Sweep {
    bool ages_first = false;  // returns a block at its second visit, if untouched since the first
    std::size_t kept_bytes = 0;  // at the start of each block
    bool counts_memory = false;  // else returned memory is not counted
    bool is_young = false;       // a block aged
    bool has_returned = false;
    std::size_t returned_bytes = 0;
  };
  const char* last_used() const noexcept;
  void sweep_from(std::uint32_t bin, os::PageSource& pages, Sweep& sweep) noexcept;
  void sweep_bin(std::uint32_t bin, os::PageSource& pages, Sweep& sweep) noexcept;

  char* base_ = nullptr;  // the tag of block i is at base_ + 16 * i; the first block is 1
  // The two counters are not adjacent: a compiler that adds to both at once would make each call
  // wait for the two stores of the call before.
  std::uint32_t used_granules_ = 0;
  std::uint32_t end_ = 1;  // index of the end tag, which is never free
  std::uint32_t live_blocks_ = 0;
  std::uint64_t words_[kWords] = {};  // bit b of word w: bin 64 * w + b is not empty
  std::uint32_t heads_[kBins] = {};   // index of a bin's first block, 0 if there is none
  os::PageSource* pages_ = nullptr;   // source of region_; nullptr if it is the caller's
  void* region_ = nullptr;
  std::size_t region_bytes_ = 0;
};

}  // namespace strata
