#pragma once

#include <latch>
#include <thread>
#include <vector>

namespace strata {

/// Runs body(index) on each of `count` threads, which all start together.
template <typename Body>
void run_together(int count, Body body) {
  std::latch gate(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      gate.arrive_and_wait();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace strata
