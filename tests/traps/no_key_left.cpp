// When the heap begins, the program has taken all pthread keys of the C library. Later it deletes
// them: from then on the malloc learns when threads end, and their caches are used again.

#include <limits.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/memory.h"

namespace {

void use_many_sizes() {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 1000; ++i) {
    blocks.push_back(malloc(16 + i * 7 % 2000));
    std::memset(blocks.back(), 1, 16);
  }
  for (void* block : blocks) free(block);
}

}  // namespace

int main() {
  std::vector<pthread_key_t> keys;
  keys.reserve(PTHREAD_KEYS_MAX);
  pthread_key_t key;
  while (pthread_key_create(&key, nullptr) == 0) keys.push_back(key);
  CHECK(!keys.empty(), "no key at all");
  use_many_sizes();
  for (int i = 0; i < 2000; ++i) free(malloc(2000 + static_cast<std::size_t>(i)));
  for (const pthread_key_t each : keys) pthread_key_delete(each);

  std::size_t before = 0;
  constexpr int kThreads = 1000;
  for (int i = 0; i < kThreads; ++i) {
    std::thread(use_many_sizes).join();
    if (i == kThreads / 10) before = resident_bytes();
  }
  CHECK(resident_bytes() < before + 2 * kMiB, "threads that ended leave their caches behind");
}
