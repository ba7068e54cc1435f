// fork() handlers of the program that allocate, registered as early as a program can and before any
// use of the malloc: they must not find it locked.

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <initializer_list>

#include "support/check.h"

namespace {

int g_calls = 0;

void allocate_in_handler() {
  ++g_calls;
  for (const std::size_t bytes : {10, 3000, 200'000, 3'000'000}) free(opaque(malloc(bytes)));
}

/// Before every other constructor of the program: 101 is the first that is not reserved, and ours.
[[gnu::constructor(102)]] void register_handlers() {
  pthread_atfork(allocate_in_handler, allocate_in_handler, allocate_in_handler);
}

}  // namespace

int main() {
  alarm(20);  // a deadlock ends by SIGALRM
  free(opaque(malloc(10)));
  const pid_t child = fork();
  CHECK(child >= 0, "fork failed");
  if (child == 0) {
    alarm(20);
    free(opaque(malloc(10)));
    _exit(g_calls == 2 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child died or hung");
  CHECK(g_calls == 2, "the handlers did not run");
  return 0;
}
