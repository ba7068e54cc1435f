#pragma once

#include <atomic>
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

/// The same, and runs meanwhile() on one more thread: at least once, and until the others have
/// ended.
template <typename Body, typename Meanwhile>
void run_together(int count, Body body, Meanwhile meanwhile) {
  std::atomic<int> running{count};  // relaxed: join() orders what they did
  run_together(count + 1, [&](int i) {
    if (i != count) {
      body(i);
      running.fetch_sub(1, std::memory_order_relaxed);
    } else {
      do meanwhile();
      while (running.load(std::memory_order_relaxed) != 0);
    }
  });
}

}  // namespace strata
