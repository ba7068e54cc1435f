// Handlers of SIGABRT and SIGSEGV that write reports: they allocate as if nothing had happened,
// free blocks of the program, take a backtrace, fork, ask another thread for help, wait until other
// threads end. They reach their end even where the malloc itself died, with its locks held.

#include <strata/malloc.h>

#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/child.h"

#pragma weak strata_profile_start
#pragma weak strata_profile_stop
#pragma weak strata_profile_write

namespace {

constexpr int kHandled = 42;
constexpr std::size_t kSizes[] = {1, 24, 100, 1000, 5000, 40'000, 200'000, 300'000};

int g_request[2], g_answer[2], g_end[2];
std::vector<std::thread> g_threads;
void* g_small;
void* g_huge;

/// Allocates in every way. Each block must be whole, and overlap no other.
void allocate_as_usual() {
  unsigned char* blocks[std::size(kSizes)];
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    blocks[i] = static_cast<unsigned char*>(malloc(kSizes[i]));
    CHECK(blocks[i] != nullptr, "malloc");
    std::memset(blocks[i], static_cast<int>(i), kSizes[i]);
  }
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    CHECK(blocks[i][0] == i && blocks[i][kSizes[i] - 1] == i, "blocks overlap");
    if (kSizes[i] > 50'000) continue;
    blocks[i] = static_cast<unsigned char*>(realloc(blocks[i], 2 * kSizes[i]));
    CHECK(blocks[i] != nullptr && blocks[i][kSizes[i] - 1] == i, "realloc");
  }
  for (unsigned char* block : blocks) free(block);
  auto* zero = static_cast<unsigned char*>(calloc(300, 10));
  for (int i = 0; i < 3000; ++i) CHECK(zero[i] == 0, "calloc");
  free(zero);
  void* aligned = nullptr;
  CHECK(posix_memalign(&aligned, 4096, 100) == 0, "posix_memalign");
  CHECK(reinterpret_cast<std::uintptr_t>(aligned) % 4096 == 0, "posix_memalign");
  free(aligned);
  std::vector<std::string> text(50, std::string(100, 'x'));
  text.resize(200, "more");
}

void report(int) {
  allocate_as_usual();
  free(g_small);
  CHECK(malloc_usable_size(g_huge) == 0 || malloc_usable_size(g_huge) >= 5'000'000, "usable size");
  if (void* larger = realloc(g_huge, 6'000'000)) g_huge = larger;
  free(g_huge);
  free(malloc(7'000'000));  // may be refused
  malloc_trim(0);
  static_cast<void>(mallinfo2());
  strata_profile_write("/dev/null");  // not where the malloc was interrupted
  strata_profile_stop();

  void* frames[20];
  char** names = backtrace_symbols(frames, backtrace(frames, 20));
  CHECK(names != nullptr, "backtrace_symbols");
  free(names);

  expect_in_child("a child of the handler", allocate_as_usual);

  char byte = 'r';
  CHECK(write(g_request[1], &byte, 1) == 1 && read(g_answer[0], &byte, 1) == 1, "the helper");
  close(g_end[1]);
  for (std::thread& thread : g_threads) thread.join();
  // Nor is it the end if a loop leaves memory behind.
  for (int i = 0; i < 500; ++i) allocate_as_usual();
  _exit(kHandled);
}

void help() {
  char byte;
  while (read(g_request[0], &byte, 1) == 1) {
    allocate_as_usual();
    if (write(g_answer[1], &byte, 1) != 1) return;
  }
}

/// Fills a cache with objects of the kind that die_in_the_malloc() frees. The thread ends when the
/// handler wants it to.
void wait_for_the_end(int ready) {
  void* blocks[300];
  for (void*& block : blocks) block = malloc(100);
  for (void* block : blocks) free(block);
  char byte = 'r';
  CHECK(write(ready, &byte, 1) == 1 && read(g_end[0], &byte, 1) == 0, "the end");
}

/// More threads than caches that wait for other threads: when they end, some caches are emptied.
void start_threads() {
  constexpr int kThreads = 40;
  int ready[2];
  CHECK(pipe(ready) == 0 && pipe(g_end) == 0, "pipe");
  for (int i = 0; i < kThreads; ++i) g_threads.emplace_back(wait_for_the_end, ready[1]);
  char byte;
  for (int i = 0; i < kThreads; ++i) CHECK(read(ready[0], &byte, 1) == 1, "a thread");
}

/// The malloc notices it when the objects are back in their span, whose lock it holds.
void die_in_the_malloc() {
  strata_profile_start(std::size_t{1} << 30);
  void* p = malloc(100);
  void* q = malloc(100);
  static_cast<void>(opaque(malloc(100)));  // keeps the span
  free(p);
  free(q);
  free(opaque(p));
  malloc_trim(0);
}

void die_of_a_foreign_pointer() { free(opaque(static_cast<void*>(&g_huge))); }
void abort_in_the_program() { abort(); }
void fault_in_the_program() { *opaque(static_cast<volatile int*>(nullptr)) = 1; }

void expect_handled(void (*die)(), const char* what) {
  const int status = status_in_child([die] {
    CHECK(pipe(g_request) == 0 && pipe(g_answer) == 0, "pipe");
    static char alternate_stack[256 * 1024];
    stack_t stack{};
    stack.ss_sp = alternate_stack;
    stack.ss_size = sizeof alternate_stack;
    CHECK(sigaltstack(&stack, nullptr) == 0, "sigaltstack failed");
    struct sigaction action {};
    action.sa_handler = report;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGABRT, &action, nullptr);
    sigaction(SIGSEGV, &action, nullptr);
    std::thread(help).detach();
    start_threads();
    g_small = malloc(100);
    g_huge = malloc(5'000'000);
    void* frame;
    backtrace(&frame, 1);  // loads what it needs, as its manual wants it
    if (opaque(die) == die_in_the_malloc) close(STDERR_FILENO);
    die();
    _exit(1);
  });
  if (!WIFEXITED(status) || WEXITSTATUS(status) != kHandled)
    fprintf(stderr, "%s: status %#x\n", what, status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == kHandled,
        "the handler did not come to its end");
}

}  // namespace

int main() {
  CHECK(malloc_usable_size(opaque(malloc(1))) <= 16, "the malloc is not Strata's");
  expect_handled(abort_in_the_program, "abort");
  expect_handled(fault_in_the_program, "a fault");
  expect_handled(die_of_a_foreign_pointer, "a foreign pointer");
  expect_handled(die_in_the_malloc, "a double free");
  return 0;
}
