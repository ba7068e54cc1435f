// Prints the malloc's statistics as JSON, one line for each state of the process at rest: with
// objects of every size, after all were freed, after all memory went back, with threads that wait,
// and after these ended.

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#include "operations/strata_api.h"

namespace {

constexpr std::size_t kSizes[] = {1,         24,        100,       1000,      4000,
                                  5000,      20'000,    100'000,   131'072,   200'000,
                                  1'000'000, 1'048'577, 3'000'000, 20'000'000};

std::vector<void*> allocate_all() {
  std::vector<void*> blocks;
  for (const std::size_t bytes : kSizes) {
    for (std::size_t i = 0; i < 1 + 300'000 / bytes; ++i) {
      blocks.push_back(malloc(bytes));
      CHECK(blocks.back() != nullptr, "malloc failed");
      std::memset(blocks.back(), 1, bytes);
    }
  }
  return blocks;
}

void free_all(std::vector<void*>& blocks, std::size_t step) {
  for (std::size_t i = 0; i < blocks.size(); i += step) {
    free(blocks[i]);
    blocks[i] = nullptr;
  }
}

void say(const char* state) { std::printf("%s %s\n", state, stats_json()); }

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IONBF, 0);
  say("started");
  std::vector<void*> blocks = allocate_all();
  say("allocated");
  free_all(blocks, 2);
  say("half_freed");
  strata_release_memory();
  say("half_released");
  free_all(blocks, 1);
  say("freed");
  strata_release_memory();
  say("released");
  constexpr int kThreads = 4;
  std::barrier gate(kThreads + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&gate] {
      std::vector<void*> mine = allocate_all();
      free_all(mine, 3);
      gate.arrive_and_wait();  // at rest, the main thread looks
      gate.arrive_and_wait();
      free_all(mine, 1);
    });
  }
  gate.arrive_and_wait();
  say("threads_wait");
  strata_release_memory();
  say("threads_wait_released");
  gate.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  say("threads_ended");
  strata_release_memory();
  say("all_released");
  return 0;
}
