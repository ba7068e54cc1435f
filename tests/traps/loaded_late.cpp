// A program on glibc's malloc that loads Strata with dlopen, uses it in threads, and unloads it
// before these threads, and Strata's own, have ended.
//
// usage: loaded_late <libstrata.so>

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/child.h"

namespace {

struct Api {
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void* (*realloc)(void*, std::size_t);
  std::size_t (*usable_size)(const void*);
};

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  CHECK(function != nullptr, "a function of the library is missing");
}

void use(const Api& api) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < 2000; ++i) {
    void* p = api.malloc(i * 7 + 1);
    CHECK(p != nullptr && api.usable_size(p) >= i * 7 + 1, "strata_malloc failed");
    blocks.push_back(std::memset(p, 1, i * 7 + 1));
  }
  for (void*& p : blocks) p = api.realloc(p, 300);
  for (void* p : blocks) api.free(p);
  // So much that the scavenger wakes.
  for (void*& p : blocks) p = std::memset(api.malloc(20'000), 1, 20'000);
  for (void* p : blocks) api.free(p);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2, "usage: loaded_late <libstrata.so>");
  std::atomic<int> used{0};
  std::atomic<bool> may_end{false};
  for (int round = 0; round < 3; ++round) {
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
    CHECK(library != nullptr, "the library cannot be loaded");
    Api api;
    find(library, "strata_malloc", api.malloc);
    find(library, "strata_free", api.free);
    find(library, "strata_realloc", api.realloc);
    find(library, "strata_usable_size", api.usable_size);
    CHECK(reinterpret_cast<void*>(api.malloc) != reinterpret_cast<void*>(&malloc),
          "this program was to run on the C library's malloc");

    used = 0;
    may_end = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        use(api);
        ++used;
        while (!may_end) std::this_thread::yield();
      });
    }
    use(api);
    while (used != 4) std::this_thread::yield();
    CHECK(dlclose(library) == 0, "the library cannot be unloaded");
    may_end = true;
    for (auto& thread : threads) thread.join();
    usleep(200'000);  // a round or two of the scavenger
    expect_in_child("fork after dlclose", [] {});
  }
  return 0;
}
