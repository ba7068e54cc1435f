// A library with heaps of its own, or one whose constructor makes the program one. See
// heap_plugins.cpp.

#include <strata/heap.h>

#ifdef STRATA_IN_CONSTRUCTOR

extern "C" void in_constructor();

namespace {
[[gnu::constructor]] void begin() { in_constructor(); }
}  // namespace

#else

extern "C" bool use_heap() {
  strata_heap* const heap = strata_heap_create(nullptr, nullptr);
  void* const block = strata_heap_malloc(heap, 100);
  strata_heap_free(heap, block);
  strata_heap_destroy(heap);
  return block != nullptr;
}

#endif
