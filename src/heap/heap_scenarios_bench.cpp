// Three loads of many threads on several contenders, one process each, so that their memory can be
// compared:
//
//   heap_scenarios_bench SCENARIO CONTENDER [threads] [steps per thread]
//   heap_scenarios_bench compare SCENARIO [threads] [steps per thread] [rounds]
//
//   basic        threads allocate into and free from one shared array of slots at random
//   ephemeral    per thread a ring of slots; an object lives 50 to 2000 steps; 60% are of 16-256
//                bytes, 30% of 512-2048, 10% of 4096-32768
//   large        basic with sizes up to 1 MiB
//
//   malloc       the process's malloc, whichever it is (another joins by LD_PRELOAD)
//   strata       the malloc of this build, by LD_PRELOAD
//   heaps        ThreadHeaps without reclamation
//   reclaiming   ThreadHeaps with reclamation
//   limit        ephemeral only: free lists per thread and size, without tags, merging, checks or
//                sharing. What it costs is the load's own; its memory is not to be compared.
//
// `compare` runs all contenders in turn, `rounds` times, and prints medians with their range and
// the ratio of processor time and of elapsed time to malloc's.
//
// Every run first proves the contender on a tenth of the load, each byte written and compared, and
// then times the rest. A failed allocation makes the run invalid: it says so and exits with 2, and
// a comparison that such a run is part of is invalid, too.

#include <strata/thread_heaps.hpp>

#include <sys/resource.h>
#include <unistd.h>

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

#include "heap/limit_bench.h"
#include "os/resources.h"

namespace {

struct Contender {
  std::unique_ptr<strata::ThreadHeaps> heaps;  // empty: malloc
  bool is_limit = false;

  void* allocate(std::size_t bytes) {
    if (heaps) return heaps->allocate(bytes);
    return is_limit ? strata::Limit::allocate(bytes) : std::malloc(bytes);
  }
  void deallocate(void* block, std::size_t bytes) {
    if (heaps) return heaps->deallocate(block);
    is_limit ? strata::Limit::deallocate(block, bytes) : std::free(block);
  }
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
    contender.deallocate(object.block, object.bytes);
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
    contender.deallocate(old, d.bytes);
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
      contender.deallocate(block, 16);
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

/// What a run reports, in the order in which a child hands it to the comparing process.
struct Report {
  double seconds = 0;
  double cpu_seconds = 0;
  double allocations = 0;
  double frees = 0;
  double failures = 0;
  double damage = 0;
  double peak_mib = 0;
  double end_mib = 0;
  double after_3_s_mib = 0;
  double after_5_s_mib = 0;

  bool is_valid() const { return failures + damage == 0 && allocations == frees; }
  double mops() const { return (allocations + frees) / seconds / 1e6; }
};
constexpr int kFields = sizeof(Report) / sizeof(double);

Report run_all(const std::string& scenario, const std::string& name, unsigned threads,
               std::uint64_t steps) {
  const std::vector<Draw> draws = draw(scenario);
  Contender contender;
  contender.is_limit = name == "limit";
  if (name == "heaps" || name == "reclaiming") {
    strata::ThreadHeaps::Options options;
    options.reclaims = name == "reclaiming";
    contender.heaps = std::make_unique<strata::ThreadHeaps>(options);
  }
  Report report;
  const Totals proof = run(contender, scenario, draws, threads, steps / 10, true, report.seconds);
  const double cpu_before = cpu_seconds();
  const Totals timed = run(contender, scenario, draws, threads, steps, false, report.seconds);
  report.cpu_seconds = cpu_seconds() - cpu_before;
  report.allocations = static_cast<double>(timed.allocations);
  report.frees = static_cast<double>(timed.frees);
  report.failures = static_cast<double>(proof.failures + timed.failures);
  report.damage = static_cast<double>(proof.damage);
  report.end_mib = mib(strata::os::resident_bytes());
  std::this_thread::sleep_for(std::chrono::seconds(3));
  report.after_3_s_mib = mib(strata::os::resident_bytes());
  std::this_thread::sleep_for(std::chrono::seconds(2));
  report.after_5_s_mib = mib(strata::os::resident_bytes());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  report.peak_mib = static_cast<double>(usage.ru_maxrss) / 1024;
  return report;
}

void print(const std::string& name, const Report& r) {
  std::printf(
      "%-10s  %7.3f s  %7.3f CPU s  %6.2f M op/s  allocations %.0f  frees %.0f  failures %.0f  "
      "peak %7.1f MiB  end %7.1f  after 3 s %7.1f  after 5 s %7.1f%s\n",
      name.c_str(), r.seconds, r.cpu_seconds, r.mops(), r.allocations, r.frees, r.failures,
      r.peak_mib, r.end_mib, r.after_3_s_mib, r.after_5_s_mib,
      r.is_valid()      ? ""
      : r.damage != 0.0 ? "  INVALID: damaged blocks"
                        : "  INVALID");
}

/// Runs one contender in a process of its own.
Report run_child(const std::string& command) {
  Report report;
  auto* fields = reinterpret_cast<double*>(&report);
  report.failures = 1;  // until it says otherwise
  std::FILE* child = popen(command.c_str(), "r");
  if (child == nullptr) return report;
  for (int i = 0; i < kFields; ++i) {
    if (std::fscanf(child, "%lf", &fields[i]) != 1) {
      report.failures = 1;
      break;
    }
  }
  pclose(child);
  return report;
}

struct Spread {
  double median;
  double low;
  double high;
};
Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

int compare(const std::string& scenario, unsigned threads, std::uint64_t steps, int rounds) {
  std::vector<std::string> names = {"malloc", "strata", "heaps", "reclaiming"};
  if (scenario == "ephemeral") names.push_back("limit");
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return 1;
  self[length] = 0;
  std::vector<std::vector<Report>> reports(names.size());
  bool is_valid = true;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      reports[i].push_back(run_child(std::string("'") + self + "' " + scenario + " " + names[i] +
                                     " " + std::to_string(threads) + " " + std::to_string(steps) +
                                     " raw"));
      is_valid = is_valid && reports[i].back().is_valid();
    }
  }
  std::printf("%s, threads: %u, %llu steps each, median of %d [lowest-highest]\n", scenario.c_str(),
              threads, static_cast<unsigned long long>(steps), rounds);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto column = [&](double Report::*field) {
      std::vector<double> values;
      for (const Report& r : reports[i]) values.push_back(r.*field);
      return spread(values);
    };
    // Each round against the malloc of the same round, so that the machine's moods cancel.
    const auto ratio = [&](double Report::*field) {
      std::vector<double> values;
      for (std::size_t r = 0; r < reports[i].size(); ++r) {
        values.push_back(reports[0][r].*field / reports[i][r].*field);
      }
      return spread(values);
    };
    Report median = reports[i][0];
    for (double Report::*field :
         {&Report::seconds, &Report::cpu_seconds, &Report::peak_mib, &Report::end_mib,
          &Report::after_3_s_mib, &Report::after_5_s_mib}) {
      median.*field = column(field).median;
    }
    print(names[i], median);
    const Spread cpu = ratio(&Report::cpu_seconds);
    const Spread elapsed = ratio(&Report::seconds);
    const Spread peak = column(&Report::peak_mib);
    std::printf(
        "            throughput against malloc by CPU %.2f [%.2f-%.2f], elapsed %.2f [%.2f-%.2f]; "
        "peak [%.1f-%.1f]\n",
        cpu.median, cpu.low, cpu.high, elapsed.median, elapsed.low, elapsed.high, peak.low,
        peak.high);
  }
  std::printf(is_valid ? "" : "INVALID: a contender refused or damaged a block\n");
  return is_valid ? 0 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i) { return std::string(argc > i ? argv[i] : ""); };
  const auto number = [&](int i, std::uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const auto is_scenario = [](const std::string& name) {
    return name == "basic" || name == "ephemeral" || name == "large";
  };
  if (argument(1) == "compare" && is_scenario(argument(2))) {
    return compare(argument(2), static_cast<unsigned>(number(3, 8)), number(4, 1'000'000),
                   std::max(1, static_cast<int>(number(5, 5))));
  }
  const std::string scenario = argument(1);
  const std::string name = argument(2);
  const bool is_known = name == "malloc" || name == "strata" || name == "heaps" ||
                        name == "reclaiming" || (name == "limit" && scenario == "ephemeral");
  if (!is_scenario(scenario) || !is_known) {
    std::fprintf(stderr,
                 "usage: heap_scenarios_bench basic|ephemeral|large "
                 "malloc|strata|heaps|reclaiming|limit [threads] [steps per thread]\n"
                 "       heap_scenarios_bench compare basic|ephemeral|large [threads] "
                 "[steps per thread] [rounds]\n");
    return 1;
  }
  if (name == "strata" && std::getenv("LD_PRELOAD") == nullptr) {
    setenv("LD_PRELOAD", STRATA_LIBRARY, 1);
    execv("/proc/self/exe", argv);
    return 1;
  }
  const Report report =
      run_all(scenario, name, static_cast<unsigned>(number(3, 8)), number(4, 1'000'000));
  if (argument(5) == "raw") {
    const auto* fields = reinterpret_cast<const double*>(&report);
    for (int i = 0; i < kFields; ++i) std::printf("%.6f\n", fields[i]);
  } else {
    print(name, report);
  }
  return report.is_valid() ? 0 : 2;
}
