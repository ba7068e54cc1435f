#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/lock_visitor.h"
#include "central/central_list.h"
#include "central/transfer_cache.h"
#include "size_class/size_class_map.h"

namespace strata {

/// The objects of all classes, between threads: ready batches first, spans behind them.
/// What a thread cache is filled from and flushed to.
/// \threads  Any number at once; a lock per class and stage.
class Central {
 public:
  struct ClassStatistics {
    CentralList::Statistics spans;
    std::size_t in_transfer;
  };

  constexpr Central(SpanSource& spans, MetadataArena& metadata) noexcept
      : Central(spans, metadata, std::make_integer_sequence<unsigned, SizeClassMap::kCount>{}) {}

  /// Moves up to `count` objects of the class to end[-1], end[-2], …
  /// \returns  How many, at least 1 unless out of memory.
  std::size_t claim(unsigned size_class, void** end, std::size_t count) noexcept;

  /// Claims one object past the ready stage, anywhere in its span.
  /// \returns  nullptr when out of memory
  void* claim_at_random(unsigned size_class, std::uint64_t random) noexcept {
    return lists_[size_class].claim_at_random(random);
  }

  /// Takes back objects of the class, the ready stage first.
  void release(unsigned size_class, void* const* objects, std::size_t count) noexcept;

  /// Takes back objects into their spans at once, verified: what is wrong with them is fatal here.
  void release_to_spans(unsigned size_class, void* const* objects, std::size_t count) noexcept {
    lists_[size_class].release(objects, count);
  }

  /// Moves what lay in the ready stage unneeded since the last call to its spans, and returns the
  /// holes of spans that were left alone since.
  /// \returns  bytes given back to the kernel
  std::size_t release_unneeded() noexcept;
  /// Moves all of the ready stage to its spans, and returns all holes.
  /// \returns  bytes given back
  std::size_t release_all() noexcept;

  /// Moves all of the ready stage to its spans, of the classes below `end_class`.
  void flush_ready(unsigned end_class = SizeClassMap::kCount) noexcept;

  /// Bytes in the ready stage: a hint, without a lock.
  std::size_t ready_bytes() const noexcept {
    const std::ptrdiff_t bytes = ready_bytes_.load(std::memory_order_relaxed);
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
  }

  ClassStatistics statistics(unsigned size_class) noexcept {
    return {lists_[size_class].statistics(), transfers_[size_class].size()};
  }
  void check_invariants() noexcept;

  void for_each_lock(LockVisitor visit) noexcept;

 private:
  // Chosen: two batches of the small classes pass without a span being touched, and what lies here
  // stays below 64 KiB a class, 4 objects of the largest ones.
  static constexpr std::size_t kTransferBytes = 64 * 1024;
  static constexpr std::size_t kMinTransferObjects = 4;
  static constexpr std::size_t kMaxTransferObjects = 1024;

  static constexpr std::size_t transfer_capacity(unsigned size_class) noexcept {
    const std::size_t bytes = SizeClassMap::bytes_of(size_class);
    const std::size_t objects = bytes == 0 ? 0 : kTransferBytes / bytes;
    return objects < kMinTransferObjects   ? kMinTransferObjects
           : objects > kMaxTransferObjects ? kMaxTransferObjects
                                           : objects;
  }

  template <unsigned... kClasses>
  constexpr Central(SpanSource& spans, MetadataArena& metadata,
                    std::integer_sequence<unsigned, kClasses...>) noexcept
      : lists_{CentralList{kClasses, spans}...},
        transfers_{TransferCache{transfer_capacity(kClasses), metadata}...} {}

  void add_ready(unsigned size_class, std::ptrdiff_t objects) noexcept {
    const auto bytes = static_cast<std::ptrdiff_t>(SizeClassMap::bytes_of(size_class));
    ready_bytes_.fetch_add(objects * bytes, std::memory_order_relaxed);
  }

  CentralList lists_[SizeClassMap::kCount];
  TransferCache transfers_[SizeClassMap::kCount];
  // relaxed: a sum that guards nothing. Added to outside the locks, so it may be below 0 at times.
  std::atomic<std::ptrdiff_t> ready_bytes_{0};
};

}  // namespace strata
