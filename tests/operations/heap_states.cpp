// Prints the statistics of heaps in each of their states, in lines of "<heap>.<state> <json>".

#include <strata/heap.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/check.h"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

using Heap = strata::Heap;

void print(const Heap& heap, const char* state) {
  static char json[16'384];
  CHECK(heap.write_statistics_json(json, sizeof json) < sizeof json, "the text does not fit");
  printf("%s.%s %s\n", heap.name(), state, json);
}

void fill(Heap& heap, std::vector<void*>& live) {
  for (std::size_t i = 0; i < 3000; ++i) {
    const std::size_t bytes = i % 500 == 7   ? 3 * kMiB + i
                              : i % 100 == 5 ? 150'000 + 100 * i
                                             : 1 + i * i % 9000;
    void* p = i % 20 == 3 ? heap.allocate_aligned(bytes, 4096) : heap.allocate(bytes);
    if (p == nullptr) continue;  // by its limit
    std::memset(p, 1, bytes);
    live.push_back(p);
  }
}

void free_from(Heap& heap, std::vector<void*>& live, std::size_t first) {
  for (std::size_t i = first; i < live.size(); ++i) heap.deallocate(live[i]);
  live.resize(first);
}

/// The threads keep caches, and wait while the statistics are printed.
void use_in_threads(Heap& heap) {
  std::latch used(3);
  std::latch may_end(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      std::vector<void*> live;
      for (std::size_t i = 0; i < 500; ++i) live.push_back(heap.allocate(1 + i * 7));
      free_from(heap, live, 100);
      used.count_down();
      may_end.wait();
      free_from(heap, live, 0);
    });
  }
  used.wait();
  print(heap, "threads_wait");
  may_end.count_down();
  for (std::thread& thread : threads) thread.join();
  print(heap, "threads_ended");
}

void go_through_states(const Heap::Options& options) {
  Heap heap(options);
  print(heap, "unused");
  std::vector<void*> live;
  fill(heap, live);
  print(heap, "allocated");
  for (std::size_t i = 0; i < live.size(); i += 2) heap.deallocate(std::exchange(live[i], nullptr));
  std::erase(live, nullptr);
  print(heap, "half_freed");
  heap.release_memory();
  print(heap, "half_released");
  free_from(heap, live, 0);
  print(heap, "freed");
  heap.release_memory();
  print(heap, "released");
  use_in_threads(heap);
  fill(heap, live);
  heap.reset();
  print(heap, "reset");
}

/// Pages that come from the C library, and go back to it.
Heap::PageSource source_over_aligned_alloc() {
  Heap::PageSource source;
  source.map = [](void*, std::size_t bytes, std::size_t alignment) -> void* {
    const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void* p = std::aligned_alloc(alignment, rounded);
    return p != nullptr ? std::memset(p, 0, bytes) : nullptr;
  };
  source.unmap = [](void*, void* p, std::size_t) { std::free(p); };
  source.purge = [](void*, void* p, std::size_t bytes) {
    std::memset(p, 0, bytes);
    return true;
  };
  return source;
}

}  // namespace

int main() {
  Heap::Options usual;
  // The statistics are printed one after the other: meanwhile nothing may change by itself.
  usual.reclaims = false;
  const auto run = [&](const char* name, auto&& set) {
    Heap::Options options = usual;
    options.name = name;
    set(options);
    go_through_states(options);
  };
  const Heap::PageSource source = source_over_aligned_alloc();
  run("basic", [](Heap::Options&) {});
  run("frees", [](Heap::Options& o) { o.checks = Heap::Checks::kFrees; });
  run("full", [](Heap::Options& o) { o.checks = Heap::Checks::kFull; });
  run("guarded", [](Heap::Options& o) { o.guard_rate = 20; });
  run("limited", [](Heap::Options& o) { o.hard_limit_bytes = 8 * kMiB; });
  run("soft", [](Heap::Options& o) { o.soft_limit_bytes = 8 * kMiB; });
  run("huge_pages", [](Heap::Options& o) { o.huge_pages = Heap::HugePages::kAlways; });
  run("placed", [&](Heap::Options& o) { o.pages = &source; });
  CHECK(Heap::start_profile(1000), "the profile does not start");
  run("profiled", [](Heap::Options&) {});
  return 0;
}
