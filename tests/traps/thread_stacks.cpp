// The C library frees what an ended thread had while it holds the lock of its stacks, for which the
// start of another thread waits. In a child of fork() the malloc has threads to start: the
// scavenger, for there is idle memory, or the one that waits for a signal.

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

// Their stacks are more than the C library keeps: it frees most as the child's first thread ends,
// and what they had is more than the cache of the thread that joins takes.
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
    // While a thread is started no signal is let in, the alarm's neither: it ends with its parent.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3; ++i)
      pthread_join(start([](void*) -> void* { return nullptr; }), nullptr);
  });
  _exit(0);
}
