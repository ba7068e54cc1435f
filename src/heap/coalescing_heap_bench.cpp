// CoalescingHeap against the process's malloc, and mimalloc if it is installed: live blocks of
// random sizes; each step replaces a random one. The operations are drawn before the clock starts.
//
//   coalescing_heap_bench --benchmark_filter=Replace    time per pair of free and allocate
//   coalescing_heap_bench --benchmark_filter=Latency    percentiles of one pair, clock included
//   coalescing_heap_bench --benchmark_filter=SteadyUse  live bytes / region when a request fails

#include <strata/coalescing_heap.hpp>

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace {

constexpr std::size_t kRegion = std::size_t{8} << 20;

struct Nothing {
  void* allocate(std::size_t) { return buffer; }
  void deallocate(void*) {}
  char buffer[4096];
};
struct Malloc {
  void* allocate(std::size_t bytes) { return std::malloc(bytes); }
  void deallocate(void* block) { std::free(block); }
};
struct Mimalloc {
  Mimalloc() {
    void* library = dlopen("libmimalloc.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    malloc_ = reinterpret_cast<void* (*)(std::size_t)>(dlsym(library, "mi_malloc"));
    free_ = reinterpret_cast<void (*)(void*)>(dlsym(library, "mi_free"));
  }
  void* allocate(std::size_t bytes) { return malloc_(bytes); }
  void deallocate(void* block) { free_(block); }
  void* (*malloc_)(std::size_t) = nullptr;
  void (*free_)(void*) = nullptr;
};
struct Coalescing {
  void* allocate(std::size_t bytes) { return heap.allocate(bytes); }
  void deallocate(void* block) { heap.deallocate(block); }
  strata::CoalescingHeap heap{kRegion};
};

struct Step {
  std::uint32_t slot;
  std::uint32_t bytes;
};

std::vector<Step> draw(std::size_t slots, std::uint32_t max_bytes) {
  std::mt19937_64 random(7);
  std::vector<Step> steps(1 << 19);
  for (Step& step : steps) {
    step = {static_cast<std::uint32_t>(random() % slots),
            static_cast<std::uint32_t>(16 + random() % (max_bytes - 15))};
  }
  return steps;
}

template <typename Contender>
bool is_there(const Contender&) {
  return true;
}
bool is_there(const Mimalloc& mimalloc) { return mimalloc.malloc_ != nullptr; }

/// Blocks of one contender, each with a stamp in its first bytes.
template <typename Contender>
struct Load {
  Load(std::size_t slots, std::uint32_t max_bytes) : steps(draw(slots, max_bytes)), blocks(slots) {
    for (std::size_t i = 0; i < slots; ++i) blocks[i] = contender.allocate(steps[i].bytes);
    // Proof: every block keeps its stamp through one round of replacements.
    if constexpr (!std::is_same_v<Contender, Nothing>) {
      std::vector<std::uint32_t> bytes(slots);
      for (std::size_t i = 0; i < slots; ++i) stamp(blocks[i], bytes[i] = steps[i].bytes);
      for (const Step& step : steps) {
        if (!is_stamped(blocks[step.slot], bytes[step.slot])) std::abort();
        contender.deallocate(blocks[step.slot]);
        blocks[step.slot] = contender.allocate(step.bytes);
        if (blocks[step.slot] == nullptr) std::abort();
        stamp(blocks[step.slot], bytes[step.slot] = step.bytes);
      }
    }
  }
  ~Load() {
    for (void* block : blocks) contender.deallocate(block);
  }
  static void stamp(void* block, std::uint32_t bytes) {
    std::memcpy(block, &bytes, 4);
    std::memcpy(static_cast<char*>(block) + bytes - 4, &bytes, 4);
  }
  static bool is_stamped(void* block, std::uint32_t bytes) {
    return std::memcmp(block, &bytes, 4) == 0 &&
           std::memcmp(static_cast<char*>(block) + bytes - 4, &bytes, 4) == 0;
  }

  void replace(const Step& step) {
    void*& block = blocks[step.slot];
    contender.deallocate(block);
    block = contender.allocate(step.bytes);
    *static_cast<volatile char*>(block) = 1;
  }

  Contender contender;
  std::vector<Step> steps;
  std::vector<void*> blocks;
};

template <typename Contender>
void Replace(benchmark::State& state) {
  if (!is_there(Contender())) return state.SkipWithError("not installed");
  Load<Contender> load(2048, static_cast<std::uint32_t>(state.range(0)));
  std::size_t i = 0;
  for (auto _ : state) load.replace(load.steps[i++ % load.steps.size()]);
}
BENCHMARK(Replace<Nothing>)->Arg(256)->Arg(4096);
BENCHMARK(Replace<Malloc>)->Arg(256)->Arg(4096);
BENCHMARK(Replace<Mimalloc>)->Arg(256)->Arg(4096);
BENCHMARK(Replace<Coalescing>)->Arg(256)->Arg(4096);

/// Percentiles of one pair, in nanoseconds, including the clock's own 20 or so. The same steps are
/// replayed from the same beginning, and each step counts with its shortest time, so that the time
/// is the allocator's and not the scheduler's.
template <typename Contender>
void Latency(benchmark::State& state) {
  if (!is_there(Contender())) return state.SkipWithError("not installed");
  using Clock = std::chrono::steady_clock;
  std::vector<std::uint32_t> times(1 << 19, ~0u);
  for (auto _ : state) {
    Load<Contender> load(2048, static_cast<std::uint32_t>(state.range(0)));
    for (std::size_t i = 0; i < times.size(); ++i) {
      const auto begin = Clock::now();
      load.replace(load.steps[i]);
      const auto time = static_cast<std::uint32_t>((Clock::now() - begin).count());
      times[i] = std::min(times[i], time);
    }
  }
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))];
  };
  state.counters["p50"] = at(0.5);
  state.counters["p99"] = at(0.99);
  state.counters["p99.9"] = at(0.999);
  state.counters["p99.99"] = at(0.9999);
}
BENCHMARK(Latency<Nothing>)->Arg(4096)->Iterations(7);
BENCHMARK(Latency<Malloc>)->Arg(4096)->Iterations(7);
BENCHMARK(Latency<Mimalloc>)->Arg(4096)->Iterations(7);
BENCHMARK(Latency<Coalescing>)->Arg(4096)->Iterations(7);

/// Allocates random sizes. When a request fails, frees random blocks until it succeeds.
void SteadyUse(benchmark::State& state) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const auto max_bytes = static_cast<std::uint32_t>(state.range(0));
  double use = 0;
  for (auto _ : state) {
    strata::CoalescingHeap heap(kBytes);
    std::mt19937_64 random(9);
    std::vector<std::pair<void*, std::size_t>> live;
    std::size_t live_bytes = 0;
    double sum = 0;
    std::size_t samples = 0;
    for (int i = 0; i < 500'000; ++i) {
      const std::size_t bytes = 16 + random() % (max_bytes - 15);
      void* block;
      while ((block = heap.allocate(bytes)) == nullptr) {
        if (i > 100'000) {
          sum += static_cast<double>(live_bytes);
          ++samples;
        }
        std::swap(live[random() % live.size()], live.back());
        heap.deallocate(live.back().first);
        live_bytes -= live.back().second;
        live.pop_back();
      }
      live.emplace_back(block, bytes);
      live_bytes += bytes;
    }
    use = sum / static_cast<double>(samples) / kBytes;
  }
  state.counters["use"] = use;
}
BENCHMARK(SteadyUse)->Arg(256)->Arg(4096)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
