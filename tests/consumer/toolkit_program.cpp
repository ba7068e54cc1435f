// Linked against the shelf alone: uses a bit of everything on it.
#include <strata/allocator.hpp>
#include <strata/bitmap_pool.hpp>
#include <strata/bitmap_pool_view.hpp>
#include <strata/block_allocator.hpp>
#include <strata/coalescing_heap.hpp>
#include <strata/memory_resource.hpp>
#include <strata/object_pool.hpp>
#include <strata/page_arena.hpp>
#include <strata/size_class_allocator.hpp>
#include <strata/thread_heaps.hpp>

#include <cstdio>
#include <cstring>
#include <memory_resource>
#include <vector>

namespace {

// A block for 50 bytes can be written and given back.
template <typename Source>
bool serves(Source& source) {
  void* p = source.allocate(50);
  if (p == nullptr) return false;
  std::memset(p, 'x', 50);
  source.deallocate(p);
  return true;
}

bool carries(std::pmr::memory_resource& resource) {
  std::pmr::vector<int> numbers(100, 7, &resource);
  return numbers.back() == 7;
}

}  // namespace

int main() {
  strata::PageArena arena(1 << 20);
  std::size_t pages = 0;
  while (void* page = arena.allocate_page()) {
    std::memset(page, 'x', arena.page_size());
    ++pages;
  }
  if (pages != arena.total_pages() || pages * arena.page_size() != 1 << 20) return 1;
  arena.reset();

  strata::BlockAllocator blocks(arena, 64, 100);
  void* block = blocks.allocate();
  if (!blocks.owns(block)) return 2;
  blocks.deallocate(block);

  strata::SizeClassAllocator sizes;
  if (!serves(sizes)) return 3;

  static strata::BitmapPool<> pool;
  if (!pool.deallocate(pool.allocate())) return 4;
  strata::ObjectPool<int> numbers(10);
  if (*numbers.make(7) != 7) return 5;

  strata::CoalescingHeap heap(1 << 20);
  if (!serves(heap)) return 6;
  strata::ThreadHeaps heaps;
  if (!serves(heaps)) return 7;

  strata::MemoryResource<strata::ThreadHeaps> over_heaps(heaps);
  strata::MemoryResource<strata::PageArena> over_arena(arena);
  if (!carries(over_heaps) || !carries(over_arena)) return 8;
  if (*strata::make_unique_from<int>(sizes, 7) != 7) return 9;
  std::puts("consumer ok");
}
