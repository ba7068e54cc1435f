#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/metadata_arena.h"
#include "central/central.h"
#include "size_class/size_class_map.h"
#include "span/page_heap.h"
#include "thread_cache/object_bins.h"

namespace strata {

/// How many bytes of objects all thread caches together may hold: a share of the heap, so that a
/// small program stays small, up to an absolute bound. Each thread may hold its part of it, so that
/// 512 threads hoard no more than two.
class CacheBudget {
 public:
  constexpr CacheBudget(const PageHeap& heap, std::size_t most_bytes) noexcept
      : heap_(heap), most_bytes_(most_bytes) {}

  void set_most_bytes(std::size_t bytes) noexcept {
    most_bytes_ = bytes;
  }  ///< before the first thread
  void add_thread() noexcept { threads_.fetch_add(1, std::memory_order_relaxed); }
  void remove_thread() noexcept { threads_.fetch_sub(1, std::memory_order_relaxed); }

  std::size_t share_bytes() const noexcept {
    const std::size_t threads = std::max<std::size_t>(threads_.load(std::memory_order_relaxed), 1);
    const std::size_t heap_share =
        std::max(heap_.used_pages() * kPageBytes / kHeapShare, kLeastBytes);
    return std::min(heap_share, most_bytes_) / threads;
  }

 private:
  // Chosen: an eighth and 512 KiB made servers with many small threads twice as slow (larson: 1.8
  // against 0.5 of glibc's time) and no program's RSS smaller by more than a twentieth.
  static constexpr std::size_t kHeapShare = 2;
  static constexpr std::size_t kLeastBytes = std::size_t{2} << 20;

  const PageHeap& heap_;
  std::size_t most_bytes_;
  std::atomic<std::size_t> threads_{0};  // a hint: relaxed, nothing is ordered by it
};

/// One thread's free objects, and how its bins are filled, flushed and sized.
///
/// A bin has no slots until its class is first used, starts with a few, and doubles whenever it
/// runs dry or over, up to kMaxBinBytes and as far as the thread's share of the budget goes. When
/// threads have come and the thread holds more than twice its share, bins that run over give up
/// half of themselves. \threads  Its thread only, apart from count_objects(): bins_lock_ keeps a
/// bin's slots where they
///           are while somebody counts.
class ThreadCache : public ObjectBins, public ListLink<> {
 public:
  ThreadCache(Central& central, CacheBudget& budget, MetadataArena& metadata) noexcept;

  /// Fills the empty bin and pops. \returns nullptr when out of memory. \cost a batch from Central
  void* refill_and_pop(unsigned size_class) noexcept;

  /// Makes room in the full bin, by growing it or by moving its colder half to Central, and pushes.
  void flush_and_push(unsigned size_class, void* object) noexcept;

  /// Moves everything to Central. \returns true if there was anything
  bool flush_all() noexcept;

  /// Objects of the class in this cache. \threads any; late by what the owner does meanwhile
  std::size_t count_objects(unsigned size_class) noexcept;

  Lock& bins_lock() noexcept { return bins_lock_; }  ///< for fork

 private:
  // Chosen. A bin has 2^n - 1 objects, so that its slots with the empty one are a power of two.
  static constexpr std::size_t kFirstCapacity = 7;
  static constexpr std::size_t kMaxCapacity = 255;
  // Chosen: what one class of one thread may hold; half of it travels as a batch.
  static constexpr std::size_t kMaxBinBytes = 64 * 1024;
  // Chosen: the share moves with the heap; a bin that gave way each time would flush and fill in
  // turn.
  static constexpr std::size_t kShrinkAbove = 2;
  // Derived: first slots of every bin and a few growths stand in the cache itself, which then fills
  // two 4-KiB pages.
  static constexpr std::size_t kInlineSlots = 640;

  static constexpr std::size_t max_capacity(unsigned size_class) noexcept;

  std::size_t capacity(unsigned size_class) const noexcept {
    return static_cast<std::size_t>(limits_[size_class] - bases_[size_class]);
  }
  bool grow(unsigned size_class) noexcept;
  void shrink(unsigned size_class) noexcept;
  bool give_slots(unsigned size_class, std::size_t count) noexcept;
  void flush(unsigned size_class, std::size_t count) noexcept;

  void** bases_[SizeClassMap::kCount];
  std::uint16_t slot_counts_[SizeClassMap::kCount] = {};  // slots the bin owns, a power of two or 0
  Central* central_;
  CacheBudget* budget_;
  MetadataArena* metadata_;
  std::size_t capacity_bytes_ = 0;  // capacity x object size over all bins
  Lock bins_lock_{LockRank::kThreadBins};
  std::size_t inline_used_ = 0;
  void* inline_slots_[kInlineSlots];
};

}  // namespace strata
