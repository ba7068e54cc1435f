// However many thousand threads come and go, they need no more memory than a few.

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/memory.h"

namespace {

/// Like a small request to a server: some objects of many sizes, all of which are freed.
void work(unsigned seed) {
  void* blocks[60];
  for (unsigned i = 0; i < 60; ++i) {
    const std::size_t bytes = 16 + (seed * 31 + i * 97) % 4000;
    blocks[i] = std::memset(malloc(bytes), 1, bytes);
  }
  for (void* p : blocks) free(p);
}

void run_threads(int count, int at_once) {
  for (int done = 0; done < count; done += at_once) {
    std::vector<std::thread> threads;
    for (int i = 0; i < at_once; ++i) threads.emplace_back(work, static_cast<unsigned>(done + i));
    for (auto& thread : threads) thread.join();
  }
}

}  // namespace

int main() {
  // One after the other: each thread takes over the cache that the last one left, and uses it.
  run_threads(500, 1);
  const std::size_t rss_one = resident_bytes();
  const struct mallinfo2 info_one = mallinfo2();
  run_threads(20'000, 1);
  const struct mallinfo2 info_then = mallinfo2();
  CHECK(resident_bytes() < rss_one + 4 * kMiB, "20 000 threads in a row grew the process");
  CHECK(info_then.arena <= info_one.arena + 2 * kMiB, "20 000 threads in a row grew the heap");
  CHECK(info_then.fsmblks <= info_one.fsmblks + kMiB, "20 000 threads in a row grew the caches");

  // 50 threads at a time, which begin together.
  run_threads(500, 50);
  const std::size_t rss_fifty = resident_bytes();
  run_threads(10'000, 50);
  CHECK(resident_bytes() < rss_fifty + 16 * kMiB, "10 000 threads, 50 at once, grew the process");
  CHECK(resident_bytes() < rss_one + 64 * kMiB, "50 threads at once left too much behind");
  return 0;
}
