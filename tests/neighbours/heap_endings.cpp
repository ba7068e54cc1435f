// The process ends while heaps exist that contain blocks, and while other threads call them.
//
// usage: heap_endings; it runs itself once for each ending and kind of heap

#include <strata/heap.hpp>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "support/check.h"
#include "support/child.h"

namespace {

using Heap = strata::Heap;

Heap::Options g_kind;
Heap* g_shared;  // never ends
std::atomic<int> g_steps{0};

Heap& heap_of_static_storage() {
  static Heap heap(g_kind);
  return heap;
}

void churn(Heap& heap) {
  for (const std::size_t bytes : {1, 100, 3000, 50'000, 200'000, 2'000'000}) {
    void* kept = heap.allocate(bytes);
    CHECK(kept != nullptr, "an allocation failed");
    std::memset(kept, 1, bytes);
    heap.deallocate(heap.allocate(bytes / 2 + 1));
    heap.deallocate(heap.reallocate(kept, bytes * 2));
  }
}

/// What an exit handler may do: use heaps that exist, and make one that nobody ends.
void step() {
  churn(*g_shared);
  auto* another = new Heap(g_kind);
  CHECK(another->allocate(100) != nullptr, "a heap made at exit does not work");
  churn(*another);
  ++g_steps;
}

void leave_blocks() {
  g_shared = new Heap(g_kind);
  for (Heap* heap : {g_shared, &heap_of_static_storage(), new Heap(g_kind)}) {
    churn(*heap);
    for (const std::size_t bytes : {10, 5000, 300'000, 3'000'000})
      CHECK(heap->allocate(bytes) != nullptr, "an allocation failed");
  }
}

/// Starts threads that never stop.
void let_others_work() {
  static std::atomic<int> working{0};
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      Heap own(g_kind);
      for (bool is_first = true;; is_first = false) {
        churn(*g_shared);
        churn(own);
        if (is_first) ++working;
      }
    }).detach();
  }
  while (working != 3) std::this_thread::yield();
}

void end_by_exit() {
  atexit([] { _exit(g_steps == 2 ? 7 : 1); });  // the others ran before
  for (int i = 0; i < 2; ++i) atexit(step);
  std::exit(1);
}

void end_by_plain_exit() { std::exit(7); }

void end_by_exit_in_a_thread() {
  let_others_work();
  std::thread([] { std::exit(7); }).join();
}

void end_at_once() {
  let_others_work();
  _exit(7);
}

void end_by_quick_exit() {
  at_quick_exit([] { _exit(g_steps == 2 ? 7 : 1); });
  for (int i = 0; i < 2; ++i) at_quick_exit(step);
  let_others_work();
  std::quick_exit(1);
}

void end_by_the_last_thread() {
  std::thread([] {
    step();
    std::exit(7);
  }).detach();
  pthread_exit(nullptr);
}

struct Ending {
  const char* name;
  void (*end)();
  bool reports;  ///< the leaks: those handlers that are registered with exit run
};
constexpr Ending kEndings[] = {
    {"exit with handlers that use heaps", end_by_exit, false},
    {"exit", end_by_plain_exit, true},
    {"exit in a thread while others work", end_by_exit_in_a_thread, true},
    {"_exit while others work", end_at_once, false},
    {"quick_exit while others work", end_by_quick_exit, false},
    {"exit in the last thread", end_by_the_last_thread, true},
};

/// Runs the ending in a child.
/// \returns  what the child wrote to standard error
std::string said_at(const Ending& ending) {
  int ends[2];
  CHECK(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    alarm(kPatienceSeconds);
    leave_blocks();
    ending.end();
    _exit(1);
  }
  close(ends[1]);
  std::string said;
  char part[4096];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(bytes));
  close(ends[0]);
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child, "waitpid");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
    fprintf(stderr, "%s: status %d\n%s\n", ending.name, status, said.c_str());
    exit(1);
  }
  return said;
}

}  // namespace

int main() {
  const bool wants_leaks = getenv("STRATA_LEAKS") != nullptr;
  Heap::Options kinds[4];
  kinds[1].checks = Heap::Checks::kFull;
  kinds[2].checks = Heap::Checks::kFrees;
  kinds[3].guard_rate = 20;
  for (Heap::Options& kind : kinds) {
    g_kind = kind;
    g_kind.name = "of the test";
    for (const Ending& ending : kEndings) {
      const std::string said = said_at(ending);
      if (!wants_leaks || !ending.reports) {
        CHECK(said.empty(), said.c_str());
      } else {
        CHECK(said.find("live at exit") != said.npos, "the leaks are not reported");
        CHECK(said.find("in the heap 'of the test'") != said.npos, "the heap is not named");
      }
    }
  }
  return 0;
}
