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

/// A list and a transfer cache per size class, for some of the threads.
/// \threads  Any number at once; a lock for each list and each transfer cache.
class CentralShard {
 public:
  struct ClassStatistics {
    CentralList::Statistics spans;
    std::size_t in_transfer;
    std::size_t transfer_waits;
  };

  /// \param has_transfer  without, each object comes from its span and is verified as it returns
  constexpr CentralShard(SpanSource& spans, MetadataArena& metadata, IdleTally& tally,
                         unsigned index, bool has_transfer) noexcept;

  /// Claims up to `count` objects, from the transfer cache or from the spans that the list has.
  /// \returns  How many, and whether the thread had to wait for a lock.
  CentralList::Claimed claim(unsigned size_class, void** end, std::size_t count) noexcept;

  /// Takes back objects, into the transfer cache first. Those whose span is another shard's move to
  /// the front.
  /// \returns  how many these are
  std::size_t release(unsigned size_class, void** objects, std::size_t count) noexcept;

  /// Moves what lay in the transfer caches unneeded since the last call to `flush(size_class,
  /// objects, count)`.
  template <typename Flush>
  void take_unneeded(Flush&& flush) noexcept;
  /// The same for all that lies there, of the classes below `end_class`.
  template <typename Flush>
  void take_all(unsigned end_class, Flush&& flush) noexcept;

  CentralList& list(unsigned size_class) noexcept { return lists_[size_class]; }
  const CentralList& list(unsigned size_class) const noexcept { return lists_[size_class]; }

  /// Bytes in the transfer caches, and free in spans on pages that were not decommitted: hints.
  std::size_t transfer_bytes() const noexcept;
  std::size_t pending_bytes() const noexcept;

  /// How many threads it serves. Written under Central's lock, read anywhere as a hint (relaxed).
  std::uint32_t threads() const noexcept { return threads_.load(std::memory_order_relaxed); }
  void add_threads(std::uint32_t count) noexcept {
    threads_.store(threads() + count, std::memory_order_relaxed);
  }

  ClassStatistics statistics(unsigned size_class) noexcept {
    return {lists_[size_class].statistics(), transfers_[size_class].size(),
            transfers_[size_class].lock().waits()};
  }
  void check_invariants() noexcept;

  void for_each_lock(LockVisitor visit) noexcept {
    for (CentralList& list : lists_) visit(list.lock());
    for (TransferCache& transfer : transfers_) visit(transfer.lock());
  }

 private:
  static constexpr std::size_t kFlushObjects = 64;

  // Chosen: two batches of the small classes pass without a span being touched, and what lies here
  // stays below 64 KiB a class, 4 objects of the largest ones.
  static constexpr std::size_t kTransferBytes = 64 * 1024;
  static constexpr std::size_t kMinTransferObjects = 4;
  static constexpr std::size_t kMaxTransferObjects = 2048;

  static constexpr std::size_t transfer_capacity(unsigned size_class) noexcept {
    const std::size_t bytes = SizeClassMap::bytes_of(size_class);
    const std::size_t objects = bytes == 0 ? 0 : kTransferBytes / bytes;
    return objects < kMinTransferObjects   ? kMinTransferObjects
           : objects > kMaxTransferObjects ? kMaxTransferObjects
                                           : objects;
  }

  template <unsigned... kClasses>
  constexpr CentralShard(SpanSource& spans, MetadataArena& metadata, IdleTally& tally,
                         unsigned index, bool has_transfer,
                         std::integer_sequence<unsigned, kClasses...>) noexcept
      : lists_{CentralList{kClasses, spans, tally, index}...},
        transfers_{TransferCache{has_transfer ? transfer_capacity(kClasses) : 0, metadata}...} {}

  std::atomic<std::uint32_t> threads_{0};
  CentralList lists_[SizeClassMap::kCount];
  TransferCache transfers_[SizeClassMap::kCount];
};

// After the other constructor, since Clang evaluates no template that is not yet complete.
constexpr CentralShard::CentralShard(SpanSource& spans, MetadataArena& metadata, IdleTally& tally,
                                     unsigned index, bool has_transfer) noexcept
    : CentralShard(spans, metadata, tally, index, has_transfer,
                   std::make_integer_sequence<unsigned, SizeClassMap::kCount>{}) {}

template <typename Flush>
void CentralShard::take_unneeded(Flush&& flush) noexcept {
  void* batch[kFlushObjects];
  for (unsigned c = 1; c < SizeClassMap::kCount; ++c) {
    while (const std::size_t count = transfers_[c].take_unneeded(batch, kFlushObjects))
      flush(c, batch, count);
  }
}

template <typename Flush>
void CentralShard::take_all(unsigned end_class, Flush&& flush) noexcept {
  void* batch[kFlushObjects];
  void** const end = batch + kFlushObjects;
  for (unsigned c = 1; c < end_class; ++c) {
    // No more than was there: others may go on filling it.
    for (std::size_t left = transfers_[c].size(); left != 0;) {
      const std::size_t count =
          transfers_[c].remove(end, left < kFlushObjects ? left : kFlushObjects);
      if (count == 0) break;
      flush(c, end - count, count);
      left -= count;
    }
  }
}

}  // namespace strata
