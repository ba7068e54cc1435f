// For a long time, one thread only allocates and another only frees: freed memory must find its way
// back. Then a ring of threads, each of which frees what its neighbour allocated.

#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/check.h"
#include "support/memory.h"

namespace {

constexpr std::size_t kSlots = 4096;

/// A bounded queue of blocks between two threads.
struct Channel {
  std::atomic<std::size_t> head{0};
  std::atomic<std::size_t> tail{0};
  void* slots[kSlots];

  void put(void* p) {
    const std::size_t at = tail.load(std::memory_order_relaxed);
    while (at - head.load(std::memory_order_acquire) == kSlots) std::this_thread::yield();
    slots[at % kSlots] = p;
    tail.store(at + 1, std::memory_order_release);
  }
  void* take() {
    const std::size_t at = head.load(std::memory_order_relaxed);
    while (tail.load(std::memory_order_acquire) == at) std::this_thread::yield();
    void* p = slots[at % kSlots];
    head.store(at + 1, std::memory_order_release);
    return p;
  }
};

std::size_t bytes_of(std::size_t i) {
  return i % 1000 == 0 ? 200'000 : i % 50 == 0 ? 10'000 : 16 + i * 7 % 800;
}

}  // namespace

int main() {
  static Channel there;
  constexpr std::size_t kBlocks = 3'000'000;
  std::atomic<std::size_t> early_rss{0};
  std::thread consumer([&] {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      auto* p = static_cast<unsigned char*>(there.take());
      CHECK(p[0] == static_cast<unsigned char>(i), "a block on its way was overwritten");
      free(p);
    }
  });
  for (std::size_t i = 0; i < kBlocks; ++i) {
    auto* p = static_cast<unsigned char*>(malloc(bytes_of(i)));
    CHECK(p != nullptr, "malloc failed");
    p[0] = static_cast<unsigned char>(i);
    there.put(p);
    if (i == kBlocks / 20) early_rss = peak_resident_bytes();
  }
  consumer.join();
  // At most 4096 blocks are on their way, which is 6 MiB. A heap that loses freed blocks would have
  // 2 GiB by now.
  CHECK(peak_resident_bytes() < 64 * kMiB, "hand-over from thread to thread grew the process");
  CHECK(peak_resident_bytes() < early_rss + 24 * kMiB, "hand-over grows the process for ever");

  static Channel ring[3];
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 3; ++t) {
    threads.emplace_back([t] {
      for (std::size_t i = 0; i < 300'000; ++i) {
        ring[t].put(std::memset(malloc(bytes_of(i)), static_cast<int>(t), 16));
        if (i >= 1000) free(ring[(t + 1) % 3].take());
      }
      for (int i = 0; i < 1000; ++i) free(ring[(t + 1) % 3].take());
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(peak_resident_bytes() < 128 * kMiB, "a ring of threads grew the process");
  return 0;
}
