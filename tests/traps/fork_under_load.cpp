// fork() while other threads allocate, and malloc in the child. The child works, whatever the other
// threads were doing, and so do children that several threads make at the same time.
//
// usage: fork_under_load <forks> <threads that fork>

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/child.h"

namespace {

std::atomic<bool> g_stop{false};

std::size_t draw_bytes(std::minstd_rand& random) {
  const unsigned kind = random() % 1000;
  if (kind < 950) return random() % 2000;
  if (kind < 990) return random() % 200'000;
  return 200'000 + random() % 3'000'000;
}

/// Holds up to 200 blocks, each marked with its own number at both ends.
void churn(unsigned seed, int steps) {
  std::minstd_rand random(seed);
  struct Block {
    unsigned char* p = nullptr;
    std::size_t bytes = 0;
  };
  std::vector<Block> blocks(200);
  for (int step = 0; step < steps && !g_stop.load(std::memory_order_relaxed); ++step) {
    const std::size_t i = random() % blocks.size();
    Block& block = blocks[i];
    if (block.p != nullptr) {
      CHECK(block.p[0] == i && block.p[block.bytes - 1] == i, "a block was overwritten");
      free(block.p);
    }
    block.bytes = draw_bytes(random) + 1;
    block.p = static_cast<unsigned char*>(malloc(block.bytes));
    CHECK(block.p != nullptr, "malloc failed");
    block.p[0] = block.p[block.bytes - 1] = static_cast<unsigned char>(i);
  }
  for (const Block& block : blocks) free(block.p);
}

void fork_and_wait(int number, bool again) {
  expect_in_child("malloc after fork", [=] {
    churn(static_cast<unsigned>(number) + 1, 300);
    std::thread([number] { churn(static_cast<unsigned>(number) + 77, 300); }).join();
    if (again) fork_and_wait(number + 1000, false);
    malloc_trim(0);
    if (number % 4 == 0) exit(0);  // with the handlers of exit, too
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int forks = argc > 1 ? atoi(argv[1]) : 50;
  const int forking = argc > 2 ? atoi(argv[2]) : 1;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      while (!g_stop) churn(i + 1, 20'000);
    });
  }
  // Bursts wake the scavenger: it returns memory during the forks.
  threads.emplace_back([] {
    while (!g_stop) {
      std::vector<void*> blocks;
      for (int i = 0; i < 400 && !g_stop; ++i) {
        blocks.push_back(std::memset(malloc(100'000), 1, 100'000));
      }
      for (void* p : blocks) free(p);
      usleep(5000);
    }
  });
  // One thread asks for statistics and trims; both take locks in every layer.
  threads.emplace_back([] {
    while (!g_stop) {
      static_cast<void>(mallinfo2());
      malloc_trim(0);
      usleep(1000);
    }
  });
  std::vector<std::thread> forkers;
  for (int t = 0; t < forking; ++t) {
    forkers.emplace_back([=] {
      for (int i = 0; i < forks; ++i) fork_and_wait(t * 10'000 + i, i % 8 == 0);
    });
  }
  for (auto& thread : forkers) thread.join();
  g_stop = true;
  for (auto& thread : threads) thread.join();
  return 0;
}
