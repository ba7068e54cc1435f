// A library that allocates in every way that a library can: in constructors, in static and
// thread-local objects, in its own threads, for its caller. See plugins.cpp.

#include <pthread.h>
#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> g_threads_done{0};

struct Static {
  std::map<int, std::string> names;
  void* block = malloc(3000);
  Static() {
    for (int i = 0; i < 200; ++i) names[i] = std::string(static_cast<std::size_t>(i + 20), 'n');
  }
  ~Static() {
    names[1000] = std::string(5000, 'x');
    free(block);
    free(malloc(200'000));
  }
} g_static;

struct ThreadLocal {
  std::vector<std::string> names{10, std::string(100, 't')};
  void* block = malloc(700);
  ~ThreadLocal() {
    names.resize(500, "more");
    free(block);
  }
};
thread_local ThreadLocal t_object;

void* g_from_constructor;
[[gnu::constructor]] void construct() { g_from_constructor = malloc(5000); }
[[gnu::destructor]] void destruct() { free(g_from_constructor); }

void churn() {
  std::vector<std::unique_ptr<std::string>> strings;
  for (std::size_t i = 0; i < 300; ++i)
    strings.push_back(std::make_unique<std::string>(i * 7, 'c'));
  void* blocks[50];
  for (std::size_t i = 0; i < 50; ++i) blocks[i] = malloc(i * 997 + 1);
  for (void* p : blocks) free(p);
}

}  // namespace

extern "C" {

/// Allocates and frees, in this thread and in another one, which then ends.
void plugin_work() {
  t_object.names.emplace_back("used");
  churn();
  std::thread([] {
    t_object.names.emplace_back("used");
    churn();
  }).join();
}

/// Starts a thread that may still be ending when the library is unloaded, but no longer needs it.
void plugin_start_thread() {
  g_threads_done = 0;
  pthread_t thread;
  const auto body = [](void*) -> void* {
    churn();
    ++g_threads_done;
    return nullptr;
  };
  pthread_create(&thread, nullptr, body, nullptr);
  pthread_join(thread, nullptr);
}

/// Makes a block that the caller frees.
void* plugin_make(std::size_t bytes) { return std::memset(malloc(bytes), 'p', bytes); }
/// Frees a block of the caller's.
void plugin_take(void* block) { free(block); }
}
