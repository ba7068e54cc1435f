// The system refuses threads: heaps return idle memory during calls of the program.

#include <strata/heap.hpp>

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>

#include "support/check.h"
#include "support/memory.h"

/// Replaces the C library's.
extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept {
  return EAGAIN;
}

int main() {
  strata::Heap heap;
  static void* blocks[100];
  for (void*& p : blocks) {
    p = heap.allocate(kMiB);
    CHECK(p != nullptr, "allocate failed");
    std::memset(p, 1, kMiB);
  }
  for (void* p : blocks) heap.deallocate(p);
  CHECK(heap.statistics().held > 50 * kMiB, "there is nothing to return");
  for (int tenths = 0; heap.statistics().held > 10 * kMiB; ++tenths) {
    CHECK(tenths < 600, "idle memory stays");
    usleep(100'000);
    heap.deallocate(heap.allocate(200'000));
  }
  return 0;
}
