// Every way in which a thread or a process may end, with code that allocates and frees at that
// time.
//
// usage: endings; it runs itself once for each way in which a process may end

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/child.h"
#include "support/memory.h"

namespace {

std::atomic<int> g_steps{0};

void* make(std::size_t bytes) {
  void* p = malloc(bytes);
  CHECK(p != nullptr, "malloc failed");
  return std::memset(p, 0x5a, bytes);
}

void churn() {
  for (const std::size_t bytes : {1, 100, 3000, 50'000, 200'000}) {
    void* kept = make(bytes);
    free(make(bytes / 2 + 1));
    free(realloc(kept, bytes * 2));
  }
}

// --- threads ---------------------------------------------------------------------------------

pthread_key_t g_key;
void* g_left_in_last_round;

/// Is called again in every round there is. Each time it frees what it allocated the time before.
void in_each_round(void* value) {
  auto* rounds = static_cast<int*>(value);
  churn();
  auto* next = static_cast<int*>(make(sizeof(int) + 200));
  *next = *rounds + 1;
  free(rounds);
  ++g_steps;
  if (*next == PTHREAD_DESTRUCTOR_ITERATIONS) {
    g_left_in_last_round = next;  // nobody comes back for it
  } else {
    pthread_setspecific(g_key, next);
  }
}

struct ThreadLocal {
  std::string text = std::string(1000, 't');
  ~ThreadLocal() {
    churn();
    ++g_steps;
  }
};

void use_thread_locals() {
  thread_local ThreadLocal object;
  CHECK(object.text.size() == 1000, "a thread-local object");
  auto* rounds = static_cast<int*>(make(sizeof(int)));
  *rounds = 0;
  pthread_setspecific(g_key, rounds);
}

void expect_steps(int steps) {
  CHECK(g_steps == steps, "a thread ended without what it had to do");
  CHECK(malloc_usable_size(g_left_in_last_round) >= 204, "what a thread left is lost");
  free(g_left_in_last_round);
  g_steps = 0;
}

void* end_by_pthread_exit(void*) {
  use_thread_locals();
  pthread_exit(make(10));
}

void* wait_to_be_cancelled(void*) {
  use_thread_locals();
  void* block = make(3000);
  pthread_cleanup_push(
      [](void* p) {
        churn();
        free(p);
        ++g_steps;
      },
      block);
  for (;;) pause();
  pthread_cleanup_pop(1);
  return nullptr;
}

void threads_end() {
  CHECK(pthread_key_create(&g_key, in_each_round) == 0, "pthread_key_create");
  std::size_t live_before = 0;
  for (int i = 0; i < 80; ++i) {
    if (i == 20) live_before = mallinfo2().uordblks;
    std::thread(use_thread_locals).join();
    expect_steps(PTHREAD_DESTRUCTOR_ITERATIONS + 1);
    pthread_t thread;
    void* result;
    CHECK(pthread_create(&thread, nullptr, end_by_pthread_exit, nullptr) == 0, "pthread_create");
    pthread_join(thread, &result);
    free(result);
    expect_steps(PTHREAD_DESTRUCTOR_ITERATIONS + 1);
    if (i % 4 != 0) continue;
    CHECK(pthread_create(&thread, nullptr, wait_to_be_cancelled, nullptr) == 0, "pthread_create");
    pthread_cancel(thread);
    pthread_join(thread, &result);
    // The thread was cancelled before it did anything, or in the middle of its work.
    if (g_steps != 0) expect_steps(g_steps);
  }
  CHECK(mallinfo2().uordblks < live_before + kMiB, "threads that end leave memory behind");
}

// --- processes -------------------------------------------------------------------------------

void step() {
  churn();
  ++g_steps;
  // After the last thread, one that a handler starts is the last again: at its end glibc calls
  // exit() once more, and from 2.41 on that waits for the first call.
  if (g_steps < 100) std::thread(churn).join();
}

/// Runs last of everything that is registered.
[[gnu::destructor]] void after_everything() {
  churn();
  if (g_steps >= 100) _exit(g_steps == 103 ? 0 : 1);
}

struct Static {
  std::vector<std::string> names{50, std::string(100, 's')};
  ~Static() {
    names.resize(500);
    churn();
  }
} g_static;

void exit_in_main() {
  g_steps = 100;
  on_exit([](int, void* p) { free(p), step(); }, make(3'000'000));
  for (int i = 0; i < 2; ++i) atexit(step);
  exit(7);
}

void exit_in_a_thread() {
  std::thread others[3];
  for (auto& other : others) {
    other = std::thread([] {
      for (;;) churn();
    });
  }
  std::thread([] { exit_in_main(); }).join();
}

void quick_exit_in_main() {
  at_quick_exit([] {
    step();
    _exit(g_steps == 3 ? 0 : 1);  // the others ran before
  });
  for (int i = 0; i < 2; ++i) at_quick_exit(step);
  quick_exit(7);
}

void pthread_exit_in_main() {
  std::thread([] {
    usleep(20'000);
    step();
    exit_in_main();
  }).detach();
  pthread_exit(make(10));
}

/// The malloc's own threads do not count as the program's: they do not keep it alive.
void end_with_the_last_thread() {
  g_steps = 100;
  for (int i = 0; i < 2; ++i) atexit(step);
  atexit([] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (sigismember(&blocked, SIGTERM) == 0) step();
  });
  std::thread([] {
    usleep(20'000);
    std::vector<void*> blocks;  // so many that the scavenger has work
    for (int i = 0; i < 400; ++i) blocks.push_back(make(100'000));
    for (void* p : blocks) free(p);
    churn();
  }).detach();
  pthread_exit(make(10));
}

void expect_end(void (*end)(), const char* what) {
  expect_in_child(what, [end] {
    end();
    _exit(1);
  });
}

}  // namespace

int main() {
  threads_end();
  for (int i = 0; i < 3; ++i) {
    expect_end(exit_in_main, "exit");
    expect_end(exit_in_a_thread, "exit in a thread");
    expect_end(quick_exit_in_main, "quick_exit");
    expect_end(pthread_exit_in_main, "pthread_exit in main");
    expect_end(end_with_the_last_thread, "the end of the last thread");
  }
  return 0;
}
