// Three threads. One allocates while it holds the lock of a stream. One flushes all streams: it
// holds the lock of the C library's list of streams, and waits for this stream. One forks, for
// which it needs that list, too. While fork() waits for the list, it must not hold the malloc's
// locks.

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "support/check.h"
#include "support/child.h"

namespace {

// Chosen: enough for the other threads to get to where they wait. On a machine too busy for that,
// the test sees less, but does not fail.
constexpr useconds_t kPauseUs = 200'000;

std::atomic<bool> g_is_writing{false};
std::atomic<bool> g_is_flushing{false};
std::atomic<bool> g_is_forking{false};

void wait_for(const std::atomic<bool>& event) {
  while (!event) usleep(1000);
}

/// The stream calls this to write, while its lock is held.
ssize_t write_and_allocate(void*, const char*, size_t size) {
  g_is_writing = true;
  wait_for(g_is_forking);
  usleep(kPauseUs);
  void* blocks[20];
  for (void*& block : blocks) block = opaque(malloc(200'000));
  for (void* block : blocks) free(block);
  return static_cast<ssize_t>(size);
}

void write_to_stream() {
  FILE* stream = fopencookie(nullptr, "w", {nullptr, write_and_allocate, nullptr, nullptr});
  CHECK(stream != nullptr && fputs("text", stream) >= 0, "a stream cannot be written");
  CHECK(fflush(stream) == 0 && fclose(stream) == 0, "a stream cannot be flushed and closed");
}

}  // namespace

int main() {
  alarm(kPatienceSeconds);
  // Handlers that were registered after the malloc's run before the malloc is locked.
  pthread_atfork([] { g_is_forking = true; }, nullptr, nullptr);
  std::thread writer(write_to_stream);
  wait_for(g_is_writing);
  std::thread flusher([] {
    g_is_flushing = true;
    fflush(nullptr);
  });
  wait_for(g_is_flushing);
  usleep(kPauseUs);
  expect_in_child("a child of three threads", [] {
    FILE* stream = tmpfile();
    CHECK(stream != nullptr && fputs("text", stream) >= 0, "the child cannot write");
    CHECK(fflush(nullptr) == 0, "the child cannot flush");
    expect_in_child("its child", [] { free(opaque(malloc(200'000))); });
  });
  writer.join();
  flusher.join();
  CHECK(fflush(nullptr) == 0, "the list of streams is still locked");
  return 0;
}
