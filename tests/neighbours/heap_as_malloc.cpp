// A program whose malloc is one of its own heaps. It has so many pthread keys that for the value of
// one more key the C library allocates.

#include <strata/heap.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/check.h"

namespace {

strata_heap* make_heap() {
  for (int i = 0; i < 40; ++i) {
    pthread_key_t key;
    CHECK(pthread_key_create(&key, nullptr) == 0, "there is no key");
  }
  return strata_heap_create(nullptr, nullptr);
}

strata_heap* the_heap() {
  static strata_heap* const heap = make_heap();
  return heap;
}

/// Whether calloc in this thread uses the heap and then says that there is no memory.
thread_local bool t_is_refused = false;

}  // namespace

extern "C" {
void* malloc(size_t bytes) { return strata_heap_malloc(the_heap(), bytes); }
void* calloc(size_t count, size_t bytes) {
  if (!t_is_refused) return strata_heap_calloc(the_heap(), count, bytes);
  strata_heap_free(the_heap(), strata_heap_malloc(the_heap(), bytes));
  return nullptr;
}
void* realloc(void* block, size_t bytes) { return strata_heap_realloc(the_heap(), block, bytes); }
void free(void* block) { strata_heap_free(the_heap(), block); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return strata_heap_aligned_alloc(the_heap(), alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = aligned_alloc(alignment, bytes);
  return *block != nullptr ? 0 : ENOMEM;
}
}

int main() {
  for (int round = 0; round < 3; ++round) {
    pthread_t threads[4];
    for (pthread_t& thread : threads) {
      const auto work = [](void*) -> void* {
        t_is_refused = true;
        for (int i = 0; i < 3; ++i) free(malloc(100));
        t_is_refused = false;
        for (size_t bytes = 1; bytes < 1'000'000; bytes *= 3) free(malloc(bytes));
        return malloc(100);
      };
      CHECK(pthread_create(&thread, nullptr, work, nullptr) == 0, "pthread_create");
    }
    for (const pthread_t thread : threads) {
      void* block = nullptr;
      CHECK(pthread_join(thread, &block) == 0 && block != nullptr, "pthread_join");
      free(block);
    }
  }
  return 0;
}
