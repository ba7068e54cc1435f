// fork() handlers of the program that allocate, registered as early as a program can, and before it
// uses the malloc: they must not find the malloc locked.

#include <pthread.h>
#include <unistd.h>

#include <initializer_list>

#include "support/check.h"
#include "support/child.h"

namespace {

int g_calls = 0;

void allocate_in_handler() {
  ++g_calls;
  for (const std::size_t bytes : {10, 3000, 200'000, 3'000'000}) {
    void* const block = opaque(malloc(bytes));
    CHECK(block != nullptr, "the malloc is locked");
    free(block);
  }
}

/// Before all other constructors of the program: 101 is the first priority that is not reserved,
/// and is ours.
[[gnu::constructor(102)]] void register_handlers() {
  pthread_atfork(allocate_in_handler, allocate_in_handler, allocate_in_handler);
}

}  // namespace

int main() {
  alarm(kPatienceSeconds);  // for the handler before the fork
  free(opaque(malloc(10)));
  const auto expect_handlers = [] {
    free(opaque(malloc(10)));
    CHECK(g_calls == 2, "the handlers did not run");
  };
  expect_in_child("after the handlers", expect_handlers);
  expect_handlers();
  return 0;
}
