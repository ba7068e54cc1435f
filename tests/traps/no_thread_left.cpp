// The system refuses threads (by a limit of processes, or of address space): the malloc works
// without the thread that returns memory and the one that waits for a signal. It asks for them now
// and then, not at every free, and returns memory during calls of the program.

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "support/check.h"
#include "support/child.h"
#include "support/memory.h"

namespace {

int g_requests = 0;

/// A child prints its own warning, even if its parent has printed one.
void expect_warning_in_child() {
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  expect_in_child("a child without the thread for the signal", [&ends] {
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO, "no standard error");
    for (int i = 0; i < 1000; ++i) free(opaque(malloc(200'000)));
  });
  close(ends[1]);
  char text[1024];
  const ssize_t length = read(ends[0], text, sizeof text - 1);
  CHECK(length > 0, "the child said nothing");
  text[length] = '\0';
  CHECK(std::strstr(text, "the system refuses the thread") != nullptr, text);
}

}  // namespace

/// Replaces the C library's.
extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) noexcept {
  ++g_requests;
  return EAGAIN;
}

int main() {
  std::vector<void*> blocks(400);
  for (int round = 0; round < 50; ++round) {
    errno = 77;
    for (void*& p : blocks) {
      p = malloc(200'000);
      CHECK(p != nullptr, "malloc failed");
      std::memset(p, 1, 200'000);
    }
    for (void* p : blocks) free(p);
    CHECK(errno == 77, "a refused thread changes errno");
  }
  const std::size_t peak = peak_resident_bytes();
  CHECK(peak > 80'000'000, "there was nothing to return");
  for (int tenths = 0; resident_bytes() > peak / 2; ++tenths) {
    CHECK(tenths < 600, "idle memory stays");
    usleep(100'000);
    free(opaque(malloc(200'000)));
  }
  CHECK(g_requests > 0, "nobody asked for a thread: this test shows nothing");
  CHECK(g_requests < 2000, "a thread is asked for at every free");
  if (getenv("STRATA_STATS") != nullptr) expect_warning_in_child();
  return 0;
}
