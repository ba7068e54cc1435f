#pragma once

#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/page_arena.hpp>
#include <strata/thread_heaps.hpp>

#include <cstddef>
#include <cstdlib>

#include "contenders/bitmap_pool_memory.h"
#include "contenders/coalescing_heap_memory.h"
#include "contenders/malloc_memory.h"
#include "contenders/page_arena_memory.h"
#include "contenders/thread_heaps_memory.h"
#include "shared/advised_sizes.h"
#include "shared/replay_plan.h"

/// \file  Replacements for malloc for the calls of one place of the program, so that the gain can
/// be measured. Each is used as the advice tells the program to use it.

namespace strata::cell {

static_assert(advised::kLeastBlockBytes == BlockAllocator::kMinBlockBytes &&
                  advised::kLeastHeapBlockBytes == CoalescingHeap::kMinBlockBytes &&
                  advised::kMostHeapBytes == CoalescingHeap::kMaxRegionBytes &&
                  advised::kUsualHeapsArenaBytes == ThreadHeaps::Options{}.arena_bytes &&
                  advised::kUsualLeaves == BitmapPoolShape{}.min_leaves,
              "what the advice takes for granted is what the toolkit has");

/// Leaves all calls with malloc.
struct NoRoute : MallocMemory {
  explicit NoRoute(const plan::Header&) {}
};

/// Allocates sequentially from the pages of an arena, which is reset when the last object is freed.
struct ArenaRoute : PageArenaMemory {
  explicit ArenaRoute(const plan::Header& header)
      : PageArenaMemory(advised::arena_bytes(header.routed_run_bytes)) {}
};

/// Blocks of one size, for one thread.
class BlockRoute {
 public:
  explicit BlockRoute(const plan::Header& header)
      : arena_(advised::blocks_arena_bytes(header.routed_bytes,
                                           advised::with_room(header.routed_peak))),
        blocks_(arena_, advised::block_bytes(header.routed_bytes),
                advised::with_room(header.routed_peak)) {}
  void* allocate(std::size_t) noexcept { return blocks_.allocate(); }
  void deallocate(void* p, std::size_t) noexcept { blocks_.deallocate(p); }

 private:
  PageArena arena_;
  BlockAllocator blocks_;
};

/// Blocks of one size for all threads.
struct BitmapRoute : BitmapPoolMemory {
  explicit BitmapRoute(const plan::Header& header)
      : BitmapPoolMemory(
            BitmapPoolShape{.block_bytes = header.routed_bytes,
                            .capacity = advised::bitmap_blocks(header.routed_peak, header.streams),
                            .min_leaves = advised::bitmap_leaves(header.streams)}) {}
};

/// Any sizes in its own region, for one thread.
struct HeapRoute : CoalescingHeapMemory {
  explicit HeapRoute(const plan::Header& header)
      : CoalescingHeapMemory(advised::heap_bytes(header.routed_live_bytes, header.routed_peak)) {}
};

/// Any sizes, a heap for each thread.
struct HeapsRoute : ThreadHeapsMemory<false> {
  explicit HeapsRoute(const plan::Header& header)
      : ThreadHeapsMemory(advised::heaps_arena_bytes(header.routed_bytes)) {}
};

/// A buffer that each thread keeps and reuses, and enlarges if necessary.
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
