// The other ways to get a new process or an unusual stack: vfork, posix_spawn, system, and a signal
// handler on its own stack, which interrupts the malloc again and again.

#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"

extern char** environ;

namespace {

std::atomic<bool> g_stop{false};
volatile sig_atomic_t g_signals = 0;

void expect_success(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0) {
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child failed");
}

[[gnu::noinline]] pid_t run_true_by_vfork() {
  const pid_t child = vfork();
  if (child == 0) {
    execl("/bin/true", "true", nullptr);
    _exit(1);
  }
  return child;
}

void churn() {
  while (!g_stop) {
    void* blocks[100];
    for (unsigned i = 0; i < 100; ++i) blocks[i] = malloc(i * 37 + 1);
    for (void* p : blocks) free(p);
    free(malloc(3'000'000));
  }
}

}  // namespace

int main() {
  static char alternate_stack[64 * 1024];
  stack_t stack{};
  stack.ss_sp = alternate_stack;
  stack.ss_size = sizeof alternate_stack;
  CHECK(sigaltstack(&stack, nullptr) == 0, "sigaltstack failed");
  struct sigaction action {};
  action.sa_handler = [](int) { g_signals = g_signals + 1; };
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every_millisecond{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &every_millisecond, nullptr);

  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(churn);
  for (int round = 0; round < 20; ++round) {
    expect_success(run_true_by_vfork());

    pid_t child = 0;
    char program[] = "/bin/true";
    char* arguments[] = {program, nullptr};
    CHECK(posix_spawn(&child, program, nullptr, nullptr, arguments, environ) == 0, "posix_spawn");
    expect_success(child);
    CHECK(system("true") == 0, "system failed");

    FILE* pipe = popen("echo one two three", "r");
    char line[64] = "";
    CHECK(pipe != nullptr && fgets(line, sizeof line, pipe) != nullptr, "popen failed");
    CHECK(std::strcmp(line, "one two three\n") == 0, "a child's output is wrong");
    pclose(pipe);
  }
  g_stop = true;
  for (auto& thread : threads) thread.join();
  CHECK(g_signals > 0, "no signal came");
  return 0;
}
