#include <strata/size_class_allocator.hpp>

#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <random>
#include <string>
#include <vector>

#include "block/contenders_bench.h"

// 2048 live blocks of 16 to 256 bytes, uniformly distributed. Each step frees a random block,
// allocates one of another size in its place, and writes 8 bytes to it. The steps are drawn before
// the clock starts. "harness" is the loop without an allocator: subtract it to get the allocator's
// own time.

namespace strata::bench {
namespace {

constexpr std::size_t kLive = 2048;
constexpr std::size_t kSteps = 1 << 16;
constexpr std::size_t kMinBytes = 16;
constexpr std::size_t kMaxBytes = 256;

struct Harness {
  static constexpr const char* kName = "harness";
  std::unique_ptr<char[]> memory{new char[kLive * kMaxBytes]};
  std::size_t next = 0;
  void* allocate(std::size_t) noexcept { return &memory[(next++ % kLive) * kMaxBytes]; }
  void deallocate(void*, std::size_t) noexcept {}
};

/// The limit: an array of lists through the free blocks. free() is given the size; nothing is
/// checked.
struct FreeLists {
  static constexpr const char* kName = "limit:free_lists";
  static constexpr std::size_t kRun = 1 << 20;
  std::unique_ptr<char[]> memory{new char[4 * kRun]};
  std::array<void*, 4> heads{};
  std::array<char*, 4> fresh{};
  FreeLists() {
    for (std::size_t i = 0; i < 4; ++i) fresh[i] = memory.get() + i * kRun;
  }
  static std::size_t class_of(std::size_t bytes) noexcept {
    return bytes <= 32 ? 0 : 59 - static_cast<std::size_t>(__builtin_clzl(bytes - 1));
  }
  void* allocate(std::size_t bytes) noexcept {
    const std::size_t i = class_of(bytes);
    void* p = heads[i];
    if (p != nullptr) {
      std::memcpy(&heads[i], p, sizeof p);
      return p;
    }
    p = fresh[i];
    fresh[i] += std::size_t{32} << i;
    return p;
  }
  void deallocate(void* p, std::size_t bytes) noexcept {
    const std::size_t i = class_of(bytes);
    std::memcpy(p, &heads[i], sizeof p);
    heads[i] = p;
  }
};

template <typename Sizes>
struct BySize {
  Sizes sizes;
  void* allocate(std::size_t bytes) { return sizes.allocate(bytes); }
  void deallocate(void* p, std::size_t) { sizes.deallocate(p); }
};
struct CheckedSizes : BySize<SizeClassAllocator> {
  static constexpr const char* kName = "SizeClassAllocator";
};
struct UncheckedSizes : BySize<UncheckedSizeClassAllocator> {
  static constexpr const char* kName = "UncheckedSizeClassAllocator";
};

struct Mimalloc {
  static constexpr const char* kName = "mimalloc";
  void* library = dlopen("libmimalloc.so.3", RTLD_NOW | RTLD_LOCAL);
  void* (*give)(std::size_t) = nullptr;
  void (*take)(void*) = nullptr;
  Mimalloc() {
    if (library == nullptr) library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    give = reinterpret_cast<void* (*)(std::size_t)>(dlsym(library, "mi_malloc"));
    take = reinterpret_cast<void (*)(void*)>(dlsym(library, "mi_free"));
  }
  void* allocate(std::size_t bytes) { return give == nullptr ? nullptr : give(bytes); }
  void deallocate(void* p, std::size_t) { take(p); }
};

struct Malloc {
  static constexpr const char* kName = "new_delete";
  void* allocate(std::size_t bytes) { return ::operator new(bytes); }
  void deallocate(void* p, std::size_t bytes) { ::operator delete(p, bytes); }
};

struct PmrUnsynchronized {
  static constexpr const char* kName = "pmr_unsynchronized";
  std::pmr::unsynchronized_pool_resource pool;
  void* allocate(std::size_t bytes) { return pool.allocate(bytes); }
  void deallocate(void* p, std::size_t bytes) { pool.deallocate(p, bytes); }
};

struct Step {
  std::uint32_t victim;
  std::uint32_t bytes;
};

template <typename Sizes>
void replace(benchmark::State& state) {
  std::mt19937 random(3);
  const auto draw = [&] {
    return kMinBytes + random() % static_cast<std::uint32_t>(kMaxBytes - kMinBytes + 1);
  };
  std::vector<Step> steps(kSteps);
  for (Step& step : steps) {
    step = {static_cast<std::uint32_t>(random() % kLive), static_cast<std::uint32_t>(draw())};
  }
  Sizes sizes;
  std::vector<std::pair<unsigned char*, std::uint32_t>> live(kLive);
  const auto fill = [&](auto& slot, std::size_t bytes, std::size_t mark) {
    slot = {static_cast<unsigned char*>(sizes.allocate(bytes)), static_cast<std::uint32_t>(bytes)};
    if (slot.first == nullptr) return false;
    std::memset(slot.first, static_cast<int>(mark), bytes);
    return true;
  };
  // The work is right before it is timed: every block holds its bytes until it is freed.
  std::size_t failures = 0;
  if (!std::is_same_v<Sizes, Harness>) {
    for (std::size_t i = 0; i < kLive; ++i) {
      if (!fill(live[i], draw(), i)) return state.SkipWithError("an allocation failed");
    }
    for (const Step& step : steps) {
      auto& slot = live[step.victim];
      const auto mark = static_cast<unsigned char>(step.victim);
      failures += static_cast<std::size_t>(
                      std::count(slot.first, slot.first + slot.second, mark)) != slot.second;
      sizes.deallocate(slot.first, slot.second);
      if (!fill(slot, step.bytes, step.victim)) return state.SkipWithError("an allocation failed");
    }
    if (failures != 0) return state.SkipWithError("blocks overlapped");
  } else {
    for (auto& slot : live) slot = {static_cast<unsigned char*>(sizes.allocate(16)), 16};
  }
  hide(sizes);
  for (auto _ : state) {
    for (const Step& step : steps) {
      auto& [block, bytes] = live[step.victim];
      sizes.deallocate(block, bytes);
      block = static_cast<unsigned char*>(sizes.allocate(step.bytes));
      bytes = step.bytes;
      if (block == nullptr) return state.SkipWithError("an allocation failed");
      std::memset(block, 1, 8);
      benchmark::ClobberMemory();
    }
  }
  for (const auto& [block, bytes] : live) sizes.deallocate(block, bytes);
  state.counters["ns/pair"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kSteps * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <typename Sizes>
bool add() {
  benchmark::RegisterBenchmark((std::string("replace_16_256/") + Sizes::kName).c_str(),
                               replace<Sizes>);
  return true;
}
[[maybe_unused]] const bool kAdded[] = {
    add<Harness>(),  add<FreeLists>(), add<UncheckedSizes>(),   add<CheckedSizes>(),
    add<Mimalloc>(), add<Malloc>(),    add<PmrUnsynchronized>()};

}  // namespace
}  // namespace strata::bench
