#pragma once

#include <strata/coalescing_heap.hpp>
#include <strata/thread_heaps.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <thread>

#include "os/page_source.h"

/// \file  Shared parts of the heaps' tests.

namespace strata {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// A coalescing heap over the test's own memory.
struct Region {
  explicit Region(std::size_t size) : bytes(size), heap(memory, size) {}
  std::size_t bytes;
  alignas(16) char memory[1 << 16];
  CoalescingHeap heap;
};

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

inline ThreadHeaps::Options small_arenas(os::PageSource* pages = nullptr) {
  return {.arena_bytes = kMiB, .pages = pages};
}

/// The same with separate arenas for each thread: it sets a thread budget that no test uses up.
inline ThreadHeaps::Options own_arenas(os::PageSource* pages = nullptr) {
  ThreadHeaps::Options options = small_arenas(pages);
  options.thread_budget_bytes = 1024 * kMiB;
  return options;
}

/// Arenas whose size is no power of two: they fill 3 of the 4 MiB to which they are aligned.
inline ThreadHeaps::Options long_arenas() { return {.arena_bytes = 3 * kMiB}; }

/// The start of a block's arena, if arenas are aligned to `alignment`.
inline char* arena_start(char* block, std::size_t alignment) {
  return block - reinterpret_cast<std::uintptr_t>(block) % alignment;
}

/// Stops the first thread that passes, until it is told to go on.
class Gate {
 public:
  void pass() noexcept {
    if (is_taken_.exchange(true)) return;
    arrived.count_down();
    go_on.wait();
  }
  std::latch arrived{1};
  std::latch go_on{1};

 private:
  std::atomic<bool> is_taken_{false};
};

template <typename Body>
void in_thread(Body body) {
  std::thread(body).join();
}

/// Waits for something that another thread will do. If that never happens, the test's timeout ends
/// the wait.
template <typename Condition>
void wait_until(Condition condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace strata
