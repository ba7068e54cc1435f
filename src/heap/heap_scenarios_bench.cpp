// Three loads of many threads on one contender, in one process, so that its memory can be compared:
//
//   heap_scenarios_bench SCENARIO CONTENDER [threads] [steps per thread]
//
//   basic        threads allocate into and free from one shared array of slots at random
//   ephemeral    per thread a ring of slots; an object lives 50 to 2000 steps; 60% are of 16-256
//                bytes, 30% of 512-2048, 10% of 4096-32768
//   large        basic with sizes up to 1 MiB
//
//   malloc       the process's malloc, whichever it is (another joins by LD_PRELOAD)
//   heaps        ThreadHeaps without reclamation
//   reclaiming   ThreadHeaps with reclamation
//
// Every run first proves the contender on a tenth of the load, each byte written and compared, and
// then times the rest. A failed allocation makes the run invalid: it says so and exits with 2.

#include <strata/thread_heaps.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "os/process.h"

namespace {

struct Contender {
  std::unique_ptr<strata::ThreadHeaps> heaps;  // empty: malloc

  void* allocate(std::size_t bytes) { return heaps ? heaps->allocate(bytes) : std::malloc(bytes); }
  void deallocate(void* block) { heaps ? heaps->deallocate(block) : std::free(block); }
};

/// One drawn operation; the table is drawn once, before the clock, and every thread walks it from a
/// place of its own.
struct Draw {
  std::uint32_t slot;
  std::uint32_t bytes;
  std::uint32_t steps_to_live;
};
constexpr std::size_t kDraws = 1 << 16;
constexpr std::size_t kSharedSlots = 4096;
constexpr std::size_t kLargeSlots = 1024;
/// Every slot is visited once in so many steps, half of the mean life of 1025: objects do expire
/// and are freed inside the loop, and two visits of five have something to do.
constexpr std::size_t kRing = 512;

using Clock = std::chrono::steady_clock;

struct Totals {
  Clock::time_point begin{};
  Clock::time_point end{};
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;
  std::uint64_t damage = 0;
};

struct Object {
  unsigned char* block = nullptr;
  std::uint32_t bytes = 0;
  std::uint64_t expires = 0;
};

/// Writes what a program would: all of it while proving, else the first line and a byte per page.
void fill(unsigned char* block, std::uint32_t bytes, bool is_proof) {
  if (is_proof) {
    std::memset(block, static_cast<int>(bytes % 251), bytes);
    return;
  }
  std::memset(block, 1, bytes < 64 ? bytes : 64);
  for (std::uint32_t i = 4096; i < bytes; i += 4096) block[i] = 1;
}

bool is_intact(const unsigned char* block, std::uint32_t bytes) {
  for (std::uint32_t i = 0; i < bytes; ++i) {
    if (block[i] != bytes % 251) return false;
  }
  return true;
}

std::vector<Draw> draw(const std::string& scenario) {
  std::mt19937_64 random(42);
  std::vector<Draw> draws(kDraws);
  const auto between = [&](std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random() % (high - low + 1));
  };
  for (Draw& d : draws) {
    d.steps_to_live = between(50, 2000);
    if (scenario == "ephemeral") {
      const std::uint32_t kind = between(1, 10);
      d.bytes = kind <= 6   ? between(16, 256)
                : kind <= 9 ? between(512, 2048)
                            : between(4096, 32768);
    } else if (scenario == "basic") {
      d.bytes = between(16, 1024);
    } else {
      // Evenly over the powers of two from 16 bytes to 1 MiB.
      d.bytes = static_cast<std::uint32_t>(16 * std::exp2(between(0, 1600) / 100.0));
    }
    d.slot =
        static_cast<std::uint32_t>(random() % (scenario == "basic" ? kSharedSlots : kLargeSlots));
  }
  return draws;
}

Totals run_ring(Contender& contender, const std::vector<Draw>& draws, std::size_t start,
                std::uint64_t steps, bool is_proof, std::barrier<>& gate) {
  Totals totals;
  std::vector<Object> ring(kRing);
  std::size_t at = start;
  const auto drop = [&](Object& object) {
    if (is_proof && !is_intact(object.block, object.bytes)) ++totals.damage;
    contender.deallocate(object.block);
    ++totals.frees;
    object.block = nullptr;
  };
  for (std::uint64_t step = 0; step < steps; ++step) {
    Object& object = ring[step % kRing];
    if (object.block != nullptr) {
      if (step < object.expires) continue;
      drop(object);
    }
    const Draw& d = draws[at++ % kDraws];
    object = {static_cast<unsigned char*>(contender.allocate(d.bytes)), d.bytes,
              step + d.steps_to_live};
    ++totals.allocations;
    object.block != nullptr ? fill(object.block, d.bytes, is_proof) : void(++totals.failures);
  }
  gate.arrive_and_wait();  // all rings are full at once, whatever order the threads ran in
  for (Object& object : ring) {
    if (object.block != nullptr) drop(object);
  }
  return totals;
}

/// Slots hold blocks whose first bytes say their size while proving.
Totals run_shared(Contender& contender, const std::vector<Draw>& draws, std::size_t start,
                  std::uint64_t steps, bool is_proof, std::vector<std::atomic<Object*>>& slots) {
  Totals totals;
  for (std::uint64_t step = 0; step < steps; ++step) {
    const Draw& d = draws[(start + step) % kDraws];
    auto* block = static_cast<unsigned char*>(contender.allocate(d.bytes));
    ++totals.allocations;
    if (block == nullptr) {
      ++totals.failures;
      continue;
    }
    fill(block, d.bytes, is_proof);
    if (is_proof) std::memcpy(block, &d.bytes, sizeof d.bytes);
    auto* old = reinterpret_cast<unsigned char*>(
        slots[d.slot].exchange(reinterpret_cast<Object*>(block), std::memory_order_acq_rel));
    if (old == nullptr) continue;
    if (is_proof) {
      std::uint32_t bytes;
      std::memcpy(&bytes, old, sizeof bytes);
      std::memset(old, static_cast<int>(bytes % 251), sizeof bytes);
      if (!is_intact(old, bytes)) ++totals.damage;
    }
    contender.deallocate(old);
    ++totals.frees;
  }
  return totals;
}

Totals run(Contender& contender, const std::string& scenario, const std::vector<Draw>& draws,
           unsigned thread_count, std::uint64_t steps, bool is_proof, double& seconds) {
  std::vector<Totals> totals(thread_count);
  std::vector<std::atomic<Object*>> slots(scenario == "basic" ? kSharedSlots : kLargeSlots);
  std::barrier gate(static_cast<std::ptrdiff_t>(thread_count) + 1);
  std::barrier<> all_full(static_cast<std::ptrdiff_t>(thread_count));
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      gate.arrive_and_wait();
      const std::size_t start = t * 7919u;
      const Clock::time_point begin = Clock::now();
      totals[t] = scenario == "ephemeral"
                      ? run_ring(contender, draws, start, steps, is_proof, all_full)
                      : run_shared(contender, draws, start, steps, is_proof, slots);
      totals[t].begin = begin;
      totals[t].end = Clock::now();
    });
  }
  gate.arrive_and_wait();
  for (auto& thread : threads) thread.join();
  // From the first thread's first operation to the last one's last.
  Totals sum = totals[0];
  sum.allocations = sum.frees = sum.failures = sum.damage = 0;
  for (const Totals& t : totals) {
    sum.begin = std::min(sum.begin, t.begin);
    sum.end = std::max(sum.end, t.end);
    sum.allocations += t.allocations;
    sum.frees += t.frees;
    sum.failures += t.failures;
    sum.damage += t.damage;
  }
  seconds = std::chrono::duration<double>(sum.end - sum.begin).count();
  for (auto& slot : slots) {
    if (void* block = slot.load()) {
      contender.deallocate(block);
      ++sum.frees;
    }
  }
  return sum;
}

/// Of all threads; on a machine that others use too, the steadier measure.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1024 * 1024); }

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  const std::string name = argc > 2 ? argv[2] : "";
  const bool is_known = (scenario == "basic" || scenario == "ephemeral" || scenario == "large") &&
                        (name == "malloc" || name == "heaps" || name == "reclaiming");
  if (!is_known) {
    std::fprintf(stderr,
                 "usage: heap_scenarios_bench basic|ephemeral|large malloc|heaps|reclaiming "
                 "[threads] [steps per thread]\n");
    return 1;
  }
  const auto threads = static_cast<unsigned>(argc > 3 ? std::atoi(argv[3]) : 8);
  const std::uint64_t steps = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1'000'000;
  const std::vector<Draw> draws = draw(scenario);
  Contender contender;
  if (name != "malloc") {
    strata::ThreadHeaps::Options options;
    options.reclaims = name == "reclaiming";
    contender.heaps = std::make_unique<strata::ThreadHeaps>(options);
  }
  double seconds = 0;
  const Totals proof = run(contender, scenario, draws, threads, steps / 10, true, seconds);
  const double cpu_before = cpu_seconds();
  const Totals timed = run(contender, scenario, draws, threads, steps, false, seconds);
  const double cpu = cpu_seconds() - cpu_before;
  const std::size_t at_end = strata::os::resident_bytes();
  std::size_t after[6] = {at_end};
  for (int s = 1; s <= 5; ++s) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    after[s] = strata::os::resident_bytes();
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const bool is_valid = proof.failures + proof.damage + timed.failures == 0 &&
                        timed.allocations == timed.frees && proof.allocations == proof.frees;
  std::printf(
      "%-9s %-10s threads %3u  %7.3f s  %7.3f CPU s  %6.2f M op/s  allocations %llu  frees %llu  "
      "failures %llu  "
      "peak %7.1f MiB  end %7.1f  after 3 s %7.1f  after 5 s %7.1f%s\n",
      scenario.c_str(), name.c_str(), threads, seconds, cpu,
      static_cast<double>(timed.allocations + timed.frees) / seconds / 1e6,
      static_cast<unsigned long long>(timed.allocations),
      static_cast<unsigned long long>(timed.frees),
      static_cast<unsigned long long>(proof.failures + timed.failures),
      static_cast<double>(usage.ru_maxrss) / 1024, mib(at_end), mib(after[3]), mib(after[5]),
      is_valid            ? ""
      : proof.damage != 0 ? "  INVALID: damaged blocks"
                          : "  INVALID");
  return is_valid ? 0 : 2;
}
