#pragma once

#include <cstddef>
#include <cstdlib>

#include "contenders/bitmap_pool_memory.h"
#include "contenders/block_allocator_memory.h"
#include "contenders/coalescing_heap_memory.h"
#include "contenders/needs.h"
#include "contenders/page_arena_memory.h"
#include "contenders/thread_heaps_memory.h"
#include "shared/replay_plan.h"

/// \file  What the calls of one place of the program go to instead of malloc, so that the
/// difference can be measured: each as the advice tells the program to use it.

namespace strata::cell {

inline Needs needs_of_routed(const plan::Header& header) noexcept {
  Needs needs;
  needs.smallest_bytes = needs.largest_bytes = static_cast<std::size_t>(header.routed_bytes);
  needs.live_blocks = static_cast<std::size_t>(header.routed_peak);
  needs.threads = static_cast<int>(header.streams);
  return needs;
}

/// All calls stay with malloc.
struct NoRoute {
  explicit NoRoute(const plan::Header&) {}
  void* allocate(std::size_t bytes) noexcept { return std::malloc(bytes); }
  void deallocate(void* p, std::size_t) noexcept { std::free(p); }
};

/// One after the other from the pages of an arena, which starts again when the last has gone.
struct ArenaRoute : PageArenaMemory {
  /// OS pages, as an arena has them unless it is told otherwise: a huge one would be resident where
  /// a few KiB are used.
  explicit ArenaRoute(const plan::Header& header) : PageArenaMemory(needs(header), 0) {}

 private:
  static Needs needs(const plan::Header& header) noexcept {
    Needs needs = needs_of_routed(header);
    needs.live_bytes = static_cast<std::size_t>(header.routed_run_bytes);
    return needs;
  }
};

/// Blocks of one size, of one thread.
struct BlockRoute : BlockAllocatorMemory {
  explicit BlockRoute(const plan::Header& header) : BlockAllocatorMemory(needs_of_routed(header)) {}
};

/// Blocks of one size for all threads.
struct BitmapRoute : BitmapPoolMemory {
  explicit BitmapRoute(const plan::Header& header) : BitmapPoolMemory(needs(header)) {}

 private:
  static Needs needs(const plan::Header& header) noexcept {
    Needs needs = needs_of_routed(header);
    needs.live_blocks += needs.live_blocks / 4;
    return needs;
  }
};

/// Any sizes in a region of their own, of one thread.
struct HeapRoute : CoalescingHeapMemory {
  explicit HeapRoute(const plan::Header& header) : CoalescingHeapMemory(needs(header)) {}

 private:
  static Needs needs(const plan::Header& header) noexcept {
    Needs needs = needs_of_routed(header);
    needs.live_bytes = static_cast<std::size_t>(header.routed_live_bytes);
    return needs;
  }
};

/// Any sizes, a heap for each thread.
struct HeapsRoute : ThreadHeapsMemory<false> {
  explicit HeapsRoute(const plan::Header& header)
      : ThreadHeapsMemory<false>(needs_of_routed(header)) {}
};

/// A buffer that each thread keeps for the next time, and makes larger where it must.
class ReuseRoute {
 public:
  explicit ReuseRoute(const plan::Header&) {}
  void* allocate(std::size_t bytes) noexcept {
    Kept& kept = kept_;
    if (kept.is_out) return std::malloc(bytes);
    kept.is_out = true;
    if (bytes > kept.bytes || kept.buffer == nullptr) {
      std::free(kept.buffer);
      kept.buffer = std::malloc(bytes);
      kept.bytes = bytes;
    }
    return kept.buffer;
  }
  void deallocate(void* p, std::size_t) noexcept {
    if (p != kept_.buffer) return std::free(p);
    kept_.is_out = false;
  }

 private:
  struct Kept {
    Kept() {}
    ~Kept() {
      if (!is_out) std::free(buffer);
    }
    void* buffer = nullptr;
    std::size_t bytes = 0;
    bool is_out = false;
  };
  static inline thread_local Kept kept_;
};

}  // namespace strata::cell
