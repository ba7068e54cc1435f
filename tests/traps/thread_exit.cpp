// Threads that allocate and free while they end: in destructors of thread_local objects and of
// pthread keys. Some of these run after the malloc's own, in several rounds.

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/memory.h"

namespace {

constexpr int kKeys = 20;
pthread_key_t g_keys[kKeys];
std::atomic<int> g_destructions{0};

struct Value {
  int rounds_left;
  char* block;
};

void destroy(void* value) {
  auto* v = static_cast<Value*>(value);
  CHECK(v->block[0] == 'v', "a block was overwritten");
  free(v->block);
  v->block = static_cast<char*>(malloc(700));
  v->block[0] = 'v';
  free(malloc(5000));
  free(malloc(300'000));
  if (--v->rounds_left > 0) {
    // The key gets a value again, so the C library calls this function in another round.
    for (const pthread_key_t key : g_keys) {
      if (pthread_getspecific(key) == nullptr) {
        pthread_setspecific(key, v);
        return;
      }
    }
  }
  free(v->block);
  delete v;
  ++g_destructions;
}

struct ThreadLocal {
  std::string text = std::string(3000, 'x');
  ~ThreadLocal() {
    std::vector<std::string> more(50, text);
    CHECK(more.back() == text, "a string was overwritten");
  }
};

void run_thread() {
  thread_local ThreadLocal object;
  CHECK(!object.text.empty(), "never");
  for (const pthread_key_t key : g_keys) {
    auto* value = new Value{3, static_cast<char*>(malloc(100))};
    value->block[0] = 'v';
    pthread_setspecific(key, value);
  }
}

}  // namespace

int main() {
  // Some keys are made before the malloc makes its own, some after.
  for (int i = 0; i < kKeys; ++i) pthread_key_create(&g_keys[i], destroy);
  constexpr int kThreads = 2000;
  std::size_t after_warm_up = 0;
  for (int i = 0; i < kThreads; ++i) {
    std::thread(run_thread).join();
    if (i == kThreads / 4) after_warm_up = mallinfo2().uordblks;
  }
  CHECK(g_destructions == kThreads * kKeys, "a destructor did not run");
  CHECK(mallinfo2().uordblks < after_warm_up + kMiB, "threads that end leave live memory behind");
  CHECK(mallinfo2().fsmblks < 64 * kMiB, "threads that end leave cached memory behind");
  return 0;
}
