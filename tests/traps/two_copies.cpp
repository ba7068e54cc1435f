// Two copies of Strata in one process: the program's malloc, and another one, loaded from another
// file.
//
// usage: two_copies <another libstrata.so>

#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/child.h"

int main(int argc, char** argv) {
  CHECK(argc == 2, "usage: two_copies <another libstrata.so>");
  CHECK(malloc_usable_size(opaque(malloc(1))) == 16, "the program's malloc is not Strata's");
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr, "the copy cannot be loaded");
  const auto other_malloc =
      reinterpret_cast<void* (*)(std::size_t)>(dlsym(library, "strata_malloc"));
  const auto other_free = reinterpret_cast<void (*)(void*)>(dlsym(library, "strata_free"));
  CHECK(other_malloc != nullptr && other_free != nullptr, "a function of the copy is missing");

  const auto work = [&] {
    std::vector<unsigned char*> ours, theirs;
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < 3000; ++i) {
        const std::size_t bytes = 1 + (i * i) % (i % 100 == 0 ? 2'000'000 : 3000);
        ours.push_back(static_cast<unsigned char*>(malloc(bytes)));
        theirs.push_back(static_cast<unsigned char*>(other_malloc(bytes)));
        CHECK(ours.back() != nullptr && theirs.back() != nullptr, "an allocation failed");
        ours.back()[0] = ours.back()[bytes - 1] = 1;
        theirs.back()[0] = theirs.back()[bytes - 1] = 2;
      }
      for (auto* p : ours) {
        CHECK(*p == 1, "the copies share memory");
        free(p);
      }
      for (auto* p : theirs) {
        CHECK(*p == 2, "the copies share memory");
        other_free(p);
      }
      ours.clear();
      theirs.clear();
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  work();
  for (auto& thread : threads) thread.join();

  expect_in_child("the same work", work);

  // A pointer from one copy is foreign to the other.
  const int status = status_in_child([&] {
    close(STDERR_FILENO);
    free(other_malloc(100));
  });
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "a foreign pointer was not noticed");
  return 0;
}
