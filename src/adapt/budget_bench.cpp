#include <strata/heap.hpp>
#include <strata/thread_heaps.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// \file  How much of a hard budget is live when a request is refused: ThreadHeaps with a budget
///        for each thread (`own`) or one for all (`shared`), a strata::Heap for each thread
///        (`heaps`) or one for all (`heap`).
///
/// Each thread allocates blocks of 16 bytes to `largest`, evenly by their logarithm, until one is
/// refused or it has its share. When all have, it frees half of its bytes at random; nine times.

namespace {

using namespace strata;

struct Memory {
  std::optional<ThreadHeaps> thread_heaps;
  std::vector<std::unique_ptr<Heap>> heaps;

  Memory(const std::string& kind, std::size_t threads, std::size_t share) {
    if (kind == "own" || kind == "shared") {
      ThreadHeaps::Options options;
      (kind == "own" ? options.thread_budget_bytes = share
                     : options.total_budget_bytes = threads * share);
      thread_heaps.emplace(options);
      return;
    }
    Heap::Options options;
    const std::size_t count = kind == "heaps" ? threads : 1;
    options.hard_limit_bytes = threads * share / count;
    while (heaps.size() < count) heaps.push_back(std::make_unique<Heap>(options));
  }
  void* allocate(std::size_t thread, std::size_t bytes) {
    if (thread_heaps) return thread_heaps->allocate(bytes);
    return heaps[thread % heaps.size()]->allocate(bytes);
  }
  void deallocate(std::size_t thread, void* block) {
    if (thread_heaps) return thread_heaps->deallocate(block);
    heaps[thread % heaps.size()]->deallocate(block);
  }
};

/// \returns  the mean of what was live at the end of each round but the first, in bytes
double live_of(Memory& memory, std::size_t thread, std::size_t share, double largest,
               std::barrier<>& all_full) {
  constexpr int kRounds = 8;
  std::mt19937_64 random(thread + 1);
  std::vector<std::pair<void*, std::size_t>> blocks;
  std::size_t live = 0;
  double sum = 0;
  for (int round = 0; round <= kRounds; ++round) {
    while (true) {
      const double power = static_cast<double>(random() % 10000) / 10000;
      const auto bytes = static_cast<std::size_t>(16 * std::pow(largest / 16, power));
      void* block = live + bytes <= share ? memory.allocate(thread, bytes) : nullptr;
      if (block == nullptr) break;
      std::memset(block, 1, bytes);
      blocks.emplace_back(block, bytes);
      live += bytes;
    }
    all_full.arrive_and_wait();
    if (round > 0) sum += static_cast<double>(live);
    for (const std::size_t kept = live / 2; live > kept;) {
      auto& block = blocks[random() % blocks.size()];
      memory.deallocate(thread, block.first);
      live -= block.second;
      block = blocks.back();
      blocks.pop_back();
    }
  }
  for (auto& block : blocks) memory.deallocate(thread, block.first);
  return sum / kRounds;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc == 5 ? argv[1] : "";
  if (kind != "own" && kind != "shared" && kind != "heaps" && kind != "heap") {
    std::fprintf(stderr, "usage: budget_bench own|shared|heaps|heap threads KiB-each largest\n");
    return 1;
  }
  const std::size_t count = std::strtoul(argv[2], nullptr, 10);
  const std::size_t share = std::strtoul(argv[3], nullptr, 10) * 1024;
  Memory memory(kind, count, share);
  std::barrier<> all_full(static_cast<std::ptrdiff_t>(count));
  std::atomic<double> live{0};
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < count; ++thread) {
    threads.emplace_back([&, thread] {
      live += live_of(memory, thread, share, std::strtod(argv[4], nullptr), all_full);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%s, %zu threads, %zu KiB each, 16 to %s bytes: %.3f of the budget is live\n",
              argv[1], count, share / 1024, argv[4],
              live.load() / static_cast<double>(count * share));
}
