#pragma once

#include <strata/checks.hpp>
#include <strata/detail/bits.hpp>
#include <strata/detail/block_stack.hpp>
#include <strata/detail/cache_line.hpp>
#include <strata/detail/cell_stride.hpp>
#include <strata/detail/hints.hpp>
#include <strata/detail/misuse.hpp>
#include <strata/detail/refuse.hpp>
#include <strata/detail/sanitizer.hpp>
#include <strata/page_arena.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <optional>
#include <utility>

namespace strata {

/// The sizes of an allocator's classes: SizeClassAllocator sizes({32, 64, 128}). A type of its own,
/// so that SizeClassAllocator{1 << 16} does not compile as one class of 65536 bytes. The list lives
/// until the end of the call that it is passed to.
class SizeClasses {
 public:
  constexpr SizeClasses(std::initializer_list<std::size_t> bytes) noexcept  // NOLINT: a list is one
      : bytes_(bytes) {}
  constexpr const std::size_t* data() const noexcept { return bytes_.begin(); }
  constexpr std::size_t size() const noexcept { return bytes_.size(); }

 private:
  std::initializer_list<std::size_t> bytes_;
};

/// A few small sizes for one thread. The smallest class that holds a request serves it. Each class
/// is a run of equal blocks; all runs have one size, so that a block's address tells its class.
///
///   [ run of class 0 | run of class 1 | … | class table, one byte per 8 bytes of size ]
///     run_bytes() each, a power of two
///
/// A block is aligned to the largest power of two that divides its class's size, up to an OS page.
/// SizeClassAllocator, the default, ends the program with a sentence at every bad free;
/// UncheckedSizeClassAllocator trusts the caller.
///
/// Move-only. Owns its arena unless it was given one, which must outlive it.
/// \threads  One at a time.
template <Checks kChecks>
class BasicSizeClassAllocator {
  /// A cache line each: a shift finds a class, and no two share a line.
  struct alignas(detail::kCacheLineBytes) Stack : detail::BlockStack<detail::CellStride, kChecks> {
    using detail::BlockStack<detail::CellStride, kChecks>::BlockStack;
  };

 public:
  static constexpr std::size_t kDefaultRunBytes = std::size_t{1} << 20;
  static constexpr std::size_t kMaxRunBytes = std::size_t{1} << 31;  ///< offsets are 32 bits
  static constexpr std::size_t kMaxClasses = 255;                    ///< one byte tells a class
  static constexpr std::size_t kMaxAlignment = 4096;  ///< the smallest OS page: runs start on one

  /// 32, 64, 128 and 256 bytes, a run of 1 MiB each.
  STRATA_MAY_REFUSE BasicSizeClassAllocator() : BasicSizeClassAllocator({32, 64, 128, 256}) {}

  /// These sizes, ascending, rounded up to multiples of 8. Each has a run of `bytes_per_class`,
  /// rounded up to a power of two, which includes its bookkeeping: 9 bytes for a block whose size
  /// is a power of two, else 8 and one for each largest power of two in it (48 bytes are three
  /// times 16, so 11).
  /// \errors  std::invalid_argument with a sentence for a list that is empty, longer than 255, not
  ///          ascending or with a 0 in it, and for a run above 2 GiB or without room for a block of
  ///          its class; std::bad_alloc if the memory is refused. Without exceptions the sentence
  ///          ends the program: use try_create().
  /// \cost    One system call. Writes the class table and a cache line per class. Runs are not
  ///          touched before they are used.
  STRATA_MAY_REFUSE explicit BasicSizeClassAllocator(SizeClasses classes,
                                                     std::size_t bytes_per_class = kDefaultRunBytes)
      : BasicSizeClassAllocator(detail::made_or_refused(
            [&](const char** reason) {
              return try_create(classes.data(), classes.size(), bytes_per_class, nullptr, reason);
            },
            kNoMemory)) {}

  /// The same on pages of `arena`.
  /// \cost  Writes the class table, and at most an eighth of the run of each class that is no power
  ///        of two.
  STRATA_MAY_REFUSE BasicSizeClassAllocator(PageArena& arena, SizeClasses classes,
                                            std::size_t bytes_per_class = kDefaultRunBytes)
      : BasicSizeClassAllocator(detail::made_or_refused(
            [&](const char** reason) {
              return try_create(classes.data(), classes.size(), bytes_per_class, &arena, reason);
            },
            kNoMemory)) {}

  /// The same without exceptions; with nullptr as `arena`, over one of its own.
  /// \returns  The allocator, or nothing; then *reason is one sentence in static memory.
  static std::optional<BasicSizeClassAllocator> try_create(
      const std::size_t* classes, std::size_t class_count,
      std::size_t bytes_per_class = kDefaultRunBytes, PageArena* arena = nullptr,
      const char** reason = nullptr) noexcept;

  BasicSizeClassAllocator(BasicSizeClassAllocator&& other) noexcept { swap(other); }
  BasicSizeClassAllocator& operator=(BasicSizeClassAllocator&& other) noexcept {
    swap(other);
    return *this;
  }
  BasicSizeClassAllocator(const BasicSizeClassAllocator&) = delete;
  BasicSizeClassAllocator& operator=(const BasicSizeClassAllocator&) = delete;
  ~BasicSizeClassAllocator() { detail::asan_unpoison(begin_, class_count_ << run_shift_); }

  /// Claims a block of the smallest class that holds `size` bytes; 0 counts as 1.
  /// \returns  The block, contents unspecified; nullptr if that class has none left.
  /// \errors   For a size above largest_class(), std::length_error with a sentence, which ends a
  ///           program without exceptions.
  /// \cost     A table lookup more than BlockAllocator::allocate().
  STRATA_MAY_REFUSE void* allocate(std::size_t size) {
    if (detail::is_unlikely(size > largest_class_)) detail::refuse_length(kTooLarge);
    return allocate_from(stacks_[class_of(size)]);
  }

  /// The same; sets `class_size` to the size of the block, for deallocate(p, class_size).
  STRATA_MAY_REFUSE void* allocate(std::size_t size, std::size_t& class_size) {
    if (detail::is_unlikely(size > largest_class_)) detail::refuse_length(kTooLarge);
    Stack& stack = stacks_[class_of(size)];
    class_size = stack.stride_bytes();
    return allocate_from(stack);
  }

  /// The same, but nullptr for a size above largest_class().
  void* try_allocate(std::size_t size) noexcept {
    return size > largest_class_ ? nullptr : allocate_from(stacks_[class_of(size)]);
  }

  /// The same for adapters: a block of the smallest class that is large and aligned enough.
  void* try_allocate(std::size_t size, std::size_t alignment) noexcept {
    if (size > largest_class_ || alignment > kMaxAlignment) return nullptr;
    std::size_t i = class_of(size);
    while (i < class_count_ && (stacks_[i].stride_bytes() & (alignment - 1)) != 0) ++i;
    return i < class_count_ ? allocate_from(stacks_[i]) : nullptr;
  }

  /// Frees a block of any class; ignores nullptr.
  /// \errors  With checks, anything but a live block of this allocator ends the program with a
  ///          sentence.
  void deallocate(void* block) noexcept {
    const std::size_t run = run_of(block);
    if (is_outside(run, block)) return reject_foreign(block);
    deallocate_to(stacks_[run], block);
  }

  /// The same with the size that allocate() set.
  /// \errors  With checks, also if the block is of another class.
  void deallocate(void* block, std::size_t class_size) noexcept {
    const std::size_t run = run_of(block);
    if (is_outside(run, block)) return reject_foreign(block);
    if constexpr (kChecks == Checks::kAlways) {
      if (detail::is_unlikely(stacks_[run].stride_bytes() != class_size)) {
        detail::misuse("free of ", block, ": it is not a block of the class given");
      }
    }
    deallocate_to(stacks_[run], block);
  }

  /// Makes all blocks free and fresh again, even those still in use.
  void reset() noexcept {
    for (std::size_t i = 0; i < class_count_; ++i) stacks_[i].forget_all();
    poison_everything();
  }

  /// \returns  True if p points to or into a block, free or not.
  bool owns(const void* p) const noexcept {
    const std::size_t run = run_of(p);
    return run < class_count_ && stacks_[run].contains(p);
  }

  /// \returns  The size of the block's class; p must be a block of this allocator.
  std::size_t class_size_of(const void* p) const noexcept {
    return stacks_[run_of(p)].stride_bytes();
  }

  std::size_t class_count() const noexcept { return class_count_; }
  std::size_t largest_class() const noexcept { return largest_class_; }
  std::size_t class_bytes(std::size_t i) const noexcept { return stacks_[i].stride_bytes(); }
  std::size_t capacity(std::size_t i) const noexcept { return stacks_[i].capacity(); }
  std::size_t in_use(std::size_t i) const noexcept { return stacks_[i].live(); }

  /// Checks the whole structure and ends the program at an inconsistency. For tests.
  void check_invariants() const noexcept {
    for (std::size_t i = 0; i < class_count_; ++i) stacks_[i].check_invariants();
  }

 private:
  // Eight: no class is smaller, and alignment to a pointer comes with it.
  static constexpr std::size_t kGranule = 8;

  static constexpr char kNoClasses[] = "SizeClassAllocator: the list of classes is empty";
  static constexpr char kTooMany[] = "SizeClassAllocator: there are more than 255 classes";
  static constexpr char kNoBytes[] = "SizeClassAllocator: a class has no bytes";
  static constexpr char kNotAscending[] =
      "SizeClassAllocator: a class is not larger than the one before, in steps of 8";
  static constexpr char kRunTooSmall[] = "SizeClassAllocator: a run holds no block of its class";
  static constexpr char kRunTooLarge[] = "SizeClassAllocator: a run is above 2 GiB";
  static constexpr char kNoMemory[] = "SizeClassAllocator: the memory for its runs is refused";
  static constexpr char kTooLarge[] = "SizeClassAllocator: the size is above the largest class";

  BasicSizeClassAllocator(std::nullopt_t) noexcept {}

  static constexpr std::size_t class_size_for(std::size_t size) noexcept {
    return detail::round_up(size, kGranule);
  }
  static constexpr std::size_t capacity_for(std::size_t class_size,
                                            std::size_t run_bytes) noexcept {
    // A class that is larger than the run has neither a stride nor a block.
    return class_size >= run_bytes
               ? 0
               : detail::BlockLayout::capacity_for(
                     class_size, run_bytes,
                     detail::CellStride(static_cast<std::uint32_t>(class_size)).cells());
  }
  static const char* reason_against(const std::size_t* classes, std::size_t count,
                                    std::size_t run_bytes) noexcept;
  void lay_out(char* memory, const std::size_t* classes, std::size_t count) noexcept;

  std::size_t class_of(std::size_t size) const noexcept {
    return class_table_[(size + kGranule - 1) / kGranule];
  }
  std::size_t run_of(const void* p) const noexcept {
    return (detail::address_of(p) - detail::address_of(begin_)) >> run_shift_;
  }

  // True if the block is in no run: foreign or nullptr. Without checks only nullptr is tested.
  bool is_outside(std::size_t run, const void* block) const noexcept {
    return kChecks == Checks::kAlways ? detail::is_unlikely(run >= class_count_) : block == nullptr;
  }

  static void* allocate_from(Stack& stack) noexcept {
    void* block = stack.take();
    if (block != nullptr) detail::asan_unpoison(block, stack.stride_bytes());
    return block;
  }

  static void deallocate_to(Stack& stack, void* block) noexcept {
    if constexpr (kChecks == Checks::kAlways) {
      if (detail::is_unlikely(!stack.mark_free(block))) {
        detail::accuse("free of ", block, stack.fault_of(block));
      }
    }
    detail::asan_poison(block, stack.stride_bytes());
    stack.push(block);
  }

  [[gnu::cold, gnu::noinline]] static void reject_foreign(const void* block) noexcept {
    if (block != nullptr) detail::accuse("free of ", block, detail::BadPointer::kForeign);
  }

  void poison_everything() noexcept {
    for (std::size_t i = 0; i < class_count_; ++i) {
      detail::asan_poison(stacks_[i].blocks(), stacks_[i].bytes());
    }
  }

  void swap(BasicSizeClassAllocator& other) noexcept {
    std::swap(own_arena_, other.own_arena_);
    std::swap(begin_, other.begin_);
    std::swap(stacks_, other.stacks_);
    std::swap(class_table_, other.class_table_);
    std::swap(class_count_, other.class_count_);
    std::swap(largest_class_, other.largest_class_);
    std::swap(run_shift_, other.run_shift_);
  }

  /// For an allocator that was moved from, to which a request of 0 bytes is not too large. Never
  /// written, since an empty class has nothing to hand out.
  static inline Stack no_blocks_{};
  static constexpr unsigned char kNoClass = 0;

  std::optional<PageArena> own_arena_;
  char* begin_ = nullptr;
  Stack* stacks_ = &no_blocks_;  // after the runs
  /// After the stacks: size / 8, rounded up, to class.
  const unsigned char* class_table_ = &kNoClass;
  std::size_t class_count_ = 0;
  std::size_t largest_class_ = 0;
  unsigned run_shift_ = 0;
};

template <Checks kChecks>
const char* BasicSizeClassAllocator<kChecks>::reason_against(const std::size_t* classes,
                                                             std::size_t count,
                                                             std::size_t run_bytes) noexcept {
  if (count == 0) return kNoClasses;
  if (count > kMaxClasses) return kTooMany;
  std::size_t previous = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (classes[i] == 0) return kNoBytes;
    if (classes[i] > run_bytes) return kRunTooSmall;  // before it is rounded up
    const std::size_t size = class_size_for(classes[i]);
    if (size <= previous) return kNotAscending;
    if (capacity_for(size, run_bytes) == 0) return kRunTooSmall;
    previous = size;
  }
  return nullptr;
}

template <Checks kChecks>
std::optional<BasicSizeClassAllocator<kChecks>> BasicSizeClassAllocator<kChecks>::try_create(
    const std::size_t* classes, std::size_t class_count, std::size_t bytes_per_class,
    PageArena* arena, const char** reason) noexcept {
  if (bytes_per_class > kMaxRunBytes) return detail::refused(kRunTooLarge, reason);
  const std::size_t run_bytes = std::size_t{1}
                                << detail::log2_ceil(bytes_per_class == 0 ? 1 : bytes_per_class);
  if (const char* why = reason_against(classes, class_count, run_bytes))
    return detail::refused(why, reason);

  BasicSizeClassAllocator made(std::nullopt);
  made.run_shift_ = detail::count_trailing_zeros(run_bytes);
  made.largest_class_ = class_size_for(classes[class_count - 1]);
  const std::size_t bytes =
      class_count * (run_bytes + sizeof(Stack)) + made.largest_class_ / kGranule + 1;

  if (arena == nullptr) {
    constexpr std::size_t kAnyOsPage = 64 * 1024;  // a multiple of every size an OS page has
    made.own_arena_ = PageArena::try_create(detail::round_up(bytes, kAnyOsPage), 0);
    if (!made.own_arena_) return detail::refused(kNoMemory, reason);
    arena = &*made.own_arena_;
  }
  const std::size_t page = arena->page_size();
  void* memory = arena->allocate_pages(bytes / page + (bytes % page != 0));
  if (memory == nullptr) return detail::refused(kNoMemory, reason);
  made.lay_out(static_cast<char*>(memory), classes, class_count);
  if (reason != nullptr) *reason = nullptr;
  return made;
}

template <Checks kChecks>
void BasicSizeClassAllocator<kChecks>::lay_out(char* memory, const std::size_t* classes,
                                               std::size_t count) noexcept {
  begin_ = memory;
  class_count_ = count;
  const std::size_t run_bytes = std::size_t{1} << run_shift_;
  auto* behind_runs = memory + count * run_bytes;  // on a line of its own: a run is several
  stacks_ = reinterpret_cast<Stack*>(behind_runs);
  auto* table = reinterpret_cast<unsigned char*>(behind_runs + count * sizeof(Stack));
  class_table_ = table;
  std::size_t granule = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = class_size_for(classes[i]);
    const std::size_t capacity = capacity_for(size, run_bytes);
    const detail::CellStride stride(static_cast<std::uint32_t>(size));
    const auto layout = detail::BlockLayout::of(size, capacity, stride.cells());
    char* run = memory + i * run_bytes;
    char* metadata = run + layout.metadata_offset;
    // Pages of its own arena are zero. The states of blocks of one cell need no initial value.
    if (!own_arena_ && stride.cells() != 1) {
      const std::size_t state_bytes = capacity * stride.cells();
      std::memset(run + layout.bytes - state_bytes, 0, state_bytes);
    }
    ::new (static_cast<void*>(stacks_ + i)) Stack(stride, run, capacity, metadata);
    for (; granule <= size / kGranule; ++granule) table[granule] = static_cast<unsigned char>(i);
  }
  poison_everything();
}

using SizeClassAllocator = BasicSizeClassAllocator<Checks::kAlways>;
using UncheckedSizeClassAllocator = BasicSizeClassAllocator<Checks::kNever>;

}  // namespace strata
