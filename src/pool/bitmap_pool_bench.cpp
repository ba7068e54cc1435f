#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <type_traits>

#include "pool/bitmap_pool_contenders_bench.h"
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/// \file  Many threads, one pool. Each row is <mode>/<contender>/<blocks>/threads:<n>. Its time is
/// the wall time per allocation plus free, over all threads together (two threads that do not
/// disturb each other halve it). "failed" counts allocations that got nothing although the mode
/// leaves blocks free: such a row compares nothing and is reported as an error.
///
///   hold       each thread keeps min(16, blocks / 4 threads), first in first out
///   full90     the same, after nine tenths of the blocks were taken at random
///   prodcons   even threads allocate, odd threads free; a ring of 64 slots between two of them
///   onefree    one thread; one free block, at a random place each time
///   exhausted  no block is free: the time of a call that fails
///   latency    hold, with each allocate and each free timed by itself: percentiles in ns (clock
///              included)

namespace strata::bench {
namespace {

template <class Contender>
std::unique_ptr<Contender> shared;
std::vector<void*> taken;

template <class Contender>
void set_up(const benchmark::State&) {
  shared<Contender> = std::make_unique<Contender>();
  taken.clear();
}
template <class Contender>
void tear_down(const benchmark::State&) {
  typename Contender::Thread thread(*shared<Contender>);
  for (void* p : taken) thread.deallocate(p);
  taken.clear();
}
template <class Contender, std::size_t Capacity>
void take_all_but(std::size_t free_blocks) {
  typename Contender::Thread thread(*shared<Contender>);
  for (std::size_t i = 0; i < Capacity; ++i) {
    if (void* p = thread.allocate()) taken.push_back(p);
  }
  std::shuffle(taken.begin(), taken.end(), std::mt19937(1));
  for (; free_blocks != 0; --free_blocks) {
    thread.deallocate(taken.back());
    taken.pop_back();
  }
}
template <class Contender, std::size_t Capacity>
void set_up_full90(const benchmark::State& state) {
  set_up<Contender>(state);
  take_all_but<Contender, Capacity>(Capacity / 10);
}
template <class Contender, std::size_t Capacity>
void set_up_full(const benchmark::State& state) {
  set_up<Contender>(state);
  take_all_but<Contender, Capacity>(0);
}

void report_failures(benchmark::State& state, std::size_t failed) {
  state.counters["failed"] = benchmark::Counter(static_cast<double>(failed));
  if (failed != 0) state.SkipWithError("allocations failed although blocks were free");
}

template <class Contender, std::size_t Capacity>
void hold(benchmark::State& state, std::size_t blocks) {
  typename Contender::Thread pool(*shared<Contender>);
  const std::size_t keep =
      std::clamp<std::size_t>(blocks / (4 * static_cast<std::size_t>(state.threads())), 1, 16);
  std::array<void*, 16> held{};
  std::size_t failed = 0;
  for (std::size_t i = 0; i < keep; ++i) held[i] = pool.allocate();
  std::size_t at = 0;
  for (auto _ : state) {
    if (held[at] != nullptr) pool.deallocate(held[at]);
    void* const p = pool.allocate();
    if (p != nullptr) {
      *static_cast<volatile std::uint64_t*>(p) = at;
    } else {
      ++failed;
    }
    held[at] = p;
    if (++at == keep) at = 0;
  }
  for (std::size_t i = 0; i < keep; ++i) {
    if (held[i] != nullptr) pool.deallocate(held[i]);
  }
  report_failures(state, failed);
}

/// One producer, one consumer; neither writes the other's index.
struct Ring {
  static constexpr std::size_t kSlots = 64;
  alignas(64) std::atomic<std::size_t> written{0};
  alignas(64) std::atomic<std::size_t> read{0};
  alignas(64) std::array<void*, kSlots> slots;
};
std::array<Ring, 4> rings;

template <class Contender, std::size_t Capacity>
void produce_and_consume(benchmark::State& state) {
  typename Contender::Thread pool(*shared<Contender>);
  Ring& ring = rings[static_cast<std::size_t>(state.thread_index() / 2)];
  if (state.thread_index() % 2 == 0) {
    for (auto _ : state) {
      const std::size_t at = ring.written.load(std::memory_order_relaxed);
      while (at - ring.read.load(std::memory_order_acquire) == Ring::kSlots) {
        std::this_thread::yield();
      }
      void* p = nullptr;
      // A pool of few blocks may be empty for a moment, when all blocks are in rings.
      while ((p = pool.allocate()) == nullptr) std::this_thread::yield();
      *static_cast<volatile std::uint64_t*>(p) = at;
      ring.slots[at % Ring::kSlots] = p;
      ring.written.store(at + 1, std::memory_order_release);
    }
  } else {
    for (auto _ : state) {
      const std::size_t at = ring.read.load(std::memory_order_relaxed);
      while (ring.written.load(std::memory_order_acquire) == at) std::this_thread::yield();
      pool.deallocate(ring.slots[at % Ring::kSlots]);
      ring.read.store(at + 1, std::memory_order_release);
    }
  }
  // An iteration is half a pair here: the reported time counts pairs as the other modes do.
  state.SetItemsProcessed(state.iterations());
}

template <class Contender, std::size_t Capacity>
void one_free(benchmark::State& state) {
  typename Contender::Thread pool(*shared<Contender>);
  std::size_t failed = 0;
  std::size_t at = 0;
  for (auto _ : state) {
    pool.deallocate(taken[at]);
    if (++at == taken.size()) at = 0;
    void* p = pool.allocate();
    if (p == nullptr) ++failed;
    benchmark::DoNotOptimize(p);
  }
  report_failures(state, failed);
}

template <class Contender, std::size_t Capacity>
void exhausted(benchmark::State& state) {
  typename Contender::Thread pool(*shared<Contender>);
  std::size_t found = 0;
  for (auto _ : state) {
    void* p = pool.allocate();
    benchmark::DoNotOptimize(p);
    found += p != nullptr;
  }
  if (found != 0) state.SkipWithError("the pool was not exhausted");
}

#if defined(__x86_64__)
std::uint64_t ticks() {
  unsigned core;
  return __rdtscp(&core);
}
#else
std::uint64_t ticks() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
#endif

double ns_per_tick() {
  static const double value = [] {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t first = ticks();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20)) {
    }
    const std::chrono::duration<double, std::nano> passed =
        std::chrono::steady_clock::now() - start;
    return passed.count() / static_cast<double>(ticks() - first);
  }();
  return value;
}

template <class Contender, std::size_t Capacity>
void latency(benchmark::State& state) {
  typename Contender::Thread pool(*shared<Contender>);
  const double scale = ns_per_tick();
  constexpr std::size_t kKeep = 8;
  std::array<void*, kKeep> held{};
  for (void*& p : held) p = pool.allocate();
  constexpr std::size_t kMaxTicks = 1 << 14;  // longer times count as this
  std::vector<std::uint32_t> histogram(kMaxTicks + 1);
  std::size_t at = 0;
  for (auto _ : state) {
    const std::uint64_t start = ticks();
    pool.deallocate(held[at]);
    const std::uint64_t middle = ticks();
    held[at] = pool.allocate();
    const std::uint64_t end = ticks();
    ++histogram[std::min<std::uint64_t>(middle - start, kMaxTicks)];
    ++histogram[std::min<std::uint64_t>(end - middle, kMaxTicks)];
    if (++at == kKeep) at = 0;
  }
  for (void* p : held) pool.deallocate(p);
  const double total = 2.0 * static_cast<double>(state.iterations());
  const auto percentile = [&](double share) {
    double seen = 0;
    for (std::size_t i = 0; i <= kMaxTicks; ++i) {
      seen += histogram[i];
      if (seen >= share * total) return static_cast<double>(i) * scale;
    }
    return static_cast<double>(kMaxTicks) * scale;
  };
  using benchmark::Counter;
  state.counters["p50"] = Counter(percentile(0.5), Counter::kAvgThreads);
  state.counters["p99"] = Counter(percentile(0.99), Counter::kAvgThreads);
  state.counters["p9999"] = Counter(percentile(0.9999), Counter::kAvgThreads);
}

template <class Contender, std::size_t Capacity>
void add_modes() {
  const auto name = [](const char* mode) {
    return std::string(mode) + "/" + Contender::kName + "/" + std::to_string(Capacity);
  };
  const auto add = [&](const char* mode, auto function, auto prepare) {
    return benchmark::RegisterBenchmark(name(mode).c_str(), function)
        ->Setup(prepare)
        ->Teardown(tear_down<Contender>)
        ->UseRealTime();
  };
  const auto hold_all = [](benchmark::State& state) { hold<Contender, Capacity>(state, Capacity); };
  const auto hold_tenth = [](benchmark::State& state) {
    hold<Contender, Capacity>(state, Capacity / 10);
  };
  constexpr bool kIsEmpty = std::is_same_v<Contender, EmptyOperation<Capacity>>;
  constexpr bool kIsBounded = !kIsEmpty && !std::is_same_v<Contender, SystemMalloc<Capacity>>;
  add("hold", hold_all, set_up<Contender>)->ThreadRange(1, 8);
  if constexpr (Capacity <= 4096) {
    add("latency", latency<Contender, Capacity>, set_up<Contender>)->ThreadRange(1, 4);
  }
  if constexpr (kIsBounded) {
    if constexpr (Capacity >= 512) {
      add("full90", hold_tenth, set_up_full90<Contender, Capacity>)->ThreadRange(1, 8);
    }
    add("onefree", one_free<Contender, Capacity>, set_up_full<Contender, Capacity>);
    add("exhausted", exhausted<Contender, Capacity>, set_up_full<Contender, Capacity>);
  }
  if constexpr (!kIsEmpty) {
    add("prodcons", produce_and_consume<Contender, Capacity>, set_up<Contender>)->ThreadRange(2, 8);
  }
}

template <template <std::size_t> class Contender>
void add_contender() {
  add_modes<Contender<64>, 64>();
  add_modes<Contender<512>, 512>();
  add_modes<Contender<4096>, 4096>();
  add_modes<Contender<65536>, 65536>();
}

[[maybe_unused]] const bool added = [] {
  add_contender<EmptyOperation>();
  add_contender<StrataPool>();
  add_contender<StrataLowest>();
  add_contender<StrataView>();
  add_contender<StrataMagazine>();
  add_contender<OneBitmap>();
  add_contender<TaggedStack>();
  add_contender<MutexList>();
#ifdef STRATA_BENCH_HAS_BOOST
  add_contender<BoostFreelist>();
#endif
  add_contender<SystemMalloc>();
  return true;
}();

}  // namespace
}  // namespace strata::bench
