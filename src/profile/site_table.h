#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"

namespace strata {

/// The name of a user heap in a profile.
struct HeapLabel {
  static constexpr std::size_t kMostBytes = 31;
  const HeapLabel* next;
  std::uint32_t number;  ///< from 1, in order of creation
  char text[kMostBytes + 1];
};

/// One stack of return addresses that allocates from one heap, with its sums allocated and freed so
/// far, as estimates in 1/Sampling::kOne.
/// \threads  The sums: any; each is exact, but together they may be out of date. The freed ones are
///           added with release and read with acquire, before the allocated ones: whoever sees a
///           free sees its allocation, too. The rest never changes once the site has an ID.
struct Site {
  std::uint64_t hash;
  std::size_t rate;  ///< the mean bytes between samples; sites of different rates are different
  const HeapLabel* heap;         ///< likewise for heaps; nullptr: the malloc
  const std::uintptr_t* frames;  ///< the innermost first
  std::uint32_t depth;
  std::uint32_t next;  ///< in its bucket; guarded by the table's lock
  std::atomic<std::uint64_t> allocated_objects;
  std::atomic<std::uint64_t> allocated_bytes;
  std::atomic<std::uint64_t> freed_objects;
  std::atomic<std::uint64_t> freed_bytes;

  /// Adds a sampled allocation, whose probability was that of `counted` bytes: those of its class,
  /// or one more than it asked for.
  void add(std::size_t counted, std::size_t bytes) noexcept;
  void remove(std::size_t counted, std::size_t bytes) noexcept;  ///< the same for its free

  struct Sums {
    std::uint64_t allocated_objects, allocated_bytes, live_objects, live_bytes;
  };
  /// Whole objects and bytes. Reads freed ones first, so that nothing falls below zero.
  Sums sums() const noexcept;
};

/// A profile's sites: each stack is stored once, and known by an ID from 1. HeapProfile owns it.
/// \threads  Any number at once; one lock, not needed to read a site.
class SiteTable {
 public:
  // Chosen: deep enough for a stack of templates, and 512 bytes.
  static constexpr std::size_t kMaxDepth = 64;
  // Chosen: a program has some thousand sites; this bounds one that generates code as it goes.
  static constexpr std::uint32_t kMaxSites = 1u << 20;
  // Chosen: the rest is for sites without a stack, one for each rate and label.
  static constexpr std::uint32_t kMaxStacks = kMaxSites - (1u << 12);

  // Chosen: as many as a person can tell apart; a program may name a heap after each of its
  // requests.
  static constexpr std::uint32_t kMostLabels = 1024;

  explicit constexpr SiteTable(MetadataArena& metadata) noexcept : metadata_(metadata) {}
  SiteTable(const SiteTable&) = delete;
  SiteTable& operator=(const SiteTable&) = delete;

  /// The ID of this stack at this rate in this heap, new or known. When out of memory or of IDs,
  /// that of the site without a stack, so that sums stay true; 0 if there is no room for that.
  /// \cost  a hash of the frames, and a short walk under the lock
  std::uint32_t intern(const std::uintptr_t* frames, std::size_t depth, std::size_t rate,
                       const HeapLabel* heap = nullptr) noexcept;
  /// Whether each stack has got a site of its own so far.
  bool tells_all_apart() const noexcept { return tells_all_apart_.load(std::memory_order_relaxed); }

  /// The label of heaps of this name, new or known: that of unnamed heaps if it is empty, and a
  /// common one for all others after the first kMostLabels.
  /// \returns  nullptr when out of memory
  /// \cost     a comparison with every label
  const HeapLabel* label(std::string_view name) noexcept;
  /// The latest label; nullptr if there is none.
  const HeapLabel* labels() const noexcept { return labels_.load(std::memory_order_acquire); }

  /// \pre  1 <= id <= count()
  Site& site(std::uint32_t id) noexcept {
    const Place place(id - 1);
    return chunks_[place.chunk].load(std::memory_order_relaxed)[place.index];
  }
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork
  void check_invariants() noexcept;

 private:
  static constexpr std::uint32_t kFirstBuckets = 1024;
  static constexpr std::uint32_t kFirstChunkSites = 1024;

  /// Where a site lies: the first chunk holds kFirstChunkSites, each later one twice as many.
  struct Place {
    explicit constexpr Place(std::uint32_t site) noexcept
        : chunk(static_cast<unsigned>(std::bit_width(site / kFirstChunkSites + 1)) - 1),
          index(site - ((1u << chunk) - 1) * kFirstChunkSites) {}
    static constexpr std::size_t sites_in(unsigned chunk) noexcept {
      return std::size_t{kFirstChunkSites} << chunk;
    }
    unsigned chunk;
    std::uint32_t index;
  };
  static constexpr unsigned kChunks =
      static_cast<unsigned>(std::bit_width((kMaxSites - 1) / kFirstChunkSites + 1));

  std::uint32_t find_or_make(std::uint64_t hash, const std::uintptr_t* frames, std::size_t depth,
                             std::size_t rate, const HeapLabel* heap) noexcept
      STRATA_REQUIRES(lock_);
  Site* make_site(const std::uintptr_t* frames, std::size_t depth) noexcept STRATA_REQUIRES(lock_);
  bool grow() noexcept STRATA_REQUIRES(lock_);
  const HeapLabel* find_label(std::string_view name) const noexcept;

  Lock lock_{LockRank::kWatcher};
  MetadataArena& metadata_;
  // Heads; 0: empty.
  std::uint32_t* buckets_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = nullptr;
  std::uint32_t bucket_count_ STRATA_GUARDED_BY(lock_) = 0;
  // Written under lock_, release; acquire by readers: the sites below are complete.
  std::atomic<std::uint32_t> count_{0};
  // relaxed: written before the count that includes it; whoever has an ID got it after that.
  std::atomic<Site*> chunks_[kChunks] = {};
  std::atomic<bool> tells_all_apart_{true};  // relaxed: for a report
  // Written under lock_, release; acquire by readers.
  std::atomic<const HeapLabel*> labels_{nullptr};
};

}  // namespace strata
