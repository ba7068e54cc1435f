#pragma once

#include <strata/detail/bits.hpp>
#include <strata/detail/block_stack.hpp>
#include <strata/detail/cache_line.hpp>
#include <strata/detail/hints.hpp>
#include <strata/detail/misuse.hpp>
#include <strata/detail/refuse.hpp>
#include <strata/detail/sanitizer.hpp>
#include <strata/page_arena.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace strata {

/// Equal blocks for one thread, without a fixed capacity: takes memory page by page from a
/// PageArena, which others may use, too. So several allocators, each with its own block size, share
/// one budget without dividing it beforehand. Pages stay until the arena is reset.
///
///   page:  [ block | block | … | a bit per block, 1 = free, and where the next page is ]
///
/// The lowest free block of a page comes first; a new page is taken only when all blocks are in
/// use. Never writes to a free block. Every bad free ends the program with a sentence.
///
/// Owns no memory: the arena must outlive it, and must not be moved or reset meanwhile. Move-only.
/// Once constructed, it never throws; it needs no RTTI.
/// \threads  One at a time, for all that share the arena.
class GrowingBlockAllocator {
 public:
  static constexpr std::size_t kMinBlockBytes = 8;
  static constexpr std::size_t kDefaultAlignment = alignof(std::max_align_t);

  /// \errors  std::invalid_argument with a sentence if block_bytes is below 8, the alignment is no
  ///          power of two, or no such block fits into a page. Without exceptions the sentence ends
  ///          the program: use try_create().
  /// \cost    Takes no page yet.
  STRATA_MAY_REFUSE GrowingBlockAllocator(PageArena& arena, std::size_t block_bytes,
                                          std::size_t alignment = kDefaultAlignment)
      : GrowingBlockAllocator(detail::made_or_refused([&](const char** reason) {
          return try_create(arena, block_bytes, alignment, reason);
        })) {}

  /// The same without exceptions.
  /// \returns  The allocator, or nothing; then *reason is one sentence in static memory.
  static std::optional<GrowingBlockAllocator> try_create(PageArena& arena, std::size_t block_bytes,
                                                         std::size_t alignment = kDefaultAlignment,
                                                         const char** reason = nullptr) noexcept {
    if (block_bytes < kMinBlockBytes) return detail::refused(kBlockTooSmall, reason);
    if (!detail::is_power_of_two(alignment)) return detail::refused(kBadAlignment, reason);
    const Shape shape(arena, block_bytes, alignment);
    if (shape.blocks_per_page == 0) return detail::refused(kTooLarge, reason);
    if (reason != nullptr) *reason = nullptr;
    return GrowingBlockAllocator(shape);
  }

  /// Afterwards `other` has no pages; it takes its next ones from the same arena.
  GrowingBlockAllocator(GrowingBlockAllocator&& other) noexcept
      : shape_(other.shape_), held_(std::exchange(other.held_, Held())) {}
  GrowingBlockAllocator& operator=(GrowingBlockAllocator&& other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(held_, other.held_);
    return *this;
  }
  GrowingBlockAllocator(const GrowingBlockAllocator&) = delete;
  GrowingBlockAllocator& operator=(const GrowingBlockAllocator&) = delete;
  ~GrowingBlockAllocator() {
    for (Page* page = held_.newest; page != nullptr; page = page->older)
      detail::asan_unpoison(blocks_of(page), page_bytes_of_blocks());
  }

  /// Claims one block.
  /// \returns  block_bytes() bytes aligned to alignment(), contents unspecified; nullptr if all are
  ///           in use and the arena has no page left.
  /// \cost     Constant, except that it walks over the words of a page's bits, 64 blocks each, when
  ///           one is used up. No system call.
  void* allocate() noexcept {
    Page* page = held_.open;
    if (detail::is_unlikely(page == nullptr)) {
      page = take_page();
      if (page == nullptr) return nullptr;
    }
    Word& bits = bits_of(page)[page->first_open];
    const std::size_t index = page->first_open * kWordBits + detail::count_trailing_zeros(bits);
    bits &= bits - 1;
    if (detail::is_unlikely(bits == 0)) leave_word(page);
    ++held_.in_use;
    void* block = blocks_of(page) + index * shape_.stride;
    detail::asan_unpoison(block, shape_.block_bytes);
    return block;
  }

  /// allocate() for adapters: nullptr also if a block is too small or not aligned enough.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes <= shape_.block_bytes && alignment <= shape_.alignment ? allocate() : nullptr;
  }

  /// Frees a block; ignores nullptr.
  /// \errors  Anything but a live block of this allocator ends the program with a sentence: not its
  ///          memory, inside a block, already free (or never handed out).
  /// \cost    Constant.
  void deallocate(void* block) noexcept {
    Page* page = page_of(block);
    if (detail::is_unlikely(page == nullptr)) return reject(block);
    const std::size_t index = shape_.divider.quotient(offset_of(block));
    if (detail::is_unlikely(index >= shape_.blocks_per_page)) return reject(block);
    const Word bit = Word{1} << (index % kWordBits);
    const std::size_t word = index / kWordBits;
    Word& bits = bits_of(page)[word];
    if (detail::is_unlikely((bits & bit) != 0)) return reject(block);
    bits |= bit;
    if (word < page->first_open) open_word(page, word);
    --held_.in_use;
    detail::asan_poison(block, shape_.stride);
  }

  /// Makes all blocks free and fresh again, even those still in use; the pages stay.
  /// \cost  One write per page, and one per 64 blocks.
  void reset() noexcept {
    held_.open = nullptr;
    held_.in_use = 0;
    for (Page* page = held_.newest; page != nullptr; page = page->older) make_fresh(page);
  }

  /// \returns  True if p points to or into one of the blocks, free or not.
  bool owns(const void* p) const noexcept {
    return page_of(p) != nullptr && offset_of(p) < page_bytes_of_blocks();
  }

  std::size_t block_bytes() const noexcept { return shape_.block_bytes; }
  std::size_t alignment() const noexcept { return shape_.alignment; }
  std::size_t blocks_per_page() const noexcept { return shape_.blocks_per_page; }
  std::size_t in_use() const noexcept { return held_.in_use; }
  /// Pages taken from the arena so far.
  std::size_t pages() const noexcept { return held_.pages; }

  /// Checks the whole structure and ends the program at an inconsistency. For tests.
  void check_invariants() const noexcept;

 private:
  using Word = std::uint64_t;
  static constexpr std::size_t kWordBits = detail::kBitsOf<Word>;

  /// The end of a page, on a cache line of its own; the words of bits follow.
  /// Always: first_open is the first word that is not 0, or the number of words if all blocks are
  /// in use; the page is in the list of open ones unless they are.
  struct Page {
    std::uintptr_t owner;  // the allocator's; a page left by an earlier one has another
    Page* older;
    Page* next_open;
    std::size_t first_open;
  };
  static_assert(sizeof(Page) % alignof(Word) == 0, "the words follow");

  static constexpr char kBlockTooSmall[] = "GrowingBlockAllocator: the block size is below 8 bytes";
  static constexpr char kBadAlignment[] =
      "GrowingBlockAllocator: the alignment is not a power of two";
  static constexpr char kTooLarge[] =
      "GrowingBlockAllocator: not one block fits into a page of the arena";
  static constexpr char kBroken[] = "internal error, please report: a page contradicts itself";

  /// What does not change.
  struct Shape {
    /// As many blocks as fit into a page, perhaps none.
    Shape(PageArena& shared, std::size_t bytes, std::size_t aligned_to) noexcept
        : arena(&shared),
          block_bytes(bytes),
          alignment(aligned_to),
          page_bytes(shared.page_size()) {
      if (bytes > page_bytes || alignment > page_bytes) return;
      stride = detail::round_up(bytes, alignment < kMinBlockBytes ? kMinBlockBytes : alignment);
      divider = detail::ExactDivider(stride);
      // With a bit each, no more fit; the record takes the place of a few.
      for (std::size_t blocks = 8 * page_bytes / (8 * stride + 1); blocks != 0; --blocks) {
        const std::size_t record =
            sizeof(Page) + detail::divide_rounding_up(blocks, kWordBits) * sizeof(Word);
        record_offset = detail::round_down(page_bytes - record, detail::kCacheLineBytes);
        if (blocks * stride > record_offset) continue;
        blocks_per_page = blocks;
        return;
      }
    }

    PageArena* arena;
    std::size_t block_bytes;
    std::size_t alignment;
    std::size_t page_bytes;
    std::size_t stride = 0;
    std::size_t record_offset = 0;  // from a page's start
    std::size_t blocks_per_page = 0;
    detail::ExactDivider divider{1};
  };

  /// Odd, so that products of different numbers differ; they resemble no other word.
  static constexpr auto kSpread = static_cast<std::uintptr_t>(0x9e3779b97f4a7c15u);
  /// The owner of no page: the product of 1. An unwritten page says 0.
  static constexpr std::uintptr_t kNobody = kSpread;
  // relaxed: the numbers need only differ.
  static inline std::atomic<std::uintptr_t> last_number_{1};
  static std::uintptr_t new_owner() noexcept {
    return kSpread * (last_number_.fetch_add(1, std::memory_order_relaxed) + 1);
  }

  /// The pages taken from the arena, and their owner.
  struct Held {
    Page* open = nullptr;    // pages with a free block, latest freed into first
    Page* newest = nullptr;  // all pages
    std::uintptr_t owner = kNobody;
    std::size_t in_use = 0;
    std::size_t pages = 0;
  };

  explicit GrowingBlockAllocator(const Shape& shape) noexcept : shape_(shape) {}

  std::size_t words_per_page() const noexcept {
    return detail::divide_rounding_up(shape_.blocks_per_page, kWordBits);
  }
  std::size_t page_bytes_of_blocks() const noexcept {
    return shape_.blocks_per_page * shape_.stride;
  }
  std::size_t offset_of(const void* p) const noexcept {
    return detail::address_of(p) & (shape_.page_bytes - 1);
  }
  static Word* bits_of(Page* page) noexcept { return reinterpret_cast<Word*>(page + 1); }
  static const Word* bits_of(const Page* page) noexcept {
    return reinterpret_cast<const Word*>(page + 1);
  }
  char* blocks_of(Page* page) const noexcept {
    return reinterpret_cast<char*>(page) - shape_.record_offset;
  }

  /// Reads the owner where our pages have it; the page may be another user's of the arena.
  [[gnu::no_sanitize_address]] static std::uintptr_t owner_in(const Page* record) noexcept {
    return record->owner;
  }

  /// \returns  The record of the page in which p lies; nullptr if it is not ours.
  Page* page_of(const void* p) const noexcept {
    if (detail::is_unlikely(!shape_.arena->owns(p))) return nullptr;
    auto* page = reinterpret_cast<Page*>((detail::address_of(p) & ~(shape_.page_bytes - 1)) +
                                         shape_.record_offset);
    return owner_in(page) == held_.owner ? page : nullptr;
  }

  [[gnu::cold, gnu::noinline]] Page* take_page() noexcept {
    auto* start = static_cast<char*>(shape_.arena->allocate_page());
    if (start == nullptr) return nullptr;
    auto* page = reinterpret_cast<Page*>(start + shape_.record_offset);
    if (held_.newest == nullptr) held_.owner = new_owner();
    page->owner = held_.owner;
    page->older = held_.newest;
    held_.newest = page;
    ++held_.pages;
    make_fresh(page);
    return page;
  }

  void make_fresh(Page* page) noexcept {
    const std::size_t words = words_per_page();
    for (std::size_t i = 0; i < words; ++i) bits_of(page)[i] = ~Word{0};
    bits_of(page)[words - 1] =
        detail::low_bits<Word>(static_cast<unsigned>((shape_.blocks_per_page - 1) % kWordBits + 1));
    page->first_open = 0;
    page->next_open = held_.open;
    held_.open = page;
    detail::asan_poison(blocks_of(page), page_bytes_of_blocks());
  }

  /// Called when the first word with a free block has none left.
  void leave_word(Page* page) noexcept {
    const std::size_t words = words_per_page();
    do {
      if (++page->first_open == words) {
        held_.open = page->next_open;
        return;
      }
    } while (bits_of(page)[page->first_open] == 0);
  }

  /// Called when a word below the first with a free block gets one.
  void open_word(Page* page, std::size_t word) noexcept {
    if (page->first_open == words_per_page()) {
      page->next_open = held_.open;
      held_.open = page;
    }
    page->first_open = word;
  }

  [[gnu::cold, gnu::noinline]] void reject(const void* block) const noexcept {
    if (block == nullptr) return;
    const std::size_t index = shape_.divider.quotient(offset_of(block));
    detail::accuse("free of ", block,
                   !owns(block)                      ? detail::BadPointer::kForeign
                   : index >= shape_.blocks_per_page ? detail::BadPointer::kInside
                                                     : detail::BadPointer::kAlreadyFree);
  }

  Shape shape_;
  Held held_;
};

inline void GrowingBlockAllocator::check_invariants() const noexcept {
  std::size_t pages = 0, free = 0, open = 0;
  for (const Page* page = held_.newest; page != nullptr; page = page->older, ++pages) {
    std::size_t first_open = words_per_page();
    for (std::size_t i = words_per_page(); i-- != 0;) {
      if (bits_of(page)[i] == 0) continue;
      first_open = i;
      free += detail::popcount(bits_of(page)[i]);
    }
    if (page->owner != held_.owner || page->first_open != first_open) detail::misuse(kBroken);
    open += first_open != words_per_page();
  }
  for (const Page* page = held_.open; page != nullptr; page = page->next_open, --open) {
    if (page->first_open == words_per_page() || open == 0) detail::misuse(kBroken);
  }
  if (open != 0 || pages != held_.pages || held_.in_use + free != pages * shape_.blocks_per_page)
    detail::misuse(kBroken);
}

}  // namespace strata
