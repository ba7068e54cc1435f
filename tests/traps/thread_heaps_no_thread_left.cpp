// The system refuses threads: ThreadHeaps return idle memory during calls of the program, and ask
// for a thread now and then, until they get one.

#include <strata/thread_heaps.hpp>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>

#include "support/check.h"
#include "support/memory.h"

namespace {

bool g_refuses = true;
int g_requests = 0;

}  // namespace

/// Replaces the C library's.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  ++g_requests;
  if (g_refuses) return EAGAIN;
  const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, argument);
}

int main() {
  strata::ThreadHeaps::Options options;
  options.arena_bytes = kMiB;
  options.reclaims = true;
  options.reclaim_delay_ms = 500;
  strata::ThreadHeaps heaps(options);
  static void* blocks[100];
  for (void*& p : blocks) {
    p = heaps.allocate(kMiB / 2);
    CHECK(p != nullptr, "allocate failed");
    std::memset(p, 1, kMiB / 2);
  }
  CHECK(heaps.statistics().held_bytes > 50 * kMiB, "there is nothing to return");
  for (void* p : blocks) heaps.deallocate(p);
  CHECK(g_requests > 0, "nobody asked for a thread: this test shows nothing");
  CHECK(g_requests < 20, "a thread is asked for at every free");
  for (int tenths = 0; heaps.statistics().held_bytes > 10 * kMiB; ++tenths) {
    CHECK(tenths < 600, "idle memory stays");
    usleep(100'000);
    heaps.deallocate(heaps.allocate(200'000));
  }
  g_refuses = false;
  for (int tenths = 0; !heaps.has_reclaimer(); ++tenths) {
    CHECK(tenths < 600, "no thread is asked for again");
    usleep(100'000);
    heaps.deallocate(heaps.allocate(200'000));
  }
  return 0;
}
