// Allocation before main and after it: in the preinit array of the program, in constructors, in
// exit handlers, in destructors of static and thread-local objects.

#include <malloc.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"

namespace {

void* g_from_preinit;
void* g_from_constructor;
int g_exit_steps = 0;

void* make(std::size_t bytes) {
  void* p = malloc(bytes);
  CHECK(p != nullptr, "malloc failed");
  return std::memset(p, 0x11, bytes);
}

void allocate_in_preinit(int, char**, char**) {
  g_from_preinit = make(1000);
  free(make(200'000));
  free(make(3'000'000));
}

[[gnu::constructor(101)]] void allocate_in_constructor() {
  free(g_from_preinit);
  g_from_constructor = make(5000);
}

void at_exit() {
  ++g_exit_steps;
  free(make(100));
  free(make(2'000'000));
  std::thread([] { free(make(50)); }).join();
}

struct Static {
  std::vector<std::string> names{100, std::string(50, 'n')};
  ~Static() {
    CHECK(g_exit_steps == 2, "the handlers of exit did not run before");
    names.emplace_back(100, 'x');
    free(make(100));
  }
} g_static;

struct ThreadLocal {
  std::vector<std::string> names{10, std::string(50, 't')};
  ~ThreadLocal() {
    names.resize(1000, std::string(60, 'u'));
    free(make(40'000));
  }
};
thread_local ThreadLocal t_object;

[[gnu::destructor]] void after_everything() {
  free(make(100));
  free(g_from_constructor);
}

}  // namespace

[[gnu::used,
  gnu::section(".preinit_array")]] static void (*g_before_all)(int, char**,
                                                               char**) = allocate_in_preinit;

int main() {
  CHECK(malloc_usable_size(opaque(malloc(1))) <= 16, "the malloc is not Strata's");
  t_object.names.emplace_back("main's");
  atexit(at_exit);
  atexit(at_exit);
  for (int i = 0; i < 50; ++i)
    std::thread([] { t_object.names.emplace_back("a thread's"); }).join();
  return 0;
}
