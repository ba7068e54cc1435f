// Heaps, and libraries that come and go.
//
// usage: heap_plugins unloaded <library>        with heaps of its own: the program's threads, and
//                                               its malloc, outlive them
//        heap_plugins in_constructor <library>  whose constructor makes the program's second heap
//                                               while another thread is making the first
//        heap_plugins waiting <library>         whose constructor waits for a thread that makes the
//                                               library's first heap

#include <strata/heap.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/child.h"

namespace {

void* open_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  CHECK(library != nullptr, dlerror());
  return library;
}

void outlive(const char* path) {
  void* const library = open_library(path);
  const auto use_heap = reinterpret_cast<bool (*)()>(dlsym(library, "use_heap"));
  CHECK(use_heap != nullptr, "the library has no heap");
  std::atomic<bool> has_used{false};
  std::atomic<bool> is_closed{false};
  std::thread user([&] {
    CHECK(use_heap(), "the heap does not work");
    has_used = true;
    while (!is_closed) std::this_thread::yield();
  });
  while (!has_used) std::this_thread::yield();
  CHECK(dlclose(library) == 0, "dlclose");
  is_closed = true;
  user.join();
  // More than the limit of this test, which the malloc and all heaps share.
  constexpr std::size_t kBytes = 1 << 20;
  std::vector<void*> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(std::malloc(kBytes));
    CHECK(blocks.back() != nullptr, "malloc failed");
    std::memset(blocks.back(), 1, kBytes);
  }
  for (void* block : blocks) std::free(block);
}

std::atomic<bool> g_in_constructor{false};
std::atomic<bool> g_has_heap{false};
std::atomic<pid_t> g_other{0};

void make_heap() {
  strata::Heap heap;
  CHECK(heap.allocate(100) != nullptr, "the heap does not work");
}

/// Whether a thread of this process is waiting for something.
bool sleeps(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  char text[256];
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  if (file >= 0) close(file);
  if (bytes <= 0) return false;
  text[bytes] = '\0';
  const char* const name_ends = std::strrchr(text, ')');
  return name_ends != nullptr && std::strncmp(name_ends, ") S", 3) == 0;
}

void wait_in_constructor(const char* path) {
  alarm(kPatienceSeconds);
  outlive(path);
}

void race(const char* path) {
  alarm(kPatienceSeconds);
  std::thread other([] {
    g_other = static_cast<pid_t>(syscall(SYS_gettid));
    while (!g_in_constructor) std::this_thread::yield();
    make_heap();
    g_has_heap = true;
  });
  open_library(path);
  other.join();
}

}  // namespace

/// Here the lock of the dynamic loader is held: the other thread gets as far as it can without it.
extern "C" void in_constructor() {
  g_in_constructor = true;
  while (!g_has_heap && (g_other == 0 || !sleeps(g_other))) std::this_thread::yield();
  make_heap();
}

int main(int count, char** arguments) {
  CHECK(count == 3, "usage");
  const std::string what = arguments[1];
  (what == "unloaded" ? outlive : what == "waiting" ? wait_in_constructor : race)(arguments[2]);
  return 0;
}
