// Several heaps against a model of each block's contents.

#include <strata/heap.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/seeded_test.h"
#include "user_heap/buffer_pages_test.h"
#include "user_heap/named_heap_test.h"

namespace strata {
namespace {

/// A model of several heaps: the contents of each block, and its heap.
class HeapRandomTest : public SeededTest {
 protected:
  struct Block {
    std::size_t heap;
    std::size_t bytes;
    unsigned char content;
    bool is_sized;  // may be freed with its size
  };

  void verify(const std::pair<unsigned char* const, Block>& entry) {
    const auto& [p, block] = entry;
    ASSERT_TRUE(reads_as(p, std::min<std::size_t>(block.bytes, 64), block.content));
    ASSERT_TRUE(block.bytes == 0 || p[block.bytes - 1] == block.content);
    ASSERT_GE(heaps[block.heap]->usable_size(p), block.bytes);
  }
  void put(unsigned char* p, std::size_t heap, std::size_t bytes, bool is_sized) {
    // No block overlaps another, of any heap.
    const auto next = live.lower_bound(p);
    ASSERT_TRUE(next == live.end() || p + bytes <= next->first);
    if (next != live.begin()) {
      const auto& [start, before] = *std::prev(next);
      ASSERT_LE(start + before.bytes, p);
    }
    const auto content = static_cast<unsigned char>(below(256));
    std::memset(p, content, bytes);
    live[p] = {heap, bytes, content, is_sized};
  }
  void forget(std::size_t heap) {
    std::erase_if(live, [&](const auto& entry) { return entry.second.heap == heap; });
  }
  std::size_t draw_bytes() { return below(std::size_t{16} << below(below(20) == 0 ? 18 : 11)); }

  BufferPages pages;
  std::vector<std::optional<Heap>> heaps{5};
  std::map<unsigned char*, Block> live;
};

TEST_F(HeapRandomTest, SeveralKeepWhatTheyWereGivenWhileOthersComeAndGo) {
  for (auto& heap : heaps) heap.emplace();
  for (int step = 0; step < 40'000; ++step) {
    const std::size_t which = below(heaps.size());
    Heap& heap = *heaps[which];
    const unsigned what = static_cast<unsigned>(below(1000));
    if (what < 3) {
      Heap::Options options;
      options.hard_limit_bytes = below(2) * 16 * kMiB;
      options.checks = static_cast<Heap::Checks>(below(3));
      if (below(3) == 0) options.pages = pages.source();
      forget(which);
      heaps[which].reset();
      heaps[which].emplace(options);
    } else if (what < 6) {
      forget(which);
      heap.reset();
      heap.check_invariants();
    } else if (what < 8) {
      heap.release_memory();
      heap.check_invariants();
    } else if (what < 540 || live.empty()) {
      const std::size_t bytes = draw_bytes();
      void* p = what % 3 == 0   ? heap.allocate_zeroed(bytes)
                : what % 3 == 1 ? heap.allocate(bytes)
                                : heap.allocate_aligned(bytes, std::size_t{1} << below(14));
      if (p == nullptr) continue;  // by its limit
      if (what % 3 == 0) {
        ASSERT_TRUE(reads_as(p, bytes, 0));
      }
      ASSERT_NO_FATAL_FAILURE(put(static_cast<unsigned char*>(p), which, bytes, what % 3 != 2));
    } else {
      auto entry = live.lower_bound(reinterpret_cast<unsigned char*>(
          reinterpret_cast<std::uintptr_t>(live.begin()->first) +
          below(static_cast<std::size_t>(live.rbegin()->first - live.begin()->first) + 1)));
      if (entry == live.end()) entry = live.begin();
      ASSERT_NO_FATAL_FAILURE(verify(*entry));
      auto [p, block] = *entry;
      Heap& owner = *heaps[block.heap];
      if (what < 900) {
        live.erase(entry);
        what % 2 == 0 && block.is_sized ? owner.deallocate(p, block.bytes) : owner.deallocate(p);
      } else if (what < 960) {
        const std::size_t bytes = 1 + draw_bytes();
        void* const moved = owner.reallocate(p, bytes);
        if (moved == nullptr) continue;
        ASSERT_TRUE(
            reads_as(moved, std::min({bytes, block.bytes, std::size_t{64}}), block.content));
        live.erase(entry);
        ASSERT_NO_FATAL_FAILURE(put(static_cast<unsigned char*>(moved), block.heap, bytes, true));
      } else if (const std::size_t bytes = 1 + draw_bytes(); owner.resize_in_place(p, bytes)) {
        ASSERT_TRUE(reads_as(p, std::min({bytes, block.bytes, std::size_t{64}}), block.content));
        live.erase(entry);
        ASSERT_NO_FATAL_FAILURE(put(p, block.heap, bytes, false));
      }
    }
    if (step % 500 == 0) heap.check_invariants();
  }
  for (const auto& entry : live) ASSERT_NO_FATAL_FAILURE(verify(entry));
  for (const auto& [p, block] : live) heaps[block.heap]->deallocate(p);
  for (auto& heap : heaps) {
    heap->release_memory();
    heap->check_invariants();
    EXPECT_EQ(heap->statistics().live, 0u);
  }
}

}  // namespace
}  // namespace strata
