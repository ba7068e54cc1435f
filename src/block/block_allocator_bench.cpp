#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "block/contenders_bench.h"

// One allocation and one free of a 64-byte block, of which 8 bytes are written:
//   hot   one block, again and again, of a pool of n
//   seq   n blocks, freed in the order they were taken
//   rnd   n blocks, freed in a random order drawn beforehand
//
// Between two operations the pool's own fields are in memory, as in a program that does something
// else in between. Otherwise the compiler would keep the fields of the simplest contenders in
// registers for the whole loop, which no user of a pool sees. The rows "hot_open", "seq_open" and
// "rnd_open" are the same without that barrier, for comparison with figures from elsewhere.

namespace strata::bench {
namespace {

constexpr std::size_t kBytes = 64;

template <typename Pool>
bool is_verified(benchmark::State& state, Pool& pool, std::size_t n) {
  const std::size_t failures = failures_of(pool, n, kBytes);
  if (failures != 0) state.SkipWithError("allocations failed or overlapped");
  hide(pool);
  return failures == 0;
}

enum class Barrier : bool { kNo, kYes };

template <Barrier kBarrier>
void pass_barrier() {
  if constexpr (kBarrier == Barrier::kYes) benchmark::ClobberMemory();
}

template <typename Pool, Barrier kBarrier>
void hot(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Pool pool(n);
  if (!is_verified(state, pool, n)) return;
  for (auto _ : state) {
    auto* block = static_cast<std::uint64_t*>(pool.allocate());
    *block = 1;
    benchmark::DoNotOptimize(block);
    pool.deallocate(block);
    pass_barrier<kBarrier>();
  }
}

template <typename Pool, Barrier kBarrier>
void many(benchmark::State& state, bool in_random_order) {
  const auto n = static_cast<std::size_t>(state.range(0));
  Pool pool(n);
  if (!is_verified(state, pool, n)) return;
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  if (in_random_order) order = shuffled(n);
  std::vector<void*> live(n);
  std::size_t failures = 0;
  for (auto _ : state) {
    for (void*& block : live) {
      block = pool.allocate();
      if (block == nullptr) {
        ++failures;
        state.SkipWithError("an allocation failed");
        return;
      }
      *static_cast<std::uint64_t*>(block) = 1;
      pass_barrier<kBarrier>();
    }
    for (std::uint32_t i : order) {
      pool.deallocate(live[i]);
      pass_barrier<kBarrier>();
    }
  }
  const double pairs = static_cast<double>(state.iterations()) * static_cast<double>(n);
  state.counters["ns/pair"] =
      benchmark::Counter(pairs * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["failed"] = static_cast<double>(failures);
}

template <typename Pool, Barrier kBarrier>
void add_modes(const std::string& mode_suffix) {
  const std::string name = mode_suffix + "/" + Pool::kName;
  benchmark::RegisterBenchmark(("hot" + name).c_str(), hot<Pool, kBarrier>)->Arg(4096);
  for (bool random : {false, true}) {
    benchmark::RegisterBenchmark(
        ((random ? "rnd" : "seq") + name).c_str(),
        [random](benchmark::State& state) { many<Pool, kBarrier>(state, random); })
        ->Arg(8)
        ->Arg(512)
        ->Arg(4096)
        ->Arg(32768);
  }
}

template <typename Pool>
int add() {
  add_modes<Pool, Barrier::kYes>("");
  add_modes<Pool, Barrier::kNo>("_open");
  return 0;
}

[[maybe_unused]] const int kAdded[] = {
    add<Bump<kBytes>>(),       add<IntrusiveStack<kBytes>>(),
    add<IndexStack<kBytes>>(), add<Unchecked<kBytes>>(),
    add<Checked<kBytes>>(),    add<Growing<kBytes>>(),
    add<BoostPool<kBytes>>(),  add<BoostLockfree<kBytes>>(),
    add<PmrPool<kBytes>>(),    add<PmrSynchronizedPool<kBytes>>(),
    add<NewDelete<kBytes>>()};

}  // namespace
}  // namespace strata::bench
