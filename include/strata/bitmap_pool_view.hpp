#pragma once

#include <strata/bitmap_pool_geometry.hpp>
#include <strata/bitmap_pool_policy.hpp>
#include <strata/detail/bitmap_pool_operations.hpp>
#include <strata/detail/bits.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

namespace strata {

/// Why try_create() or try_attach() failed.
enum class BitmapPoolError {
  kNone,
  kShape,       ///< no bytes, no blocks, an alignment that is no power of two, or too large
  kMisaligned,  ///< the memory does not start at a multiple of required_alignment()
  kTooSmall,    ///< fewer than required_bytes()
  kNotAPool,    ///< try_attach: try_create() has not finished here
  kForeign,     ///< try_attach: version, word size or cache line differ from this program's
  kDamaged,     ///< try_attach: the description contradicts itself
};

constexpr const char* sentence_of(BitmapPoolError error) noexcept {
  switch (error) {
    case BitmapPoolError::kNone:
      return "no error";
    case BitmapPoolError::kShape:
      return "a bitmap pool needs blocks with bytes, an alignment that is a power of two, and no "
             "more bytes than can be addressed";
    case BitmapPoolError::kMisaligned:
      return "memory for a bitmap pool must start at a multiple of its required alignment";
    case BitmapPoolError::kTooSmall:
      return "the memory is smaller than this bitmap pool requires";
    case BitmapPoolError::kNotAPool:
      return "there is no bitmap pool in this memory";
    case BitmapPoolError::kForeign:
      return "the bitmap pool in this memory was made by a program with another layout";
    case BitmapPoolError::kDamaged:
      return "the description of the bitmap pool in this memory is damaged";
  }
  return "";
}

/// A bitmap pool in memory that the caller owns: a buffer, or a mapping that several processes
/// share, each at its own address. Sizes are chosen at run time. The view is a handle: copy it
/// freely. The pool is the memory, and lives as long. Its functions:
/// detail::bases::BitmapPoolOperations.
///
///     BitmapPoolShape shape{256, 100000};  // 100000 blocks of 256 bytes
///     const std::size_t bytes = BitmapPoolView<>::required_bytes(shape);
///     auto pool = BitmapPoolView<>::try_create(memory, bytes, shape);
///     auto same = BitmapPoolView<>::try_attach(memory_there, bytes);  // in another process
///
///   [ description | bits, one cache line per word | pad | blocks ]       only offsets, no address
///
/// A process may be killed at any step; no other ever waits for it. The blocks it held stay taken
/// (deallocate_if() frees them, if they name their owner), and so may one that it was just claiming
/// or freeing; see docs/bitmap-pool.md. Block numbers (index_of(), block()) are the same in every
/// process. A view without a pool is false and always exhausted.
template <class Policy = BitmapPoolPolicy>
class BitmapPoolView : public detail::bases::BitmapPoolOperations<BitmapPoolView<Policy>, Policy> {
 public:
  BitmapPoolView() noexcept = default;

  /// \returns  Bytes that the pool needs; 0 if the shape is impossible.
  static constexpr std::size_t required_bytes(const BitmapPoolShape& shape) noexcept {
    const auto geometry = BitmapPoolGeometry::of(shape);
    return geometry.capacity == 0 ? 0 : blocks_offset(geometry) + geometry.blocks_bytes();
  }
  /// The required alignment of the memory's start, in every process.
  static constexpr std::size_t required_alignment(const BitmapPoolShape& shape) noexcept {
    return BitmapPoolGeometry::of(shape).blocks_alignment();
  }

  /// Makes a pool in `memory`, with all blocks free.
  /// \returns  The view; a false one, with the reason in `error`, if that is impossible.
  /// \cost     A write per leaf, none per block. try_create_in_zeroed() does without: its memory
  ///           must be zero, as fresh mappings and static buffers are, and its cost is the same for
  ///           any capacity.
  /// \threads  One; others may attach once it has returned, or find that there is no pool yet.
  static BitmapPoolView try_create(void* memory, std::size_t bytes, const BitmapPoolShape& shape,
                                   BitmapPoolError* error = nullptr) noexcept {
    return try_create(memory, bytes, shape, error, true);
  }
  static BitmapPoolView try_create_in_zeroed(void* memory, std::size_t bytes,
                                             const BitmapPoolShape& shape,
                                             BitmapPoolError* error = nullptr) noexcept {
    return try_create(memory, bytes, shape, error, false);
  }

  /// Joins the pool that try_create() made in this memory, perhaps in another process.
  /// \returns  The view; a false one, with the reason in `error`, if the memory holds no such pool,
  ///           or `bytes` do not cover it.
  static BitmapPoolView try_attach(void* memory, std::size_t bytes,
                                   BitmapPoolError* error = nullptr) noexcept;

  explicit operator bool() const noexcept { return geometry_.capacity != 0; }
  const BitmapPoolGeometry& shape() const noexcept { return geometry_; }

 private:
  friend class detail::bases::BitmapPoolOperations<BitmapPoolView, Policy>;

  static constexpr std::uint32_t kMagic = 0x504d4253;  // "SBMP" in memory, on a little-endian one
  static constexpr std::uint32_t kVersion = 1;

  /// What try_attach() reads; fixed widths, so that a process of another word size can refuse.
  struct Description {
    std::atomic<std::uint32_t> magic;  // written last, with release; try_attach() acquires it
    std::uint32_t version;
    std::uint16_t word_bits;
    std::uint16_t cache_line_bytes;
    std::uint64_t block_bytes;
    std::uint64_t capacity;
    std::uint64_t alignment;
    std::uint64_t min_leaves;
    std::uint64_t total_bytes;
    std::atomic<std::uint32_t> attached;  // gives each view's process a number
  };

  static constexpr std::size_t kNodesOffset =
      detail::round_up(sizeof(Description), detail::kCacheLineBytes);
  static constexpr std::size_t blocks_offset(const BitmapPoolGeometry& geometry) noexcept {
    return detail::round_up(kNodesOffset + geometry.metadata_bytes(), geometry.blocks_alignment());
  }

  BitmapPoolView(unsigned char* memory, const BitmapPoolGeometry& geometry,
                 std::uint32_t process) noexcept
      : geometry_(geometry),
        nodes_(reinterpret_cast<detail::BitmapNode*>(memory + kNodesOffset)),
        blocks_(memory + blocks_offset(geometry)),
        process_(process) {}

  static BitmapPoolView try_create(void* memory, std::size_t bytes, const BitmapPoolShape& shape,
                                   BitmapPoolError* error, bool clear) noexcept;

  static BitmapPoolView refuse(BitmapPoolError reason, BitmapPoolError* error) noexcept {
    if (error != nullptr) *error = reason;
    return {};
  }

  const BitmapPoolGeometry& geometry() const noexcept { return geometry_; }
  detail::BitmapNode* nodes() const noexcept { return nodes_; }
  unsigned char* blocks() const noexcept { return blocks_; }
  std::uint32_t process() const noexcept { return process_; }

  /// The bits of views without a pool: no bit is usable, so it is never written.
  static inline detail::BitmapNode no_bits_{};

  BitmapPoolGeometry geometry_{};
  detail::BitmapNode* nodes_ = &no_bits_;
  unsigned char* blocks_ = nullptr;
  std::uint32_t process_ = 0;
};

template <class Policy>
BitmapPoolView<Policy> BitmapPoolView<Policy>::try_create(void* memory, std::size_t bytes,
                                                          const BitmapPoolShape& shape,
                                                          BitmapPoolError* error,
                                                          bool clear) noexcept {
  const auto geometry = BitmapPoolGeometry::of(shape);
  if (geometry.capacity == 0) return refuse(BitmapPoolError::kShape, error);
  if (!detail::is_aligned(memory, geometry.blocks_alignment())) {
    return refuse(BitmapPoolError::kMisaligned, error);
  }
  if (memory == nullptr || bytes < required_bytes(shape)) {
    return refuse(BitmapPoolError::kTooSmall, error);
  }
  auto* const base = static_cast<unsigned char*>(memory);
  auto* const description = ::new (memory) Description;
  // A pool that was here before is gone from now on. relaxed: attaching meanwhile breaks the
  // contract above.
  description->magic.store(0, std::memory_order_relaxed);
  description->version = kVersion;
  description->word_bits = detail::kBitsOf<detail::BitWord>;
  description->cache_line_bytes = detail::kCacheLineBytes;
  description->block_bytes = shape.block_bytes;
  description->capacity = shape.capacity;
  description->alignment = geometry.alignment;
  description->min_leaves = shape.min_leaves;
  description->total_bytes = required_bytes(shape);
  description->attached.store(0, std::memory_order_relaxed);
  BitmapPoolView view(base, geometry, 0);
  if (clear) {
    for (std::size_t i = 0; i < geometry.node_count; ++i)
      ::new (&view.nodes_[i]) detail::BitmapNode;
  }
  description->magic.store(kMagic, std::memory_order_release);
  if (error != nullptr) *error = BitmapPoolError::kNone;
  return view;
}

template <class Policy>
BitmapPoolView<Policy> BitmapPoolView<Policy>::try_attach(void* memory, std::size_t bytes,
                                                          BitmapPoolError* error) noexcept {
  if (memory == nullptr || bytes < kNodesOffset) return refuse(BitmapPoolError::kTooSmall, error);
  if (!detail::is_aligned(memory, detail::kCacheLineBytes)) {
    return refuse(BitmapPoolError::kMisaligned, error);
  }
  auto* const base = static_cast<unsigned char*>(memory);
  auto* const description = reinterpret_cast<Description*>(base);
  if (description->magic.load(std::memory_order_acquire) != kMagic) {
    return refuse(BitmapPoolError::kNotAPool, error);
  }
  if (description->version != kVersion ||
      description->word_bits != detail::kBitsOf<detail::BitWord> ||
      description->cache_line_bytes != detail::kCacheLineBytes) {
    return refuse(BitmapPoolError::kForeign, error);
  }
  // Same word size, so the numbers fit; and everything else follows from them.
  const BitmapPoolShape shape{static_cast<std::size_t>(description->block_bytes),
                              static_cast<std::size_t>(description->capacity),
                              static_cast<std::size_t>(description->alignment),
                              static_cast<std::size_t>(description->min_leaves)};
  const auto geometry = BitmapPoolGeometry::of(shape);
  if (geometry.capacity == 0 || description->total_bytes != required_bytes(shape)) {
    return refuse(BitmapPoolError::kDamaged, error);
  }
  if (!detail::is_aligned(memory, geometry.blocks_alignment())) {
    return refuse(BitmapPoolError::kMisaligned, error);
  }
  if (bytes < required_bytes(shape)) return refuse(BitmapPoolError::kTooSmall, error);
  if (error != nullptr) *error = BitmapPoolError::kNone;
  // relaxed: the number need only differ from those of recent views.
  const std::uint32_t process = description->attached.fetch_add(1, std::memory_order_relaxed) + 1;
  return BitmapPoolView(base, geometry, process);
}

}  // namespace strata
