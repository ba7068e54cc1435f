#pragma once

#include <strata/checks.hpp>
#include <strata/detail/bits.hpp>
#include <strata/detail/block_stack.hpp>
#include <strata/detail/hints.hpp>
#include <strata/detail/misuse.hpp>
#include <strata/detail/refuse.hpp>
#include <strata/detail/sanitizer.hpp>
#include <strata/page_arena.hpp>

#include <cstddef>
#include <optional>
#include <utility>

namespace strata {

/// Equal blocks for one thread, cut from a caller's buffer or from pages of a PageArena. The block
/// freed last is reused first; if none is free, fresh ones follow in address order. Never writes to
/// a free block: the list of free blocks, 9 bytes for each block, lies after the blocks.
///
/// BlockAllocator, the default, ends the program with a sentence at every bad free.
/// UncheckedBlockAllocator trusts the caller and takes about a third less time.
///
/// Owns no memory: the buffer or arena must outlive it, and the arena must not be reset meanwhile.
/// Move-only. Once constructed, it never throws; it needs no RTTI.
/// \threads  One at a time.
template <Checks kChecks>
class BasicBlockAllocator {
  using Stack = detail::BlockStack<detail::RunTimeStride, kChecks>;

 public:
  static constexpr std::size_t kMinBlockBytes = 8;
  static constexpr std::size_t kDefaultAlignment = alignof(std::max_align_t);

  /// As many blocks as fit into the buffer; buffer_bytes() gives the size needed.
  /// \errors  std::invalid_argument with a sentence if block_bytes is below 8, the alignment is no
  ///          power of two, or not one block fits. Without exceptions the sentence ends the
  ///          program: use try_create().
  /// \cost    Touches nothing; no system call.
  STRATA_MAY_REFUSE BasicBlockAllocator(void* buffer, std::size_t buffer_size,
                                        std::size_t block_bytes,
                                        std::size_t alignment = kDefaultAlignment)
      : BasicBlockAllocator(detail::made_or_refused(
            [&](const char** reason) {
              return try_create(buffer, buffer_size, block_bytes, alignment, reason);
            },
            kArenaExhausted)) {}

  /// `capacity` blocks, side by side, on pages of the arena.
  /// \errors  The same, also for a capacity of 0 or an alignment above the arena's page size;
  ///          std::bad_alloc if the arena has too few pages left.
  STRATA_MAY_REFUSE BasicBlockAllocator(PageArena& arena, std::size_t block_bytes,
                                        std::size_t capacity,
                                        std::size_t alignment = kDefaultAlignment)
      : BasicBlockAllocator(detail::made_or_refused(
            [&](const char** reason) {
              return try_create(arena, block_bytes, capacity, alignment, reason);
            },
            kArenaExhausted)) {}

  /// The same without exceptions.
  /// \returns  The allocator, or nothing; then *reason is one sentence in static memory.
  static std::optional<BasicBlockAllocator> try_create(void* buffer, std::size_t buffer_size,
                                                       std::size_t block_bytes,
                                                       std::size_t alignment = kDefaultAlignment,
                                                       const char** reason = nullptr) noexcept {
    if (!are_valid(block_bytes, alignment, reason)) return std::nullopt;
    const std::size_t stride = stride_for(block_bytes, alignment);
    const std::size_t skipped =
        (0 - detail::address_of(buffer)) & (effective_alignment(alignment) - 1);
    const std::size_t capacity =
        buffer == nullptr || buffer_size < skipped
            ? 0
            : detail::BlockLayout::capacity_for(stride, buffer_size - skipped);
    if (capacity == 0) return detail::refused(kTooSmall, reason);
    return over(static_cast<char*>(buffer) + skipped, block_bytes, alignment, capacity);
  }

  static std::optional<BasicBlockAllocator> try_create(PageArena& arena, std::size_t block_bytes,
                                                       std::size_t capacity,
                                                       std::size_t alignment = kDefaultAlignment,
                                                       const char** reason = nullptr) noexcept {
    if (!are_valid(block_bytes, alignment, reason)) return std::nullopt;
    if (alignment > arena.page_size()) return detail::refused(kOverAligned, reason);
    if (capacity == 0) return detail::refused(kNoBlocks, reason);
    const auto layout = detail::BlockLayout::of(stride_for(block_bytes, alignment), capacity);
    const std::size_t page = arena.page_size();
    void* pages = layout.stride == 0
                      ? nullptr
                      : arena.allocate_pages(layout.bytes / page + (layout.bytes % page != 0));
    if (pages == nullptr) return detail::refused(kArenaExhausted, reason);
    return over(static_cast<char*>(pages), block_bytes, alignment, capacity);
  }

  /// The size of a buffer that holds `capacity` such blocks at any start address; 0 if try_create()
  /// would refuse every buffer.
  static constexpr std::size_t buffer_bytes(std::size_t block_bytes, std::size_t capacity,
                                            std::size_t alignment = kDefaultAlignment) noexcept {
    if (!are_valid(block_bytes, alignment, nullptr) || capacity == 0) return 0;
    const auto layout = detail::BlockLayout::of(stride_for(block_bytes, alignment), capacity);
    return layout.stride == 0 ? 0 : layout.bytes + effective_alignment(alignment) - 1;
  }

  BasicBlockAllocator(BasicBlockAllocator&& other) noexcept
      : stack_(std::exchange(other.stack_, Stack())),
        block_bytes_(other.block_bytes_),
        alignment_(other.alignment_) {}
  BasicBlockAllocator& operator=(BasicBlockAllocator&& other) noexcept {
    std::swap(stack_, other.stack_);
    std::swap(block_bytes_, other.block_bytes_);
    std::swap(alignment_, other.alignment_);
    return *this;
  }
  BasicBlockAllocator(const BasicBlockAllocator&) = delete;
  BasicBlockAllocator& operator=(const BasicBlockAllocator&) = delete;
  ~BasicBlockAllocator() { detail::asan_unpoison(stack_.blocks(), stack_.bytes()); }

  /// Claims one block.
  /// \returns  block_bytes() bytes aligned to alignment(), contents unspecified; nullptr if none is
  ///           free.
  /// \cost     Constant: a branch, two loads, two stores. No system call.
  void* allocate() noexcept {
    void* block = stack_.take();
    if (block != nullptr) detail::asan_unpoison(block, block_bytes_);
    return block;
  }

  /// allocate() for adapters: nullptr also if a block is too small or not aligned enough.
  void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    return bytes <= block_bytes_ && alignment <= alignment_ ? allocate() : nullptr;
  }

  /// Frees a block. The checked form ignores nullptr; the unchecked one must not be given it.
  /// \errors  With checks, anything but a live block of this allocator ends the program with a
  ///          sentence: not its memory, inside a block, never allocated, already free.
  /// \cost    Constant: a multiplication and two branches with checks, one without.
  void deallocate(void* block) noexcept {
    if constexpr (kChecks == Checks::kAlways) {
      if (detail::is_unlikely(!stack_.mark_free(block))) return reject(block);
    }
    detail::asan_poison(block, stack_.stride_bytes());
    stack_.push(block);
  }

  /// Makes all blocks free and fresh again, even those still in use.
  void reset() noexcept {
    stack_.forget_all();
    detail::asan_poison(stack_.blocks(), stack_.bytes());
  }

  /// \returns  True if p points to or into one of the blocks, free or not.
  bool owns(const void* p) const noexcept { return stack_.contains(p); }

  std::size_t block_bytes() const noexcept { return block_bytes_; }
  std::size_t alignment() const noexcept { return alignment_; }
  /// The distance between blocks: block_bytes() rounded up to the alignment, at least to 8.
  std::size_t stride_bytes() const noexcept { return stack_.stride_bytes(); }
  std::size_t capacity() const noexcept { return stack_.capacity(); }
  std::size_t in_use() const noexcept { return stack_.live(); }
  std::size_t available() const noexcept { return stack_.capacity() - stack_.live(); }

  /// Checks the whole structure and ends the program at an inconsistency. For tests.
  void check_invariants() const noexcept { stack_.check_invariants(); }

 private:
  static constexpr char kBlockTooSmall[] = "BlockAllocator: the block size is below 8 bytes";
  static constexpr char kBadAlignment[] = "BlockAllocator: the alignment is not a power of two";
  static constexpr char kTooSmall[] = "BlockAllocator: not one block fits into the buffer";
  static constexpr char kOverAligned[] =
      "BlockAllocator: the alignment is above the arena's page size";
  static constexpr char kNoBlocks[] = "BlockAllocator: the capacity is 0";
  static constexpr char kArenaExhausted[] = "BlockAllocator: the arena has too few pages left";

  BasicBlockAllocator(Stack stack, std::size_t block_bytes, std::size_t alignment) noexcept
      : stack_(stack), block_bytes_(block_bytes), alignment_(alignment) {
    detail::asan_poison(stack_.blocks(), stack_.bytes());
  }

  static BasicBlockAllocator over(char* blocks, std::size_t block_bytes, std::size_t alignment,
                                  std::size_t capacity) noexcept {
    const auto layout = detail::BlockLayout::of(stride_for(block_bytes, alignment), capacity);
    return BasicBlockAllocator(Stack(detail::RunTimeStride(layout.stride), blocks, capacity,
                                     blocks + layout.metadata_offset),
                               block_bytes, alignment);
  }

  static constexpr bool are_valid(std::size_t block_bytes, std::size_t alignment,
                                  const char** reason) noexcept {
    const char* sentence = block_bytes < kMinBlockBytes          ? kBlockTooSmall
                           : !detail::is_power_of_two(alignment) ? kBadAlignment
                                                                 : nullptr;
    if (reason != nullptr) *reason = sentence;
    return sentence == nullptr;
  }

  // Blocks are at least 8 bytes apart, so that the bookkeeping after them is aligned.
  static constexpr std::size_t effective_alignment(std::size_t alignment) noexcept {
    return alignment < kMinBlockBytes ? kMinBlockBytes : alignment;
  }
  // 0 for a size beyond the address space, which has no layout.
  static constexpr std::size_t stride_for(std::size_t block_bytes, std::size_t alignment) noexcept {
    return detail::round_up(block_bytes, effective_alignment(alignment));
  }

  [[gnu::cold, gnu::noinline]] void reject(void* block) const noexcept {
    if (block != nullptr) detail::accuse("free of ", block, stack_.fault_of(block));
  }

  Stack stack_;
  std::size_t block_bytes_ = 0;
  std::size_t alignment_ = 0;
};

using BlockAllocator = BasicBlockAllocator<Checks::kAlways>;
using UncheckedBlockAllocator = BasicBlockAllocator<Checks::kNever>;

}  // namespace strata
