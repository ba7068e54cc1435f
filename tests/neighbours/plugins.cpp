// Libraries that allocate are loaded and unloaded, again and again, by a thread that ends and by
// one that stays. They pass blocks to the program and get others; some blocks live on when the
// library is gone.
//
// usage: plugins <library> [deepbind]
//   deepbind  with RTLD_DEEPBIND. Where Strata is no shared library, or STRATA_DEEPBIND keeps the
//             flag, the plugin's malloc is the C library's: no block passes

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/memory.h"

namespace {

constexpr int kRounds = 40;

template <typename Function>
Function find(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function>(dlsym(library, name));
  CHECK(function != nullptr, "a function of the library is missing");
  return function;
}

/// Whether the library's malloc is also this program's.
bool has_our_malloc(void* library) {
  const std::size_t before = mallinfo2().hblkhd;
  void* const block = find<void* (*)(std::size_t)>(library, "plugin_make")(5 * kMiB);
  const bool is_ours = mallinfo2().hblkhd >= before + 5 * kMiB;
  find<void (*)(void*)>(library, "plugin_take")(block);
  return is_ours;
}

bool is_malloc_shared(bool is_deep) {
  const bool is_dropped =
      dlsym(RTLD_DEFAULT, "strata_malloc") != nullptr && getenv("STRATA_DEEPBIND") == nullptr;
  return !is_deep || is_dropped;
}

void use(const char* path, bool is_deep, int round, std::vector<unsigned char*>& left) {
  const int flags = (round % 2 == 0 ? RTLD_NOW : RTLD_LAZY) | (is_deep ? RTLD_DEEPBIND : 0);
  void* library = dlopen(path, flags);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr, "the library cannot be loaded");
  const auto work = find<void (*)()>(library, "plugin_work");
  // A thread-local object of a thread that runs on keeps the library loaded. That of a thread that
  // ends does not.
  std::thread(work).join();
  if (round % 8 == 7) work();
  find<void (*)()>(library, "plugin_start_thread")();
  CHECK(has_our_malloc(library) == is_malloc_shared(is_deep), "the library's malloc is another");
  if (is_malloc_shared(is_deep)) {
    const auto make = find<void* (*)(std::size_t)>(library, "plugin_make");
    for (const std::size_t bytes : {10, 500, 20'000, 300'000, 2'000'000}) {
      left.push_back(static_cast<unsigned char*>(make(bytes)));
      CHECK(malloc_usable_size(left.back()) >= bytes, "the library's malloc is another");
      find<void (*)(void*)>(library, "plugin_take")(std::memset(malloc(bytes), 1, bytes));
    }
  }
  CHECK(dlclose(library) == 0, "the library cannot be unloaded");
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 2, "usage: plugins <library> [deepbind]");
  const bool is_deep = argc > 2;
  std::size_t after_warm_up = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<unsigned char*> left;
    std::thread([&] { use(argv[1], is_deep, round, left); }).join();
    if (round == 0) CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == nullptr, "it is still there");
    use(argv[1], is_deep, round, left);
    for (unsigned char* block : left) {
      CHECK(*block == 'p', "a block did not outlive its library");
      free(block);
    }
    if (round == kRounds / 4) after_warm_up = mallinfo2().uordblks;
  }
  CHECK(mallinfo2().uordblks < after_warm_up + kMiB, "loading and unloading leaves memory behind");
  return 0;
}
