// A signal handler forks while it interrupts fork(), which holds every lock of the malloc: both
// forks succeed, and afterwards the malloc is as before, in the parent and in both children.

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/check.h"
#include "support/child.h"

namespace {

// More memory than there is for calls that find every lock taken.
constexpr int kBlocks = 100;
constexpr std::size_t kBytes = 100'000;

bool g_interrupts = false;
int g_nested_forks = 0;

bool is_malloc_locked() { return mallinfo2().arena == 0; }

void allocate_much() {
  CHECK(!is_malloc_locked(), "locks are still held after fork()");
  void* blocks[kBlocks];
  for (void*& block : blocks) {
    block = opaque(malloc(kBytes));
    CHECK(block != nullptr, "malloc failed");
  }
  for (void* block : blocks) free(block);
}

void fork_in_handler(int) {
  const pid_t child = fork();
  CHECK(child >= 0, "the nested fork failed");
  if (child == 0) _exit(0);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "the nested child failed");
  ++g_nested_forks;
}

void interrupt() {
  if (!g_interrupts) return;
  CHECK(is_malloc_locked(), "the handler has to come while fork() holds the malloc's locks");
  g_interrupts = false;
  raise(SIGUSR1);
}

}  // namespace

/// pthread_atfork calls this. The malloc takes care to register its handlers first; only handlers
/// registered before them run while the malloc is locked. So this function registers one before
/// them.
extern "C" int __register_atfork(void (*before)(), void (*in_parent)(), void (*in_child)(),
                                 void* file) {
  static bool is_first = true;
  const auto next =
      reinterpret_cast<decltype(&__register_atfork)>(dlsym(RTLD_NEXT, "__register_atfork"));
  CHECK(next != nullptr, "the C library has no fork handlers");
  if (is_first) {
    is_first = false;
    CHECK(next(interrupt, nullptr, nullptr, file) == 0, "no handler");
  }
  return next(before, in_parent, in_child, file);
}

int main() {
  alarm(kPatienceSeconds);
  struct sigaction action {};
  action.sa_handler = fork_in_handler;
  CHECK(sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction failed");
  free(opaque(malloc(1'000'000)));  // before there is a heap there is no arena to see
  allocate_much();
  for (int i = 1; i <= 3; ++i) {
    g_interrupts = true;
    expect_in_child("after a nested fork", allocate_much);
    CHECK(g_nested_forks == i, "fork() was not interrupted");
    allocate_much();
  }
  return 0;
}
