// Linked against the shelf alone.
#include <strata/coalescing_heap.hpp>
#include <strata/page_arena.hpp>
#include <strata/thread_heaps.hpp>

#include <cstdio>
#include <cstring>

int main() {
  strata::PageArena arena(1 << 20);
  std::size_t pages = 0;
  while (void* page = arena.allocate_page()) {
    std::memset(page, 'x', arena.page_size());
    ++pages;
  }
  if (pages != arena.total_pages() || pages * arena.page_size() != 1 << 20) return 1;
  strata::CoalescingHeap heap(1 << 16);
  strata::ThreadHeaps heaps;
  if (heap.allocate(1000) == nullptr || heaps.allocate(1000) == nullptr) return 2;
  std::puts("consumer ok");
}
