#include <strata/object_pool.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "block/contenders_bench.h"

// The pool table: what each phase in the life of a pool costs, for 8 to 32768 objects of 40 bytes
// with virtual bases, with the complexity fitted to the times and the root mean square of the fit.
//
//   create      the pool is constructed
//   destroy     the empty pool is destroyed
//   alloc_seq   n objects are created in a fresh pool
//   alloc_rnd   n objects are created in a pool into which n came back in random order
//   free_seq    n objects are destroyed in the order they were created
//   free_rnd    n objects are destroyed in random order
//
// "life" is the creation and the destruction of a pool of up to a million objects that is never
// used; it shows whether a pool touches its slots beforehand.
//
// And the single numbers: "pair" is one create and one destroy of the same 64-byte object;
// "pair_rnd" is the same over 32768 objects that are destroyed in random order. Between two
// operations the pool's own fields are in memory, as in a program that does something else in
// between.

namespace strata::bench {
namespace {

struct Named {
  virtual ~Named() = default;
  std::uint32_t id = 0;
};
struct Placed : virtual Named {
  std::uint32_t x = 0;
};
struct Sprite final : Placed {
  explicit Sprite(std::uint32_t n) { id = n; }
  std::uint64_t state = 0;
};
static_assert(sizeof(Sprite) == 40, "the table is about objects of 40 bytes");

struct Line {
  explicit Line(std::uint32_t n) : id(n) {}
  std::uint32_t id;
  char rest[60];
};

/// Objects in the blocks of a contender.
template <typename T, template <std::size_t> typename Blocks>
class Objects {
 public:
  static constexpr const char* kName = Blocks<sizeof(T)>::kName;
  explicit Objects(std::size_t n) : blocks_(n) {}
  T* create(std::uint32_t i) {
    void* block = blocks_.allocate();
    return block == nullptr ? nullptr : ::new (block) T(i);
  }
  void destroy(T* object) {
    object->~T();
    blocks_.deallocate(object);
  }

 private:
  Blocks<sizeof(T)> blocks_;
};

template <typename T, Checks kChecks>
class Ours {
 public:
  static constexpr const char* kName =
      kChecks == Checks::kAlways ? "ObjectPool" : "ObjectPool_unchecked";
  explicit Ours(std::size_t n) : pool_(n) {}
  T* create(std::uint32_t i) { return pool_.create(i); }
  void destroy(T* object) { pool_.destroy(object); }

 private:
  ObjectPool<T, kChecks, FreeSlots::kUntouched> pool_;
};
template <typename T>
using OurChecked = Ours<T, Checks::kAlways>;
template <typename T>
using OurUnchecked = Ours<T, Checks::kNever>;

using Clock = std::chrono::steady_clock;

/// Creates n objects, checks each and destroys them in random order, twice.
/// \returns  How many were missing or had changed.
template <typename Pool>
std::size_t object_failures(Pool& pool, std::size_t n) {
  using T = std::remove_pointer_t<decltype(pool.create(0))>;
  std::size_t failures = 0;
  std::vector<T*> live(n);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < n; ++i) live[i] = pool.create(static_cast<std::uint32_t>(i));
    for (std::uint32_t i : shuffled(n)) {
      if (live[i] == nullptr || live[i]->id != i) {
        ++failures;
      } else {
        pool.destroy(live[i]);
      }
    }
  }
  return failures;
}

enum class Phase { kCreate, kDestroy, kAllocSeq, kAllocRnd, kFreeSeq, kFreeRnd };

template <typename Pool>
void phase_of_life(benchmark::State& state, Phase phase) {
  using T = std::remove_pointer_t<decltype(std::declval<Pool&>().create(0))>;
  const auto n = static_cast<std::size_t>(state.range(0));
  // The clock's own cost is spread over at least this many objects.
  const std::size_t pool_count = n < 2048 ? 2048 / n : 1;
  const auto order = shuffled(n);
  std::vector<T*> live(n * pool_count);
  std::size_t failures = 0;
  {
    Pool probe(n);
    failures += object_failures(probe, n);
  }
  std::vector<std::optional<Pool>> pools(pool_count);
  const auto make_all = [&] {
    for (auto& pool : pools) pool.emplace(n);
  };
  const auto fill_all = [&] {
    for (std::size_t p = 0; p < pool_count; ++p) {
      for (std::size_t i = 0; i < n; ++i) {
        T* object = pools[p]->create(static_cast<std::uint32_t>(i));
        failures += object == nullptr;
        live[p * n + i] = object;
        benchmark::ClobberMemory();
      }
    }
  };
  const auto free_all = [&](bool in_random_order) {
    for (std::size_t p = 0; p < pool_count; ++p) {
      for (std::size_t i = 0; i < n; ++i) {
        pools[p]->destroy(live[p * n + (in_random_order ? order[i] : i)]);
        benchmark::ClobberMemory();
      }
    }
  };
  const auto end_all = [&] {
    for (auto& pool : pools) pool.reset();
  };
  double least = 0;
  const auto timed = [&](auto&& work) {
    hide(pools);
    const auto start = Clock::now();
    work();
    benchmark::ClobberMemory();
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    least = std::min(least, elapsed.count() / static_cast<double>(pool_count));
  };
  const auto live_once = [&] {
    if (phase == Phase::kCreate) {
      timed(make_all);
    } else {
      make_all();
    }
    if (phase == Phase::kAllocRnd) {
      fill_all();
      free_all(true);
    }
    if (phase == Phase::kAllocSeq || phase == Phase::kAllocRnd) {
      timed(fill_all);
    } else {
      fill_all();
    }
    if (phase == Phase::kFreeSeq || phase == Phase::kFreeRnd) {
      timed([&] { free_all(phase == Phase::kFreeRnd); });
    } else {
      free_all(false);
    }
    if (phase == Phase::kDestroy) {
      timed(end_all);
    } else {
      end_all();
    }
  };
  for (auto _ : state) {
    // The least of a few: time that other processes took is not the pool's.
    least = std::numeric_limits<double>::infinity();
    for (int life = 0; life < 4; ++life) live_once();
    state.SetIterationTime(least);
  }
  state.SetComplexityN(state.range(0));
  state.counters["failed"] = static_cast<double>(failures);
  if (failures != 0) state.SkipWithError("allocations failed");
}

template <typename Pool>
void life(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    Pool pool(n);
    hide(pool);
  }
}

template <typename Pool>
void pair(benchmark::State& state) {
  Pool pool(4096);
  if (object_failures(pool, 4096) != 0) state.SkipWithError("allocations failed");
  hide(pool);
  for (auto _ : state) {
    auto* object = pool.create(1);
    benchmark::DoNotOptimize(object);
    pool.destroy(object);
    benchmark::ClobberMemory();
  }
}

template <typename Pool>
void pair_in_random_order(benchmark::State& state) {
  constexpr std::size_t kObjects = 32768;
  Pool pool(kObjects);
  if (object_failures(pool, kObjects) != 0) state.SkipWithError("allocations failed");
  hide(pool);
  const auto order = shuffled(kObjects);
  std::vector<decltype(pool.create(0))> live(kObjects);
  for (auto _ : state) {
    for (auto& object : live) {
      object = pool.create(1);
      benchmark::ClobberMemory();
    }
    for (std::uint32_t i : order) {
      pool.destroy(live[i]);
      benchmark::ClobberMemory();
    }
  }
  state.counters["ns/pair"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kObjects * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <typename Pool>
void add_table() {
  constexpr std::pair<Phase, const char*> kPhases[] = {
      {Phase::kCreate, "create/"},      {Phase::kDestroy, "destroy/"},
      {Phase::kAllocSeq, "alloc_seq/"}, {Phase::kAllocRnd, "alloc_rnd/"},
      {Phase::kFreeSeq, "free_seq/"},   {Phase::kFreeRnd, "free_rnd/"}};
  for (const auto& [phase, name] : kPhases) {
    benchmark::internal::Benchmark* registered = benchmark::RegisterBenchmark(
        (std::string("table/") + name + Pool::kName).c_str(),
        [phase = phase](benchmark::State& state) { phase_of_life<Pool>(state, phase); });
    registered->RangeMultiplier(8)
        ->Range(8, 32768)
        // Fixed, because most of an iteration is not timed: the library would go on until the timed
        // part is long enough.
        ->Iterations(25)
        ->UseManualTime();
    // Pools are created and destroyed in constant time, which no curve over n fits.
    if (phase != Phase::kCreate && phase != Phase::kDestroy) registered->Complexity();
  }
}

template <typename Pool>
void add_life() {
  benchmark::RegisterBenchmark((std::string("life/") + Pool::kName).c_str(), life<Pool>)
      ->RangeMultiplier(32)
      ->Range(32, 1 << 20);
}

template <typename Pool>
void add_pairs() {
  benchmark::RegisterBenchmark((std::string("pair/") + Pool::kName).c_str(), pair<Pool>);
  benchmark::RegisterBenchmark((std::string("pair_rnd/") + Pool::kName).c_str(),
                               pair_in_random_order<Pool>);
}

template <typename... Pools>
bool add_tables() {
  (add_table<Pools>(), ...);
  (add_life<Pools>(), ...);
  return true;
}
template <typename... Pools>
bool add_all_pairs() {
  (add_pairs<Pools>(), ...);
  return true;
}

[[maybe_unused]] const bool kTables =
    add_tables<Objects<Sprite, Bump>, Objects<Sprite, IntrusiveStack>, Objects<Sprite, IndexStack>,
               OurUnchecked<Sprite>, OurChecked<Sprite>, Objects<Sprite, BoostPool>,
               Objects<Sprite, BoostLockfree>, Objects<Sprite, PmrPool>,
               Objects<Sprite, NewDelete>>();
[[maybe_unused]] const bool kPairs =
    add_all_pairs<Objects<Line, Bump>, Objects<Line, IntrusiveStack>, Objects<Line, IndexStack>,
                  OurUnchecked<Line>, OurChecked<Line>, Objects<Line, BoostPool>,
                  Objects<Line, BoostLockfree>, Objects<Line, PmrPool>, Objects<Line, NewDelete>>();

}  // namespace
}  // namespace strata::bench
