#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "base/metadata_arena.h"
#include "os/page_source.h"
#include "span/page_heap.h"
#include "span/page_map.h"
#include "span/span_source.h"

namespace strata {

/// The end of user space on x86-64, and on arm64 with 48-bit addresses.
inline constexpr std::uintptr_t kUserSpaceEnd = std::uintptr_t{1} << 48;

/// The start of a range of addresses, aligned to a region, where nothing is mapped now. A test
/// cannot name an address itself: only a sanitizer knows what it leaves free.
inline std::uintptr_t free_addresses(std::size_t bytes = std::size_t{1} << 30) {
  void* start = os::kernel_pages().map_aligned(bytes, kRegionBytes);
  EXPECT_NE(start, nullptr);
  os::kernel_pages().unmap(start, bytes);
  return reinterpret_cast<std::uintptr_t>(start);
}

/// The layers up to the spans, over a test's page source. The page map is not from that source, so
/// the source's counts are those of heap and bookkeeping alone.
struct FakeAddressSpace {
  explicit FakeAddressSpace(os::PageSource& pages, HugePages huge_pages = HugePages::kNever)
      : metadata(pages, &limit),
        heap(map, metadata, limit, pages),
        spans(map, heap, metadata, pages) {
    EXPECT_TRUE(map.cover(kUserSpaceEnd, os::kernel_pages()));
    heap.configure(free_addresses(), huge_pages);
  }
  ~FakeAddressSpace() { map.discard(os::kernel_pages()); }

  /// Has two places take turns at the page heap until it has a second shard.
  void split_heap() {
    heap.set_most_shards(2);
    PagePlace places[2];
    for (int i = 0; i < 16; ++i) {
      for (PagePlace& place : places)
        heap.deallocate(*heap.allocate(1, 1, PageHeap::Pages::kAny, place));
    }
    ASSERT_FALSE(heap.has_one_shard());
  }

  PageMap map;
  MemoryLimit limit;
  MetadataArena metadata;
  PageHeap heap;
  SpanSource spans;
};

}  // namespace strata
