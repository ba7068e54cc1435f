#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/lock.h"
#include "base/metadata_arena.h"
#include "base/thread_annotations.h"

namespace strata {

/// One stack of return addresses that allocates, and what it has allocated and freed so far, as
/// estimates in 1/Sampling::kOne.
/// \threads  The sums: any; each is exact, together they are late by what others do. What is freed
///           is added with release and read with acquire, before what is allocated: the allocation
///           of a free that is seen is seen, too. The rest never changes once the site has an id.
struct Site {
  std::uint64_t hash;
  std::size_t rate;  ///< the mean bytes between samples; sites of different rates are different
  const std::uintptr_t* frames;  ///< the innermost first
  std::uint32_t depth;
  std::uint32_t next;  ///< in its bucket; guarded by the table's lock
  std::atomic<std::uint64_t> allocated_objects;
  std::atomic<std::uint64_t> allocated_bytes;
  std::atomic<std::uint64_t> freed_objects;
  std::atomic<std::uint64_t> freed_bytes;

  /// An allocation that was taken, with a chance by `counted` bytes: those of its class, or one
  /// more than it asked for.
  void add(std::size_t counted, std::size_t bytes) noexcept;
  void remove(std::size_t counted, std::size_t bytes) noexcept;  ///< the same, freed

  struct Sums {
    std::uint64_t allocated_objects, allocated_bytes, live_objects, live_bytes;
  };
  /// Whole objects and bytes. Freed ones are read first, so that nothing falls below zero.
  Sums sums() const noexcept;
};

/// Stacks, each stored once, known by a number from 1.
/// \threads  Any number at once; one lock, not needed to read a site.
class SiteTable {
 public:
  // Chosen: deep enough for a stack of templates, and 512 bytes.
  static constexpr std::size_t kMaxDepth = 64;
  // Chosen: a program has some thousand sites; this bounds one that makes up code as it goes.
  static constexpr std::uint32_t kMaxSites = 1u << 20;

  explicit constexpr SiteTable(MetadataArena& metadata) noexcept : metadata_(metadata) {}
  SiteTable(const SiteTable&) = delete;
  SiteTable& operator=(const SiteTable&) = delete;

  /// The id of this stack at this rate, new or known; 0 when out of memory or of ids.
  /// \cost  a hash of the frames, and a short walk under the lock
  std::uint32_t intern(const std::uintptr_t* frames, std::size_t depth, std::size_t rate) noexcept;

  /// \pre  1 <= id <= count()
  Site& site(std::uint32_t id) noexcept {
    return chunks_[(id - 1) / kChunkSites].load(std::memory_order_acquire)[(id - 1) % kChunkSites];
  }
  std::uint32_t count() const noexcept { return count_.load(std::memory_order_acquire); }

  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork
  void check_invariants() noexcept;

 private:
  static constexpr std::uint32_t kChunkSites = 4096;
  static constexpr std::uint32_t kFirstBuckets = 1024;

  Site* make_site(const std::uintptr_t* frames, std::size_t depth) noexcept STRATA_REQUIRES(lock_);
  bool grow() noexcept STRATA_REQUIRES(lock_);

  Lock lock_{LockRank::kWatcher};
  MetadataArena& metadata_;
  // Heads; 0: empty.
  std::uint32_t* buckets_ STRATA_GUARDED_BY(lock_) STRATA_PT_GUARDED_BY(lock_) = nullptr;
  std::uint32_t bucket_count_ STRATA_GUARDED_BY(lock_) = 0;
  // Written under lock_, release; acquire by readers: the sites below are complete.
  std::atomic<std::uint32_t> count_{0};
  std::atomic<Site*> chunks_[kMaxSites / kChunkSites] = {};
};

}  // namespace strata
