#pragma once

#include <atomic>
#include <cstddef>

#include "base/lock.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"

namespace strata {

/// Memory for our own bookkeeping: never mixed with the user's, zero when fresh, recycled by size;
/// a larger block is split only when the kernel gives no more.
/// Requests are rounded up to a power of two of at least 64 bytes (one cache line, so that two
/// owners never share one). Nothing is decommitted: bookkeeping is below 1% of the heap.
/// \threads  Any number at once; one lock.
/// \cost     A list pop, or a bump of a pointer; a system call per kChunkBytes.
class MetadataArena {
 public:
  /// Small enough that a tiny program maps one, touched only as it is used.
  static constexpr std::size_t kChunkBytes = 256 * 1024;
  static constexpr std::size_t kMinBytes = 64;

  explicit constexpr MetadataArena(os::PageSource& pages) noexcept : pages_(pages) {}
  MetadataArena(const MetadataArena&) = delete;
  MetadataArena& operator=(const MetadataArena&) = delete;

  /// \returns  At least `bytes` bytes aligned to 64, contents unspecified; nullptr when out of
  ///           memory.
  void* allocate(std::size_t bytes) noexcept;

  /// Memory that is never deallocated, rounded up to whole cache lines only.
  /// \returns  Zeroed memory aligned to 64; nullptr when out of memory.
  void* allocate_forever(std::size_t bytes) noexcept;

  /// Takes back what allocate(bytes) gave, with the same `bytes`.
  void deallocate(void* memory, std::size_t bytes) noexcept;

  /// Bytes mapped for bookkeeping so far, used or not.
  std::size_t mapped_bytes() const noexcept {
    return mapped_bytes_.load(std::memory_order_relaxed);
  }

  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  struct FreeBlock {
    FreeBlock* next;
  };
  void* take_fresh(std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  void* split_larger(int index) noexcept STRATA_REQUIRES(lock_);

  static constexpr int kSizes = 20;  // 64 bytes to 32 MiB

  Lock lock_{LockRank::kMetadata};
  os::PageSource& pages_;
  char* fresh_ STRATA_GUARDED_BY(lock_) = nullptr;  // the rest of the newest chunk
  std::size_t fresh_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  /// Written under the lock, read without it. relaxed: a figure, it guards nothing.
  std::atomic<std::size_t> mapped_bytes_{0};
  FreeBlock* free_[kSizes] STRATA_GUARDED_BY(lock_) = {};
};

}  // namespace strata
