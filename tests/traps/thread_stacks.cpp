// The C library frees an ended thread's memory while it holds the lock of its list of stacks, and
// the start of another thread waits for that lock. In a child of fork() the malloc has to start
// threads: the scavenger, since there is idle memory, or the one that waits for a signal.

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>

#include "support/check.h"
#include "support/child.h"
#include "support/memory.h"

namespace {

// Together the stacks are more than the C library keeps, so it frees most of them when the first
// thread of the child ends; and what belonged to these threads is more than fits the cache of the
// thread that joins.
constexpr int kThreads = 300;
constexpr std::size_t kBytes = 1000;
void* g_blocks[24 * kMiB / kBytes];

pthread_t start(void* (*body)(void*)) {
  pthread_t thread;
  CHECK(pthread_create(&thread, nullptr, body, nullptr) == 0, "no thread");
  return thread;
}

}  // namespace

int main() {
  for (int i = 0; i < kThreads; ++i) {
    start([](void*) -> void* {
      for (;;) pause();
    });
  }
  for (void*& block : g_blocks) {
    block = malloc(kBytes);
    CHECK(block != nullptr, "malloc failed");
    std::memset(block, 1, kBytes);
  }
  for (void* const block : g_blocks) free(block);
  expect_in_child("threads that end", [] {
    // While a thread is being started, no signal comes through, not even the alarm: so the child
    // ends when its parent does.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3; ++i)
      pthread_join(start([](void*) -> void* { return nullptr; }), nullptr);
  });
  _exit(0);
}
