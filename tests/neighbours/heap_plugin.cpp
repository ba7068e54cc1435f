// A library with its own heaps, whose constructor may wait for a thread that makes one; or a
// library whose constructor makes the program create a heap. See heap_plugins.cpp.

#include <strata/heap.h>

#include <pthread.h>

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

#ifdef STRATA_WAITS_FOR_A_THREAD
namespace {
[[gnu::constructor]] void begin() {
  pthread_t thread;
  const auto body = [](void*) -> void* {
    use_heap();
    return nullptr;
  };
  if (pthread_create(&thread, nullptr, body, nullptr) == 0) pthread_join(thread, nullptr);
}
}  // namespace
#endif

#endif
