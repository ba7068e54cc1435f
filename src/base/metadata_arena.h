#pragma once

#include <atomic>
#include <cstddef>

#include "base/lock.h"
#include "base/memory_limit.h"
#include "base/thread_annotations.h"
#include "os/page_source.h"

namespace strata {

/// Memory for our own bookkeeping: never mixed with the user's, zero when fresh, recycled by size.
/// Only when the kernel gives no more, a larger block is split, or smaller ones that are neighbours
/// are joined. Chunks lie between inaccessible pages, so an overflow of one of the program's
/// mappings cannot reach them. Each Engine owns one.
/// Requests are rounded up to a power of two of at least 64 bytes (one cache line, so that two
/// owners never share one). A large freed block is decommitted; small ones are not before
/// discard(): bookkeeping is below 1% of the heap.
/// \threads  Any number at once; one lock.
/// \cost     A list pop, or a bump of a pointer; two system calls per chunk. When out of memory, a
///           sort of all free blocks, at most once for each kJoinShare-th of them that comes back.
class MetadataArena {
 public:
  /// A tiny program maps one chunk, touched only as it is used.
  static constexpr std::size_t kChunkBytes = 256 * 1024;
  static constexpr std::size_t kMinBytes = 64;
  /// Chosen: from this size on freed blocks are outgrown tables and the records of spans of tiny
  /// objects, too rare for the system call to matter.
  static constexpr std::size_t kLargeBytes = 16 * 1024;

  ///   kForever         as long as the process; chunks grow with the mapped total
  ///   kUntilDiscarded  until discard(); each chunk begins with a link, in a cache line of its own,
  ///                    and there are more chunks, of kSmallChunkBytes. There may be thousands of
  ///                    such arenas. They share a page source, whose map() has to place only
  ///                    bookkeeping beside a chunk
  enum class Life : bool { kForever, kUntilDiscarded };
  static constexpr std::size_t kSmallChunkBytes = 64 * 1024;

  /// \param limit  counts what is mapped, and may forbid it; nullptr for none
  explicit constexpr MetadataArena(os::PageSource& pages, MemoryLimit* limit = nullptr,
                                   Life life = Life::kForever) noexcept
      : pages_(pages),
        limit_(limit),
        chunk_bytes_(life == Life::kForever ? kChunkBytes : kSmallChunkBytes),
        link_bytes_(life == Life::kForever ? 0 : kMinBytes) {}
  MetadataArena(const MetadataArena&) = delete;
  MetadataArena& operator=(const MetadataArena&) = delete;

  /// \returns  At least `bytes` bytes aligned to 64, contents unspecified; nullptr when out of
  ///           memory.
  void* allocate(std::size_t bytes) noexcept;

  /// Memory that is never deallocated, rounded up to whole cache lines only.
  /// \returns  Zeroed memory aligned to 64; nullptr when out of memory.
  void* allocate_forever(std::size_t bytes) noexcept;

  /// Frees a block from allocate(bytes), with the same `bytes`.
  /// \cost  a system call from kLargeBytes on
  void deallocate(void* memory, std::size_t bytes) noexcept;

  /// Unmaps everything, even what is in use. The arena can be used again.
  /// \pre   kUntilDiscarded
  /// \cost  a system call per chunk
  void discard() noexcept;

  /// Bytes mapped for bookkeeping so far, used or not, decommitted or not.
  std::size_t mapped_bytes() const noexcept {
    return mapped_bytes_.load(std::memory_order_relaxed);
  }

  Lock& lock() noexcept STRATA_RETURN_CAPABILITY(lock_) { return lock_; }  ///< for fork

 private:
  struct FreeBlock {
    FreeBlock* next;
    std::size_t bytes;
  };
  struct Chunk {
    Chunk* next;
    std::size_t bytes;
  };
  static_assert(sizeof(Chunk) <= kMinBytes, "a chunk's link fits the cache line before its blocks");

  std::size_t next_chunk_bytes() const noexcept;
  char* map_chunk(std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  void* take_fresh(std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  void* take_free(int index) noexcept STRATA_REQUIRES(lock_);
  void push_free(void* memory, std::size_t bytes) noexcept STRATA_REQUIRES(lock_);
  void join_free() noexcept STRATA_REQUIRES(lock_);
  static FreeBlock* merge(FreeBlock* one, FreeBlock* other) noexcept;
  static FreeBlock* sort(FreeBlock* blocks) noexcept;

  static constexpr int kSizes = 26;  // 64 bytes to 2 GiB
  // Chosen: a chunk takes two of the some 65,000 mappings that a process may have, and 6% of all
  // bookkeeping may be mapped before it is used. A heap of a TiB has some 3000 chunks.
  static constexpr std::size_t kGrowthShare = 16;
  static constexpr std::size_t kMostChunkBytes = std::size_t{4} << 20;
  // Chosen: where nothing fits even so, each free pays for so many blocks that are sorted in vain.
  static constexpr std::size_t kJoinShare = 64;

  Lock lock_{LockRank::kMetadata};
  os::PageSource& pages_;
  MemoryLimit* const limit_;
  const std::size_t chunk_bytes_;
  const std::size_t link_bytes_;
  Chunk* chunks_ STRATA_GUARDED_BY(lock_) = nullptr;
  char* fresh_ STRATA_GUARDED_BY(lock_) = nullptr;  // the rest of the newest chunk
  std::size_t fresh_bytes_ STRATA_GUARDED_BY(lock_) = 0;
  /// Written under the lock, read without it. relaxed: a figure, it guards nothing.
  std::atomic<std::size_t> mapped_bytes_{0};
  FreeBlock* free_[kSizes] STRATA_GUARDED_BY(lock_) = {};
  std::size_t free_blocks_ STRATA_GUARDED_BY(lock_) = 0;
  std::size_t freed_ STRATA_GUARDED_BY(lock_) = 0;  // since blocks were last joined
};

}  // namespace strata
