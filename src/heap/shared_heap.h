#pragma once

#include <cstddef>
#include <cstdint>

#include "heap/arena_heap.h"

namespace strata {

/// A heap for the larger blocks of many threads. Few blocks make up most of a thread's bytes, and
/// their sum swings; heaps of their own must hold the sum of all peaks, a heap of many threads
/// holds about the sum of the averages. It is locked for each block, which blocks of this size can
/// afford.
///
/// Each thread has one of them for its home, even if its lock is taken: to take what is free at the
/// moment would spread the blocks unevenly, and each heap would grow to its own peak. A free never
/// waits: a thread that finds the lock taken leaves the block in the list of received ones.
class SharedHeap final : public ArenaHeap {
 public:
  SharedHeap(HeapInstance& instance, std::uint32_t number) noexcept
      : ArenaHeap(instance, number, /*is_shared=*/true) {}
  ~SharedHeap() = default;

  /// \returns  nullptr if there is no memory.
  void* allocate(std::size_t bytes, std::size_t alignment) noexcept;

  /// Of a live block of this arena, one of this heap's, that was found to have this size.
  void deallocate(HeapArena& arena, void* block, std::uint32_t granules) noexcept;

  /// Resizes a live block where it is; false if it can not.
  bool resize(HeapArena& arena, void* block, std::size_t bytes) noexcept;

  /// When a thread ends: decommits what is free, if that is as much as what is in use.
  void shed_half() noexcept;

 private:
  void count_placed(const void* block) noexcept STRATA_REQUIRES(lock_);

  /// Below it, the system calls cost more than the memory.
  static constexpr std::size_t kWorthShedding = std::size_t{1} << 20;
  /// Of a free range; the rest of it is decommitted.
  static constexpr std::size_t kKept = 16 * 1024;

  // The most that was in use since the last shedding.
  std::size_t touched_bytes_ STRATA_GUARDED_BY(lock_) = 0;
};

}  // namespace strata
