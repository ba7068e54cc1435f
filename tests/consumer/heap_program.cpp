// Linked against the heaps. The heaps work, and malloc is not theirs. Also with Strata's malloc.
#include <strata/allocator.hpp>
#include <strata/heap.hpp>
#ifdef BESIDE_STRATA
#include <strata/malloc.h>
#endif
#include <strata/memory_resource.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <vector>

int main() {
  strata::Heap::Options options;
  options.name = "session";
  options.hard_limit_bytes = 8 << 20;
  strata::Heap heap(options);
  void* p = heap.allocate(100);
  if (p == nullptr) return 1;
  std::memset(p, 'x', 100);
  void* theirs = std::malloc(100);
  const bool is_apart = heap.owns(p) && !heap.owns(theirs);
#ifdef BESIDE_STRATA
  // Dies with a sentence if malloc is still the C library's.
  if (strata_usable_size(theirs) < 100) return 2;
#endif
  std::free(theirs);
  std::vector<int, strata::Allocator<int, strata::Heap>> numbers(1000, 7, heap);
  strata::MemoryResource<strata::Heap> resource(heap);
  std::pmr::vector<int> more(1000, 7, &resource);
  const bool is_limited = heap.allocate(16 << 20) == nullptr;
  if (!is_apart || !is_limited || numbers[999] != 7 || !heap.owns(more.data())) return 1;
  std::puts("consumer ok");
}
